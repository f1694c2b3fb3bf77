/* One item at a time: shows it, asks, moves on. Everything from the page's data becomes text.

   Blocks of an item: {kind: "text", title, text}; {kind: "turns", title, parts}, a part being
   {said}, {pause_s}, {note} or {mark: "from"|"to", text}. */
"use strict";
(() => {
  const LEAD_S = 3;
  const page = rigData("annotate");
  const answers = rigAnswers(page, () => taken());
  const element = rigElement;
  const by = (name) => document.getElementById("annotate-" + name);
  let at = 0;
  let player = null;
  let touched = false;
  let drawn = {};  // the answers of the item as its form shows them

  /* --- an item ----------------------------------------------------------------------------- */

  const part = (p) => {
    if ("said" in p) return element("li", {}, p.said);
    if ("pause_s" in p) return element("li", { class: "pause" }, `[pause of ${p.pause_s} s]`);
    if ("note" in p) return element("li", { class: "note" }, p.note);
    return element("li", { class: "mark" }, (p.mark === "from" ? "\u25b6 " : "\u25c0 ") + p.text);
  };

  const block = (b) => element("div", {}, element("h4", {}, b.title),
    b.kind === "text" ? element("p", { class: "text" }, b.text)
      : element("ol", { class: "turns" }, ...b.parts.map(part)));

  const sound = (item) => {
    const clip = item.clip;
    const audio = element("audio", { controls: true, preload: "auto",
      "aria-label": "recording" });
    const place = element("div", {}, audio);
    const cursor = element("div", { class: "cursor" });
    const per = (s) => (100 * s / clip.length_s) + "%";
    if (clip.marks) {
      const shade = element("div", { class: "window" });
      shade.style.left = per(clip.marks[0]);
      shade.style.width = per(Math.max(0, clip.marks[1] - clip.marks[0]));
      const bar = element("div", { class: "bar", "aria-hidden": "true" }, shade, cursor);
      bar.addEventListener("click", (event) => {
        const box = bar.getBoundingClientRect();
        audio.currentTime = clip.length_s * (event.clientX - box.left) / box.width;
      });
      const where = `${clip.marks[0].toFixed(2)} to ${clip.marks[1].toFixed(2)} s`;
      place.append(bar, element("p", { class: "soft" },
        `marked window: ${where} of ${clip.length_s.toFixed(2)} s` +
        (clip.channels.length === 2 ? `; left ${clip.channels[0]}, right ${clip.channels[1]}` : "")));
    }
    const follow = () => {
      cursor.style.left = per(Math.min(clip.length_s, audio.currentTime));
      if (!audio.paused && audio.isConnected) requestAnimationFrame(follow);
    };
    for (const name of ["play", "seeked", "timeupdate"]) audio.addEventListener(name, follow);
    let address = null;
    rigPart("annotate-" + item.id).then((text) => {
      if (!audio.isConnected) return;
      address = URL.createObjectURL(new Blob([rigBytes(text)], { type: "audio/flac" }));
      audio.src = address;
    }, (error) => place.append(element("p", { class: "problem" }, error.message)));
    /* A pause before the sound has begun is the reader's own; anything else is told. */
    const play = () => audio.play().catch((error) => {
      if (error.name !== "AbortError") {
        place.append(element("p", { class: "problem" }, "the sound cannot be played: " + error.message));
      }
    });
    const close = () => {
      audio.pause();
      if (!address) return;
      audio.removeAttribute("src");
      audio.load();  // it may still be reading from what is taken back now
      URL.revokeObjectURL(address);
    };
    player = { audio, clip, play, close };
    return place;
  };

  const tell = (name, why) => {
    const line = by("problem-" + name);
    line.textContent = why || "";
    for (const input of by("form").elements) {
      if (input.name === name) input.setAttribute("aria-invalid", why ? "true" : "false");
    }
  };

  const changed = (item, name, value) => {
    const why = value === null ? null : answers.problem(name, value);
    answers.set(item.id, name, why ? null : value);
    tell(name, why);
    const values = answers.get(item.id);
    drawn[name] = values[name];
    if (item.fields.includes("latest_s") && !why && (name === "earliest_s" || name === "latest_s")) {
      tell("latest_s", values.earliest_s > values.latest_s ? "not before the earliest, please" : null);
    }
    status();
  };

  const choice = (item, name, field, value, first) => {
    const options = field.options.map(([option, label], k) => element("label", {},
      element("input", { type: "radio", name, value: option, checked: value === option,
        onchange: () => changed(item, name, option) }), " ", label,
      first ? element("kbd", { "aria-hidden": "true" }, k + 1) : null));
    return element("fieldset", {}, element("legend", {}, field.label),
      element("div", { class: "options" }, ...options),
      element("p", { class: "problem", id: "annotate-problem-" + name, role: "alert" }));
  };

  const typed = (item, name, field, value) => {
    const id = "annotate-field-" + name;
    const number = field.kind === "number";
    const input = element(number ? "input" : "textarea", {
      id, name, rows: number ? null : 2, type: number ? "text" : null,
      inputmode: number ? "decimal" : null, autocomplete: "off", size: number ? 8 : null,
      "aria-describedby": "annotate-problem-" + name,
      oninput: () => {
        const text = input.value.trim();
        const parsed = /^[+-]?(\d+(\.\d*)?|\.\d+)$/.test(text.replace(",", "."))
          ? Number(text.replace(",", ".")) : NaN;
        changed(item, name, text === "" ? null : number ? parsed : input.value);
      },
    });
    input.value = value === undefined ? "" : String(value);
    return element("fieldset", {},
      element("legend", {}, element("label", { for: id }, field.label)), input,
      field.unit ? " " + field.unit : null,
      element("p", { class: "problem", id: "annotate-problem-" + name, role: "alert" }));
  };

  const firstUndone = () => Math.max(0, page.items.findIndex((i) => answers.missing(i).length));

  const question = (item, name, value) => {
    const field = page.fields[name];
    return (field.kind === "choice" ? choice : typed)(item, name, field, value,
      name === item.fields[0]);
  };

  const ask = (item) => {
    drawn = answers.get(item.id);
    by("form").replaceChildren(...item.fields.map((name) => question(item, name, drawn[name])));
  };

  /* Answers came from another window. Whoever works here keeps the item, its sound and the place of
     typing; of this very item only the questions that were answered elsewhere are asked anew. */
  const taken = () => {
    const item = page.items[at];
    if (!touched) return show(firstUndone(), false);
    const values = item ? answers.get(item.id) : {};
    for (const [k, name] of (item ? item.fields : []).entries()) {
      if (values[name] === drawn[name]) continue;
      const before = by("form").children[k];
      const again = [...before.elements].indexOf(document.activeElement);
      const anew = question(item, name, values[name]);
      drawn[name] = values[name];
      before.replaceWith(anew);
      const input = anew.elements[again];
      if (!input) continue;
      input.focus();
      if (input.type !== "radio") input.setSelectionRange(input.value.length, input.value.length);
    }
    return status();
  };

  const show = (index, focus) => {
    at = Math.max(0, Math.min(page.items.length - 1, index));
    if (player) player.close();
    player = null;
    const item = page.items[at];
    by("blocks").replaceChildren(...item.blocks.map(block), ...(item.clip ? [sound(item)] : []));
    ask(item);
    status();
    if (focus) {
      by("heading").focus({ preventScroll: true });
      by("item").scrollIntoView({ block: "start" });
    }
  };

  const status = () => {
    const item = page.items[at];
    const done = answers.done();
    const lacking = item ? answers.missing(item).length : 0;
    by("heading").textContent = item
      ? `Item ${at + 1} of ${page.items.length}: ${lacking ? "not complete" : "complete"}`
      : "There are no items on this page";
    by("count").textContent = `${done} of ${page.items.length} complete`
      + (done === page.items.length ? ": all done, please download" : "");
    by("progress").max = Math.max(1, page.items.length);
    by("progress").value = done;
    by("saved").textContent = !answers.any ? "" : answers.kept ? "saved in this browser"
      : "NOT saved in this browser: download before you close the page";
    by("previous").disabled = at === 0;
    by("next").disabled = at >= page.items.length - 1;
  };

  const unanswered = () => {
    const n = page.items.length;
    for (let step = 1; step <= n; step += 1) {
      const index = (at + step) % n;
      if (answers.missing(page.items[index]).length) return show(index, true);
    }
    return null;
  };

  /* --- files ------------------------------------------------------------------------------- */

  const download = (text, type, ending) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = element("a", { href: address,
      download: `${page.study}.${page.annotator}.${ending}` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    answers.downloaded();
    status();
  };

  by("json").addEventListener("click", () => download(answers.json(), "application/json", "json"));
  by("csv").addEventListener("click", () => download(answers.csv(), "text/csv", "csv"));
  by("load").addEventListener("click", () => by("file").click());
  by("file").addEventListener("change", async () => {
    const file = by("file").files[0];
    if (!file) return;
    try {
      const n = answers.load(await file.text());
      show(at, false);
      by("saved").textContent = `loaded answers to ${n} items`;
    } catch (error) {
      by("saved").textContent = "not loaded: " + error.message;
    }
    by("file").value = "";
  });
  window.addEventListener("beforeunload", (event) => {
    if (answers.unsaved) event.preventDefault();
  });

  for (const name of ["keydown", "pointerdown", "focusin", "input"]) {
    document.addEventListener(name, () => { touched = true; }, { capture: true });
  }

  /* --- keys -------------------------------------------------------------------------------- */

  by("previous").addEventListener("click", () => show(at - 1, true));
  by("next").addEventListener("click", () => show(at + 1, true));
  by("unanswered").addEventListener("click", unanswered);

  const choose = (number) => {
    const first = by("form").querySelector("fieldset");
    const input = first && first.querySelectorAll("input[type=radio]")[number - 1];
    if (input) { input.click(); input.focus(); }
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("textarea, input:not([type=radio]):not([type=checkbox])");
    if (!by("keys").checked || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = event.target.closest("button, summary, a, audio, input, label");
    if (/^[1-9]$/.test(event.key)) choose(Number(event.key));
    else if (event.key === "n") show(at + 1, true);
    else if (event.key === "p") show(at - 1, true);
    else if (event.key === "u") unanswered();
    else if (event.key === "w" && player && player.clip.marks) {
      player.audio.currentTime = Math.max(0, player.clip.marks[0] - LEAD_S);
      player.play();
    } else if (event.key === " " && player && !button) {
      if (player.audio.paused) player.play(); else player.audio.pause();
    } else return;
    event.preventDefault();
  });

  by("help").open = !answers.any;
  show(firstUndone(), false);
})();
