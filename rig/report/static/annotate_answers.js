/* The answers of one page: kept, checked, saved, downloaded, loaded. No drawing here.

   rigAnswers(page, elsewhere) gives an object with
     get(id) / set(id, name, value)   answers of an item; `null` or "" removes one
     missing(item)                    names of fields that still want an answer
     problem(name, value)             why a value is no answer, or null
     done()                           how many items are complete
     json() / csv()                   the files
     load(text)                       takes a file of this page; throws an Error that says why not
     unsaved                          answers that neither the browser nor a download holds

   The page may be open twice, and a browser may hand what was kept to a page that is loaded again
   only a moment later: what is kept from another window is taken, then `elsewhere()` is called.
*/
"use strict";
(() => {
  const MAX_COMMENT = 1000;

  window.rigAnswers = (page, elsewhere) => {
    const items = new Map(page.items.map((item) => [item.id, item]));
    const place = "duplexrig-answers-" + page.page_id;
    let answers = new Map();
    const state = { kept: true, unsaved: false };

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

    const given = (id) => (answers.get(id) || {}).values || {};

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

    /* With `all`, items whose answers were taken back as well: another window must learn of that. */
    const document_ = (all) => ({
      kind: "duplexrig answers", schema_version: page.schema_version, study: page.study,
      page_id: page.page_id, annotator: page.annotator, saved: new Date().toISOString(),
      complete: done() === page.items.length,
      answers: page.items.filter((item) => answers.has(item.id) && (all || said(item.id))).map((item) => ({
        item_id: item.id, answered: answers.get(item.id).answered, ...given(item.id),
      })),
    });

    const keep = () => {
      try {
        localStorage.setItem(place, JSON.stringify(document_(true)));
        state.kept = true;
        state.unsaved = false;
      } catch {
        state.kept = false;
        state.unsaved = true;
      }
    };

    const set = (id, name, value) => {
      const values = { ...given(id) };
      if (value === null || value === "") delete values[name];
      else values[name] = value;
      answers.set(id, { answered: new Date().toISOString(), values });
      keep();
    };

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

    const load = (text) => {
      answers = read(text);
      keep();
      return answers.size;
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
      const rows = document_(false).answers.map((a) =>
        [page.page_id, page.study, page.annotator, a.item_id, a.answered,
          ...names.map((name) => a[name])]);
      return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
    };

    let before = null;
    try { before = localStorage.getItem(place); } catch { state.kept = false; }
    if (before !== null) {
      try { answers = read(before); } catch { answers = new Map(); }
    }
    window.addEventListener("storage", (event) => {
      if (event.key !== place && event.key !== null) return;
      if (event.key === null || event.newValue === null) keep();  // wiped: they are all still here
      else {
        let theirs;
        try { theirs = read(event.newValue); } catch { return; }
        // Of each item the later answer: what is new here they may not know yet.
        let news = false;
        for (const [id, own] of answers) {
          const other = theirs.get(id);
          if (other && other.answered >= own.answered) continue;
          theirs.set(id, own);
          news = true;
        }
        answers = theirs;
        if (news) keep();
      }
      elsewhere();
    });

    return {
      get: given, set, missing, problem, done, load, csv,
      json: () => JSON.stringify(document_(false), null, 1) + "\n",
      downloaded: () => { state.unsaved = false; },
      get kept() { return state.kept; },
      get unsaved() { return state.unsaved; },
      get any() { return page.items.some((item) => said(item.id)); },
    };
  };
})();
