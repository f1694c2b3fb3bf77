/* What the reader chose, in the address: "#cases?level=L1&level=L2&q=locker". A reload or a copied
   address brings it back. A plain "#section" is a jump and says nothing of the choice.

   The address follows what is shown and never holds it up: it is written behind the task that
   changed it, and seldom, as browsers refuse more than some (Safari 100 in 30 s). */
"use strict";
window.rigHash = window.rigHash || (() => {
  const SECTION = "cases";
  const LEAST_MS = 400;  // 75 in 30 s
  const REFUSED_MS = 5000;
  let present = new URLSearchParams();
  let waiting = null;
  let next_ms = 0;

  const write = () => {
    waiting = null;
    const text = present.toString();
    const place = window.location.href.split("#")[0];
    let wait_ms = LEAST_MS;
    try {
      window.history.replaceState(null, "", place + "#" + SECTION + (text ? "?" + text : ""));
    } catch {
      wait_ms = REFUSED_MS;
      waiting = setTimeout(write, wait_ms);
    }
    next_ms = performance.now() + wait_ms;
  };

  const read = () => {
    const hash = window.location.hash;
    const at = hash.indexOf("?");
    if (at < 0) return false;
    present = new URLSearchParams(hash.slice(at + 1));
    return true;
  };
  read();

  return {
    /* All values under a name. */
    all: (name) => present.getAll(name),

    /* Puts values in the place of those under a name; none takes the name away. */
    set: (name, values) => {
      const before = present.toString();
      present.delete(name);
      for (const value of values) present.append(name, value);
      if (present.toString() === before || waiting !== null) return;
      waiting = setTimeout(write, Math.max(0, next_ms - performance.now()));
    },

    /* Calls back when the reader enters or follows another address of the kind. */
    watch: (changed) => window.addEventListener("hashchange", () => { if (read()) changed(); }),
  };
})();
