/* Thresholds moved in the page. A verdict is read off the tree of its turning points; totals are
   counted as `rig score` counts them (sweeps/aggregate.py, sweeps/intervals.py, the same steps of
   floating point in the same order, so that the numbers are equal to the last bit).

     rigVerdicts.outcome(row)    name of the outcome under the settings as moved
     rigVerdicts.scored(row)     the outcome that was scored
     rigVerdicts.flags(row)      names of its flags
     rigVerdicts.moved(row)      whether a setting that its action reads was moved
     rigVerdicts.turns(row)      where the verdict turns next, in words
     rigVerdicts.allFlags        names of all flags that a row can have
     document event "rig:verdicts"   verdicts may have changed */
"use strict";
window.rigRedecide = (() => {
  const Z_95 = 1.959963984540054;

  /* The leaf of a tree: a leaf is a number, a branch is [setting, points, parts], where part i holds
     from point i - 1 on. */
  const leafOf = (tree, values) => {
    while (typeof tree !== "number") {
      const [setting, points, parts] = tree;
      let i = 0;
      while (i < points.length && points[i] <= values[setting]) i += 1;
      tree = parts[i];
    }
    return tree;
  };

  /* The settings of each run: its own, but for those that were moved (null: not moved). */
  const settingsOf = (scored, moved) =>
    scored.map((own) => own.map((value, i) => (moved[i] === null ? value : moved[i])));

  const decide = (data, runOfRow, moved) => {
    const settings = settingsOf(data.scored, moved);
    return data.trees.map((tree, row) => leafOf(tree, settings[runOfRow[row]]));
  };

  const wilson = (passed, n) => {
    if (n === 0) return null;
    const z = Z_95;
    const rate = passed / n;
    const z2 = z * z;
    const middle = (rate + z2 / (2 * n)) / (1 + z2 / n);
    const half = z / (1 + z2 / n) * Math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n));
    return [passed === 0 ? 0 : middle - half, passed === n ? 1 : middle + half];
  };

  const tally = (rows, outcomes) => {
    const count = { pass: 0, fail: 0, unscored: 0, unsupported: 0 };
    for (const row of rows) count[outcomes[row]] += 1;
    const n = count.pass + count.fail;
    return { n, passed: count.pass, rate: n > 0 ? count.pass / n : null,
      ci: wilson(count.pass, n), unscored: count.unscored, unsupported: count.unsupported };
  };

  const grouped = (rows, keyOf) => {
    const groups = new Map();
    for (const row of rows) {
      const key = keyOf(row);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
    }
    return groups;
  };

  /* By code points, as Python sorts. */
  const sorted = (names) => [...names].sort((a, b) => {
    const [x, y] = [Array.from(a), Array.from(b)];
    for (let i = 0; i < Math.min(x.length, y.length); i += 1) {
      if (x[i] !== y[i]) return x[i].codePointAt(0) - y[i].codePointAt(0);
    }
    return x.length - y.length;
  });

  /* The "ias" of scores.json for these rows, as lists of [name, entry]. `outcomes` are names by row,
     `of` gives action, level, role, live and forced of a row. */
  const totals = (data, of, rows, outcomes) => {
    const levelOf = (row) => of.level(row) || data.no_level;
    const byLevel = (some) => {
      const groups = grouped(some, levelOf);
      const known = data.levels.filter((level) => groups.has(level));
      const others = sorted([...groups.keys()].filter((level) => !data.levels.includes(level)));
      return [...known, ...others].map((level) => {
        const entry = tally(groups.get(level), outcomes);
        if (level === data.never_pooled) entry.reading = "persona_default_retention";
        return [level, entry];
      });
    };
    const pooled = (some, keyOf) => {
      const groups = grouped(some, keyOf);
      return sorted(groups.keys()).map((name) => {
        const all = groups.get(name);
        const pool = all.filter((row) => levelOf(row) !== data.never_pooled);
        return [name, { ...tally(pool, outcomes), by_level: byLevel(all) }];
      });
    };
    const core = (some) => some.filter((row) => data.core.includes(of.action(row)));
    const live = rows.filter((row) => data.live[row]);
    const unforced = rows.filter((row) => !data.forced[row]);
    return {
      core: byLevel(core(rows)), all: byLevel(rows),
      core_live: byLevel(core(live)), all_live: byLevel(live),
      core_excluding_forced: byLevel(core(unforced)), all_excluding_forced: byLevel(unforced),
      by_action: pooled(rows, of.action),
      by_role: pooled(rows.filter((row) => of.role(row) !== null), of.role),
    };
  };

  /* As Python writes a number: a tie goes to the even digit. */
  const fixed = (x, digits) => {
    const scaled = x * 10 ** digits;
    const tie = Number.isInteger(x * 2 ** (digits + 1)) && Number.isInteger(scaled * 2)
      && !Number.isInteger(scaled);
    if (!tie) return x.toFixed(digits);
    const down = Math.floor(scaled);
    return ((down % 2 === 0 ? down : down + 1) / 10 ** digits).toFixed(digits);
  };

  return { leafOf, settingsOf, decide, wilson, tally, totals, fixed };
})();

window.rigVerdicts = (() => {
  const data = window.rigData ? rigData("redecide") : null;
  const list = window.rigData ? rigData("cases") : null;
  if (!data || !list) return null;
  const rows = list.run.map((_, row) => row);
  const word = (name) => (row) => (list[name][row] === null ? null
    : list.values[name][list[name][row]]);
  const of = { action: word("action"), level: word("level"), role: word("role") };
  const scored = rows.map((row) => list.outcomes[list.outcome[row]]);
  const scoredLeaves = rigRedecide.decide(data, list.run, data.settings.map(() => null));
  const rowsOfRun = list.runs.map((_, run) => rows.filter((row) => list.run[row] === run));
  const scoredTotals = rowsOfRun.map((some) => rigRedecide.totals(data, of, some, scored));
  const actionsOf = data.settings.map((setting) => new Set(setting.actions));

  let moved = data.settings.map(() => null);
  let leaves = scoredLeaves;
  let outcomes = scored;

  const redecide = () => {
    const any = moved.some((value) => value !== null);
    leaves = any ? rigRedecide.decide(data, list.run, moved) : scoredLeaves;
    outcomes = any ? leaves.map((leaf) => data.leaves[leaf].outcome) : scored;
  };

  /* --- the form ---------------------------------------------------------------------------- */

  const form = document.getElementById("redecide-form");
  const fields = [...form.querySelectorAll("[data-setting]")].map((place) => ({
    place, range: place.querySelector("input[type=range]"),
    number: place.querySelector("input[type=number]"), note: place.querySelector(".note"),
  }));
  const status = document.getElementById("redecide-status");
  const reset = document.getElementById("redecide-reset");
  const pool = document.getElementById("redecide-pool");
  const table = document.getElementById("redecide-totals");

  const own = (i) => [...new Set(data.scored.map((values) => values[i]))];
  const valid = (i, value) => {
    const { least, largest, whole } = data.settings[i];
    return value >= least && value <= largest && (!whole || Number.isInteger(value));
  };

  const showField = (i) => {
    const { place, range, number, note } = fields[i];
    const value = moved[i] === null ? own(i)[0] : moved[i];
    range.value = value;
    if (document.activeElement !== number) {
      number.value = value;
      number.removeAttribute("aria-invalid");
    }
    place.classList.toggle("moved", moved[i] !== null);
    const setting = data.settings[i];
    note.textContent = (moved[i] === null ? "as scored: " : "moved; scored at ")
      + own(i).join(", ") + (setting.unit === "s" || setting.unit === "ms" ? " " + setting.unit : "")
      + (own(i).length > 1 ? " (runs differ)" : "")
      + (own(i).every((one) => one === setting.default) ? "" : "; default " + setting.default);
  };

  const showStatus = () => {
    if (moved.every((value) => value === null)) {
      status.textContent = "Nothing is moved: verdicts and totals as scored.";
      return;
    }
    const turned = new Map();
    let n = 0;
    for (const row of rows) {
      if (outcomes[row] === scored[row]) continue;
      const what = scored[row] + " to " + outcomes[row];
      turned.set(what, (turned.get(what) || 0) + 1);
      n += 1;
    }
    status.textContent = n + " of " + rows.length + " verdicts turn"
      + (n ? ": " + [...turned].map(([what, count]) => what + " " + count).join(", ") : "") + ".";
  };

  const cell = (entry, before) => {
    const stat = (one) => (one.rate === null ? "none scored"
      : rigRedecide.fixed(100 * one.rate, 1));
    const turned = entry.passed !== before.passed || entry.n !== before.n;
    const soft = (entry.ci ? " " + entry.ci.map((end) => rigRedecide.fixed(100 * end, 0)).join("–")
      : "") + " n=" + entry.n + (entry.unscored ? ", " + entry.unscored + " unscored" : "")
      + (turned ? "; scored " + stat(before) + (before.n === entry.n ? "" : " n=" + before.n) : "");
    return rigElement("td", turned ? { class: "turned" } : {}, stat(entry),
      rigElement("span", { class: "soft" }, soft));
  };

  const captions = {
    core: "LISTEN, READBACK, TAKE_TURN, YIELD (the published headline)", all: "nine actions",
    by_action: "all levels but " + data.never_pooled,
    by_role: "all levels but " + data.never_pooled + ", nine actions",
  };
  const showTotals = () => {
    const name = pool.value;
    const now = rowsOfRun.map((some) => new Map(
      rigRedecide.totals(data, of, some, outcomes)[name]));
    const before = scoredTotals.map((totals) => new Map(totals[name]));
    const groups = [...new Set(before.flatMap((entries) => [...entries.keys()]))];
    table.replaceChildren(
      rigElement("caption", {}, captions[name] + "; %, with 95 % Wilson interval and n"),
      rigElement("thead", {}, rigElement("tr", {}, rigElement("th", { scope: "col" }, "system"),
        ...groups.map((group) => rigElement("th", { scope: "col" }, group)))),
      rigElement("tbody", {}, ...list.runs.map((run, i) => rigElement("tr", {},
        rigElement("th", { scope: "row" }, run),
        ...groups.map((group) => (now[i].has(group)
          ? cell(now[i].get(group), before[i].get(group)) : rigElement("td", {}, "–")))))));
  };

  const show = () => {
    redecide();
    fields.forEach((_, i) => showField(i));
    reset.disabled = moved.every((value) => value === null);
    showStatus();
    showTotals();
    document.dispatchEvent(new CustomEvent("rig:verdicts"));
    rigHash.set("set", moved.flatMap((value, i) =>
      (value === null ? [] : [data.settings[i].name + ":" + value])));
  };

  /* One drawing a frame, however fast a slider is dragged. */
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; show(); });
  };

  const move = (i, value) => {
    moved[i] = own(i).length === 1 && value === own(i)[0] ? null : value;
    soon();
  };

  const fromHash = () => {
    moved = data.settings.map(() => null);
    for (const text of rigHash.all("set")) {
      const at = text.lastIndexOf(":");
      const i = data.settings.findIndex((setting) => setting.name === text.slice(0, at));
      const value = Number(text.slice(at + 1) || NaN);
      if (i >= 0 && valid(i, value)) moved[i] = value;
    }
  };

  fields.forEach(({ range, number, note }, i) => {
    range.addEventListener("input", () => { number.blur(); move(i, Number(range.value)); });
    number.addEventListener("input", () => {
      const value = number.value === "" ? NaN : Number(number.value);
      if (valid(i, value)) {
        number.removeAttribute("aria-invalid");
        move(i, value);
        return;
      }
      number.setAttribute("aria-invalid", "true");
      const { whole, largest, unit } = data.settings[i];
      note.textContent = "expected " + (whole ? "a whole number from 1" : "a number above 0")
        + (whole ? " to " : " and at most ") + largest + " " + unit;
    });
    number.addEventListener("blur", () => showField(i));
  });
  reset.addEventListener("click", () => { moved = moved.map(() => null); show(); });
  pool.addEventListener("change", showTotals);
  form.addEventListener("submit", (event) => event.preventDefault());
  rigHash.watch(() => { fromHash(); show(); });

  const units = { s: 3, ms: 1, spans: 0, ratio: 3 };
  const turns = (row) => {
    const values = rigRedecide.settingsOf([data.scored[list.run[row]]], moved)[0];
    const out = [];
    let tree = data.trees[row];
    while (typeof tree !== "number") {
      const [i, points, parts] = tree;
      const nearest = points.reduce((best, point) =>
        (Math.abs(point - values[i]) < Math.abs(best - values[i]) ? point : best));
      out.push(nearest.toFixed(units[data.settings[i].unit]) + " " + data.settings[i].unit);
      tree = parts[points.filter((point) => point <= values[i]).length];
    }
    return out.join(", ");
  };

  fromHash();
  const api = {
    outcome: (row) => outcomes[row],
    scored: (row) => scored[row],
    moved: (row) => moved.some((value, i) => value !== null && actionsOf[i].has(of.action(row))),
    flags: (row) => {
      const names = (leaf) => data.leaves[leaf].flags;
      const [before, now] = [names(scoredLeaves[row]), names(leaves[row])];
      const gone = before.filter((flag) => !now.includes(flag));
      const come = now.filter((flag) => !before.includes(flag));
      const flags = list.flags[row].map((flag) => list.flag_names[flag]);
      return gone.length + come.length === 0 ? flags
        : [...flags.filter((flag) => !gone.includes(flag)), ...come].sort();
    },
    turns,
    allFlags: [...new Set([...list.flag_names, ...data.leaves.flatMap((leaf) => leaf.flags)])]
      .sort(),
  };
  window.rigVerdicts = api;  // the first event comes from here, and its hearers ask
  show();
  return api;
})();
