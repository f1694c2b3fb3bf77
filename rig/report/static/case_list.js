/* The list of cases: filters, search, sorting, and a table of which only the rows that can be seen
   are in the document. Everything shown is text. */
"use strict";
(() => {
  const list = rigData("cases");
  const grid = document.getElementById("cases-grid");
  if (!list || !grid) return;
  const n = list.key.length;
  const NONE = "–";
  const OVERSCAN = 6;

  /* --- columns ------------------------------------------------------------------------------ */

  const named = (name) => (row) => {
    const place = list[name][row];
    return place === null ? NONE : list.values[name][place];
  };
  const amount = (value, unit) => {
    if (value === null) return NONE;
    if (unit === "spans") return value + (value === 1 ? " span" : " spans");
    return value.toFixed(3) + (unit === "ratio" ? "" : " " + unit);
  };
  const outcomeText = (row) => {
    const [now, before] = [rigVerdicts.outcome(row), rigVerdicts.scored(row)];
    return now === before ? now : before + " → " + now;
  };
  const reasonText = (row) => {
    const found = query.terms.length ? snippet(row) : null;
    if (found) return found;
    return rigVerdicts.outcome(row) === rigVerdicts.scored(row) ? list.reason[row]
      : "as scored: " + list.reason[row];
  };
  const trials = list.trial.some((trial) => trial > 1);
  const caseText = (row) => list.case_id[row] + (trials ? " t" + list.trial[row] : "");

  /* Sort keys: null stays last in both directions. */
  const rankOf = (texts) => {
    const order = new Intl.Collator("en", { numeric: true });
    const unique = [...new Set(texts)].sort(order.compare);
    const rank = new Map(unique.map((text, i) => [text, i]));
    return texts.map((text) => rank.get(text));
  };
  const ranks = new Map();
  const ranked = (name, text) => (row) => {
    if (!ranks.has(name)) ranks.set(name, rankOf(list.key.map((_, i) => text(i))));
    return ranks.get(name)[row];
  };
  const column = (name, title, text, options = {}) =>
    ({ name, title, text, sort: ranked(name, text), ...options });
  const quantity = (unit, value) => (row) => {
    const found = value(row);
    return found === null ? null : [unit(row), found];
  };
  const COLUMNS = [
    column("run", "run", (row) => list.runs[list.run[row]], { sort: (row) => list.run[row] }),
    column("case", "case", caseText),
    column("role", "role", named("role")),
    column("probe", "probe", named("probe")),
    column("level", "level", named("level")),
    column("action", "action", named("action")),
    column("outcome", "outcome", outcomeText,
      { sort: (row) => list.outcomes.indexOf(rigVerdicts.outcome(row)) }),
    column("reason", "reason", reasonText, { sort: ranked("reason", (row) => list.reason[row]) }),
    column("value", "value", (row) => amount(list.value[row], list.unit[row]), {
      number: true, sort: quantity((row) => list.unit[row], (row) => list.value[row]) }),
    column("margin", "margin", (row) => amount(list.margin[row], list.margin_unit[row]), {
      number: true, hint: (row) => list.margin_text[row],
      sort: quantity((row) => list.margin_unit[row], (row) => list.margin[row]) }),
    column("turns", "turns at", (row) => rigVerdicts.turns(row) || NONE, { number: true,
      sort: null }),
    column("flags", "flags", (row) => rigVerdicts.flags(row).join(", "), {
      sort: (row) => rigVerdicts.flags(row).length }),
  ];

  const CUT = new Set(["run", "case", "role", "probe", "reason", "flags"]);

  /* Room for the longest text of a column; `most` against a name without end. */
  const widen = (name, text, most) => {
    const style = getComputedStyle(grid);
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `bold ${style.fontSize} ${style.fontFamily}`;  // bold, as its head is
    const longest = [...new Set([name, ...list.key.map((_, row) => text(row))])]
      .sort((a, b) => b.length - a.length).slice(0, 200);
    const px = Math.max(...longest.map((one) => pen.measureText(one.slice(0, 200)).width));
    grid.style.setProperty("--" + name, `min(${Math.ceil(px)}px + .9rem, ${most}rem)`);
  };
  widen("case", caseText, 30);
  widen("role", named("role"), 12);
  widen("probe", named("probe"), 12);

  /* --- facets ------------------------------------------------------------------------------- */

  const facetCodes = {
    run: { values: list.runs, of: (row) => list.run[row] },
    outcome: { values: list.outcomes,
      of: (row) => list.outcomes.indexOf(rigVerdicts.outcome(row)) },
  };
  for (const name of ["role", "probe", "level", "action"]) {
    const values = [...list.values[name]];
    const none = list[name].includes(null) ? values.push("") - 1 : null;
    facetCodes[name] = { values, of: (row) => (list[name][row] === null ? none
      : list[name][row]) };
  }
  facetCodes.flag = { values: [...rigVerdicts.allFlags, ""], many: true };
  facetCodes.verdict = { values: ["turned by the thresholds", "as scored"],
    of: (row) => (rigVerdicts.outcome(row) === rigVerdicts.scored(row) ? 1 : 0) };

  const facets = [...document.querySelectorAll("#cases-facets [data-facet]")].map((place) => ({
    name: place.dataset.facet, place, summary: place.querySelector("summary"),
    options: place.querySelector(".options"), chosen: new Set(),
    ...facetCodes[place.dataset.facet], codes: null, counts: null, boxes: [],
  }));

  /* Codes of every row; those that hang on the thresholds are read again when these move. */
  const encode = () => {
    for (const facet of facets) {
      if (facet.many) {
        const places = new Map(facet.values.map((value, i) => [value, i]));
        facet.codes = list.key.map((_, row) => {
          const flags = rigVerdicts.flags(row);
          return flags.length ? flags.map((flag) => places.get(flag)) : [places.get("")];
        });
      } else if (facet.codes === null || facet.name === "outcome" || facet.name === "verdict") {
        facet.codes = list.key.map((_, row) => facet.of(row));
      }
    }
  };

  for (const facet of facets) {
    facet.boxes = facet.values.map((value, code) => {
      const count = rigElement("span", { class: "soft" });
      const box = rigElement("input", { type: "checkbox", onchange: () => {
        if (box.checked) facet.chosen.add(code);
        else facet.chosen.delete(code);
        changed();
      } });
      const label = rigElement("label", {}, box,
        value === "" ? (facet.many ? "no flag" : "none") : value, count);
      facet.options.append(label);
      return { box, count, label };
    });
  }

  /* --- search ------------------------------------------------------------------------------- */

  const query = { text: "", terms: [] };
  let said = null; // { texts, lower, user, model } once read
  let problem = "";
  const lowerIds = list.key.map((_, row) => caseText(row).toLowerCase());

  const termsOf = (text) => [...text.toLowerCase().matchAll(/"([^"]*)"?|\S+/g)]
    .map(([whole, quoted]) => (quoted === undefined ? whole : quoted).split(/\s+/)
      .filter(Boolean).join(" "))
    .filter(Boolean);

  const readSaid = () => rigPart("cases-transcripts").then((part) => {
    said = { ...part, lower: part.texts.map((text) => text.toLowerCase()) };
  }, (error) => { problem = "what was said cannot be searched: " + error.message; said = {
    texts: [], lower: [], user: list.key.map(() => null), model: list.key.map(() => null),
    most: 0, cut: [] }; });

  const searched = () => {
    if (!query.terms.length) return null;
    const hits = query.terms.map((term) => said.lower.map((text) => text.includes(term)));
    const found = new Uint8Array(n);
    for (let row = 0; row < n; row += 1) {
      const [user, model] = [said.user[row], said.model[row]];
      found[row] = query.terms.every((term, i) => (user !== null && hits[i][user])
        || (model !== null && hits[i][model]) || lowerIds[row].includes(term)) ? 1 : 0;
    }
    return found;
  };

  const snippet = (row) => {
    for (const side of ["model", "user"]) {
      const place = said === null ? null : said[side][row];
      if (place === null) continue;
      for (const term of query.terms) {
        const at = said.lower[place].indexOf(term);
        if (at < 0) continue;
        const from = at < 24 ? 0 : at - 16;
        return side + ": " + (from ? "…" : "") + said.texts[place].slice(from, at + 160);
      }
    }
    return null;
  };

  /* --- what is shown ------------------------------------------------------------------------ */

  const sorting = { name: null, down: false };
  let shown = [];
  let active = 0;
  let version = 0;

  const passes = (facet, row) => {
    if (!facet.chosen.size) return true;
    const code = facet.codes[row];
    return facet.many ? code.some((one) => facet.chosen.has(one)) : facet.chosen.has(code);
  };

  /* A facet counts the rows that pass all the others: what choosing another value would show. */
  const filter = () => {
    const found = searched();
    for (const facet of facets) facet.counts = new Uint32Array(facet.values.length);
    const add = (facet, row) => {
      if (facet.many) for (const code of facet.codes[row]) facet.counts[code] += 1;
      else facet.counts[facet.codes[row]] += 1;
    };
    shown = [];
    for (let row = 0; row < n; row += 1) {
      if (found !== null && !found[row]) continue;
      let failed = null;
      let failures = 0;
      for (const facet of facets) {
        if (!passes(facet, row)) { failed = facet; failures += 1; }
      }
      if (failures === 0) {
        shown.push(row);
        for (const facet of facets) add(facet, row);
      } else if (failures === 1) add(failed, row);
    }
  };

  const compare = (a, b) => {
    if (Array.isArray(a)) {
      return a[0] === b[0] ? a[1] - b[1] : a[0] < b[0] ? 1 : -1; // seconds before ratios
    }
    return a - b;
  };
  const sort = () => {
    const by = COLUMNS.find((one) => one.name === sorting.name);
    if (!by) return;
    const keys = new Map(shown.map((row) => [row, by.sort(row)]));
    const sign = sorting.down ? -1 : 1;
    shown.sort((x, y) => {
      const [a, b] = [keys.get(x), keys.get(y)];
      if (a === null || b === null) return a === b ? x - y : a === null ? 1 : -1;
      return sign * compare(a, b) || x - y;
    });
  };

  const showFacets = () => {
    for (const facet of facets) {
      facet.place.classList.toggle("chosen", facet.chosen.size > 0);
      const chosen = [...facet.chosen].map((code) => facet.values[code] || "none");
      facet.summary.textContent = facet.name + (chosen.length ? ": " + chosen.join(", ") : "");
      facet.boxes.forEach(({ box, count, label }, code) => {
        box.checked = facet.chosen.has(code);
        count.textContent = facet.counts[code];
        label.hidden = facet.counts[code] === 0 && !box.checked;
      });
    }
  };

  const status = document.getElementById("cases-status");
  const clear = document.getElementById("cases-clear");
  const search = document.getElementById("cases-search");
  const narrowed = () => query.text !== "" || facets.some((facet) => facet.chosen.size);

  const refresh = (stay) => {
    filter();
    sort();
    showFacets();
    const cut = query.terms.length && said ? (said.cut || []).length : 0;
    status.textContent = shown.length + " of " + n + " cases" + (problem ? "; " + problem : "")
      + (cut ? "; " + cut + (cut === 1 ? " case says" : " cases say") + " more than is searched: the first "
        + said.most + " characters a side" : "");
    clear.disabled = !narrowed();
    grid.setAttribute("aria-rowcount", shown.length + 1);
    for (const { name, head } of heads) {
      head.setAttribute("aria-sort", sorting.name !== name ? "none"
        : sorting.down ? "descending" : "ascending");
    }
    active = Math.max(0, stay === undefined ? 0 : shown.indexOf(stay));
    if (stay === undefined) grid.scrollTop = 0;
    version += 1;
    draw();
  };

  const store = () => {
    for (const facet of facets) {
      rigHash.set(facet.name, [...facet.chosen].map((code) => facet.values[code]));
    }
    rigHash.set("q", query.text === "" ? [] : [query.text]);
    rigHash.set("sort", sorting.name === null ? []
      : [(sorting.down ? "-" : "") + sorting.name]);
  };

  const changed = () => {
    store();
    if (query.terms.length && said === null) {
      status.textContent = "reading what was said";
      readSaid().then(() => refresh());
    } else refresh();
  };

  const ask = (text) => { query.text = text; query.terms = termsOf(text); };

  const fromHash = () => {
    for (const facet of facets) {
      const values = rigHash.all(facet.name);
      facet.chosen = new Set(facet.values.flatMap((value, code) =>
        (values.includes(value) ? [code] : [])));
    }
    ask(rigHash.all("q")[0] || "");
    search.value = query.text;
    const by = rigHash.all("sort")[0] || "";
    const name = by.replace(/^-/, "");
    const known = COLUMNS.some((one) => one.name === name && one.sort !== null);
    sorting.name = known ? name : null;
    sorting.down = by.startsWith("-");
  };

  /* --- the table ---------------------------------------------------------------------------- */

  const heads = COLUMNS.map(({ name, title, sort: key, number }) => {
    const cell = rigElement("span", { role: "columnheader",
      class: name + (number ? " number" : "") }, key === null ? title
      : rigElement("button", { type: "button", onclick: () => {
        sorting.down = sorting.name === name && !sorting.down;
        sorting.name = name;
        store();
        refresh();
      } }, title));
    return { name, head: cell };
  });
  const body = rigElement("div", { class: "body", role: "rowgroup" });
  const headRow = rigElement("div", { role: "row", class: "columns", "aria-rowindex": 1 },
    ...heads.map(({ head }) => head));
  grid.append(rigElement("div", { class: "head", role: "rowgroup" }, headRow), body);
  grid.setAttribute("aria-colcount", COLUMNS.length);

  const pool = [];
  const made = (slot) => {
    const cells = COLUMNS.map(({ name, number }) => rigElement("span",
      { role: "gridcell", class: name + (number ? " number" : "") }));
    const element = rigElement("div", { role: "row", class: "columns", id: "cases-row-" + slot },
      ...cells);
    element.addEventListener("click", () => { go(pool[slot].index); open(); });
    return { element, cells, index: -1, version: -1 };
  };

  const fill = (slot, index) => {
    const one = pool[slot];
    if (one.index !== index || one.version !== version) {
      const row = shown[index];
      one.index = index;
      one.version = version;
      one.element.style.top = index * rowHeight + "px";
      one.element.setAttribute("aria-rowindex", index + 2);
      COLUMNS.forEach(({ name, text, hint }, i) => {
        const cell = one.cells[i];
        const words = text(row);
        if (cell.textContent !== words) cell.textContent = words;
        const more = hint ? hint(row) : CUT.has(name) ? words : "";
        if (more) cell.title = more;
        else cell.removeAttribute("title");
        if (name === "outcome") {
          const now = rigVerdicts.outcome(row);
          cell.className = "outcome " + now
            + (now === rigVerdicts.scored(row) ? "" : " turned");
        } else if (name === "margin") cell.classList.toggle("soft", rigVerdicts.moved(row));
      });
    }
    one.element.classList.toggle("active", index === active);
    one.element.setAttribute("aria-selected", index === active);
  };

  let rowHeight = 28;
  const draw = () => {
    rowHeight = parseFloat(getComputedStyle(grid).getPropertyValue("--row")) || 28;
    body.style.height = shown.length * rowHeight + "px";
    const fits = Math.ceil(grid.clientHeight / rowHeight) + 2 * OVERSCAN;
    const first = Math.max(0, Math.floor(grid.scrollTop / rowHeight) - OVERSCAN);
    const last = Math.min(shown.length, first + fits);
    while (pool.length < fits) {
      pool.push(made(pool.length));
      body.append(pool[pool.length - 1].element);
    }
    pool.forEach((one, slot) => {
      const index = first + ((slot - first) % pool.length + pool.length) % pool.length;
      one.element.hidden = index >= last;
      if (index < last) fill(slot, index);
      else one.index = -1;
    });
    const slot = active % pool.length;
    if (shown.length && pool[slot].index === active) {
      grid.setAttribute("aria-activedescendant", "cases-row-" + slot);
    } else grid.removeAttribute("aria-activedescendant");
  };

  const go = (index) => {
    active = Math.min(Math.max(index, 0), Math.max(shown.length - 1, 0));
    const top = active * rowHeight;
    const height = grid.clientHeight - headRow.offsetHeight;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top + rowHeight > grid.scrollTop + height) grid.scrollTop = top + rowHeight - height;
    draw();
  };

  const open = () => {
    if (shown.length && window.rigOpenCase) rigOpenCase(list.key[shown[active]]);
  };

  const page = () => Math.max(1, Math.floor(grid.clientHeight / rowHeight) - 2);
  const MOVES = {
    ArrowDown: () => active + 1, ArrowUp: () => active - 1, PageDown: () => active + page(),
    PageUp: () => active - page(), Home: () => 0, End: () => shown.length - 1,
  };
  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid || event.ctrlKey || event.altKey || event.metaKey) return;
    if (MOVES[event.key]) go(MOVES[event.key]());
    else if (event.key === "Enter") open();
    else return;
    event.preventDefault();
  });

  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  grid.addEventListener("scroll", soon);
  new ResizeObserver(() => { version += 1; soon(); }).observe(grid);

  search.addEventListener("input", () => { ask(search.value); changed(); });
  clear.addEventListener("click", () => {
    for (const facet of facets) facet.chosen.clear();
    ask("");
    search.value = "";
    changed();
  });
  document.addEventListener("rig:verdicts", () => { encode(); refresh(shown[active]); });
  document.addEventListener("rig:case", (event) => {
    const index = shown.findIndex((row) => list.key[row] === event.detail.key);
    if (index >= 0 && index !== active) go(index);
  });
  rigHash.watch(() => { fromHash(); changed(); });

  encode();
  fromHash();
  changed();
})();
