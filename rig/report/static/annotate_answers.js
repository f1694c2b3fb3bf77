/* The answers of one page: kept, checked, saved, downloaded, loaded. No drawing here.

   rigAnswers(page, elsewhere) gives an object with
     get(id) / set(id, name, value)   answers of an item; `null` or "" removes one
     missing(item)                    names of fields that still want an answer
     problem(name, value)             why a value is no answer, or null
     done()                           how many items are complete
     json() / csv()                   the files
     load(text)                       takes a file of this page; throws an Error that says why not
     unsaved                          answers that neither the browser nor a download holds

   The page may be open twice, and a browser tells one window late what another has kept, or never.
   So each answer is kept under a name of its own, where windows do not overwrite each other, and what is
   kept is looked at again: when the browser tells of it, when somebody comes back, and every second. Of
   two answers to one question the later one holds, whatever the clock says. When another window has
   answered something, or the browser begins or ceases to keep answers, `elsewhere()` is called.

   A busy Chromium (seen in 156) now and then gives a page a localStorage that no other page shares, and
   nothing says so. So windows tell each other as well, and a window that is loaded again has its own.
*/
"use strict";
(() => {
  const MAX_COMMENT = 1000;
  const LOOK_MS = 1000;
  const ALL = "all";  // asked of other windows

  window.rigAnswers = (page, elsewhere) => {
    const items = new Map(page.items.map((item) => [item.id, item]));
    const place = "duplexrig-answers-" + page.page_id;
    /* By item, then by question: {value, order, answered, text}. `value` null: taken back. Of two
       answers to a question the later one has the greater `order`: the time in ms, or one more than
       that of the answer before, as a clock may stand still or step back. `text`: as it is kept. */
    const answers = new Map(page.items.map((item) => [item.id, new Map()]));
    const unkept = new Set();
    const state = { readable: true, older: null, changes: 0, downloaded: 0 };

    const problem = (name, value) => {
      const field = page.fields[name];
      if (field.kind === "number") {
        if (typeof value !== "number" || !Number.isFinite(value)) return "a number, please";
        if (value < field.low || value > field.high) return `${field.low} to ${field.high}, please`;
        if (field.whole && !Number.isInteger(value)) return "a whole number, please";
        return null;
      }
      if (typeof value !== "string") return "text, please";
      if (field.kind === "text") {
        return [...value].length > MAX_COMMENT ? `at most ${MAX_COMMENT} characters, please` : null;
      }
      return field.options.some(([option]) => option === value) ? null : "no such answer";
    };

    const given = (id) => {
      const values = {};
      for (const name of items.get(id).fields) {
        const own = answers.get(id).get(name);
        if (own && own.value !== null) values[name] = own.value;
      }
      return values;
    };

    const missing = (item) => {
      const values = given(item.id);
      const out = item.fields.filter((name) => {
        const field = page.fields[name];
        if (!field.required || name in values) return false;
        const waived = field.waived_by;
        return !(waived && waived[1].includes(values[waived[0]]));
      });
      if (values.earliest_s > values.latest_s) out.push("latest_s");
      return out;
    };

    const said = (id) => Object.keys(given(id)).length > 0;

    /* In every window the same one of two. */
    const later = (a, b) => (a.order === b.order ? a.text > b.text : a.order > b.order);

    const last = (id) => [...answers.get(id).values()].reduce((a, b) => (later(b, a) ? b : a));

    const document_ = () => ({
      kind: "duplexrig answers", schema_version: page.schema_version, study: page.study,
      page_id: page.page_id, annotator: page.annotator, saved: new Date().toISOString(),
      complete: done() === page.items.length,
      answers: page.items.filter((item) => said(item.id)).map((item) => ({
        item_id: item.id, answered: last(item.id).answered, ...given(item.id),
      })),
    });

    const done = () => page.items.filter((item) => missing(item).length === 0).length;

    const read = (text) => {
      let found;
      try { found = JSON.parse(text); } catch { throw new Error("this file is no JSON"); }
      if (!found || found.kind !== "duplexrig answers" || !Array.isArray(found.answers)) {
        throw new Error("this file holds no answers of such a page");
      }
      if (found.page_id !== page.page_id) {
        throw new Error("these answers belong to another page (" + String(found.annotator) + ")");
      }
      const taken = new Map();
      for (const entry of found.answers) {
        const item = items.get(entry.item_id);
        if (!item || taken.has(entry.item_id)) throw new Error("an item is unknown or comes twice");
        const values = {};
        for (const [name, value] of Object.entries(entry)) {
          if (name === "item_id" || name === "answered") continue;
          if (!item.fields.includes(name)) throw new Error("an answer is to no question: " + name);
          const why = problem(name, value);
          if (why) throw new Error(name + ": " + why);
          values[name] = value;
        }
        taken.set(entry.item_id, { answered: String(entry.answered), values });
      }
      return taken;
    };

    /* --- what other windows are told --------------------------------------------------------- */

    const windows = typeof BroadcastChannel === "function" ? new BroadcastChannel(place) : null;

    const tell = (entries) => { if (windows && entries.length) windows.postMessage(entries); };

    /* --- what the browser keeps -------------------------------------------------------------- */

    const nameOf = (id, name) => place + "/" + id + "/" + name;

    const kept = (where) => {
      try {
        const text = localStorage.getItem(where);
        state.readable = true;
        return text;
      } catch {
        state.readable = false;
        return null;
      }
    };

    const keep = (where, text) => {
      try { sessionStorage.setItem(where, text); } catch { /* it is the second place */ }
      try {
        localStorage.setItem(where, text);
        unkept.delete(where);
      } catch { unkept.add(where); }
    };

    /* Whether it was later than what is here. */
    const take = (id, name, text) => {
      const other = typeof text === "string" ? answerOf(name, text) : null;
      const own = answers.get(id).get(name);
      if (!other || (own && !later(other, own))) return false;
      answers.get(id).set(name, other);
      return true;
    };

    const answerOf = (name, text) => {
      let found;
      try { found = JSON.parse(text); } catch { return null; }
      if (!found || !Number.isSafeInteger(found.order) || typeof found.answered !== "string") return null;
      return found.value === null || problem(name, found.value) === null ? { ...found, text } : null;
    };

    const put = (id, name, value, answered) => {
      const where = nameOf(id, name);
      const known = [answers.get(id).get(name), answerOf(name, kept(where))];
      const order = Math.max(Date.now(), ...known.map((one) => (one ? one.order + 1 : 0)));
      const text = JSON.stringify({ value, order, answered });
      answers.get(id).set(name, { value, order, answered, text });
      keep(where, text);
      tell([[id, name, text]]);
    };

    /* A page made before answers had names of their own kept them all in one text. */
    const older = () => {
      const text = kept(place);
      if (text === null || text === state.older) return false;
      state.older = text;
      let found;
      try { found = read(text); } catch { return false; }
      let news = false;
      for (const [id, { answered, values }] of found) {
        for (const [name, value] of Object.entries(values)) {
          const order = Date.parse(answered) || 0;
          if (take(id, name, JSON.stringify({ value, order, answered }))) news = true;
        }
      }
      return news;
    };

    /* Takes what is kept and later, keeps what is here and later or not kept; whether any came. */
    const look = () => {
      let news = older();
      for (const [id, mine] of answers) {
        for (const name of items.get(id).fields) {
          const where = nameOf(id, name);
          const text = kept(where);
          unkept.delete(where);
          if (take(id, name, text)) news = true;
          const own = mine.get(name);
          if (own && own.text !== text) keep(where, own.text);  // or not, as `keep` says
        }
      }
      return news;
    };

    const set = (id, name, value) => {
      put(id, name, value === "" ? null : value, new Date().toISOString());
      state.changes += 1;
    };

    const load = (text) => {
      const taken = read(text);
      look();
      for (const item of page.items) {
        const { answered, values } = taken.get(item.id)
          || { answered: new Date().toISOString(), values: {} };
        for (const name of item.fields) {
          if (name in values || answers.get(item.id).has(name)) {
            put(item.id, name, name in values ? values[name] : null, answered);
          }
        }
      }
      state.changes += 1;
      return taken.size;
    };

    // Text that a spreadsheet would run as a formula gets a ' in front, and so does text that looks
    // as if it had got one: `rig agree` takes exactly one away (rig/validation/answers.py).
    const guarded = (text) => (/^'*[=+\-@\t\r\n]/.test(text) ? "'" + text : text);

    const cell = (value) => {
      const text = value === undefined ? ""
        : typeof value === "string" ? guarded(value) : String(value);
      return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };

    const csv = () => {
      const names = Object.keys(page.fields);
      const head = ["page_id", "study", "annotator", "item_id", "answered", ...names];
      const rows = document_().answers.map((a) =>
        [page.page_id, page.study, page.annotator, a.item_id, a.answered,
          ...names.map((name) => a[name])]);
      return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
    };

    for (const id of answers.keys()) {
      for (const name of items.get(id).fields) {
        try { take(id, name, sessionStorage.getItem(nameOf(id, name))); } catch { break; }
      }
    }
    look();
    const allKept = () => state.readable && unkept.size === 0;
    const again = () => {
      const before = allKept();
      if (look() || allKept() !== before) elsewhere();
    };
    if (windows) {
      windows.onmessage = ({ data }) => {
        if (data === ALL) {
          tell([...answers].flatMap(([id, mine]) =>
            [...mine].map(([name, own]) => [id, name, own.text])));
        } else if (Array.isArray(data)) {
          const news = data.filter((entry) => Array.isArray(entry) && items.has(entry[0])
            && items.get(entry[0]).fields.includes(entry[1]) && take(...entry));
          if (news.length) { look(); elsewhere(); }
        }
      };
      windows.postMessage(ALL);
    }
    for (const name of ["storage", "focus", "pageshow"]) window.addEventListener(name, again);
    document.addEventListener("visibilitychange", again);
    setInterval(again, LOOK_MS);

    return {
      get: given, set, missing, problem, done, load, csv,
      json: () => JSON.stringify(document_(), null, 1) + "\n",
      downloaded: () => { state.downloaded = state.changes; },
      get kept() { return allKept(); },
      get unsaved() { return !allKept() && state.changes !== state.downloaded; },
      get any() { return page.items.some((item) => said(item.id)); },
    };
  };
})();
