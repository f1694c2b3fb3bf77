/* The case view: chooses a case, reads its part, draws its timeline, plays its sound, tells its
   verdict. Defines rigOpenCase (see rig/report/page.py). */
"use strict";
(() => {
  const data = rigData("case");
  const cases = data.cases.map(([key, outcome, action, sound]) => ({ key, outcome, action, sound,
    run: Number(key.slice(0, key.indexOf("/"))), name: key.slice(key.indexOf("/") + 1) }));
  const places = new Map(cases.map((one, place) => [one.key, place]));
  const at = (id) => document.getElementById("case-" + id);
  const root = document.getElementById("case-view");
  if (!cases.length) {
    root.replaceChildren(rigElement("p", {}, "These runs hold no cases."));
    window.rigOpenCase = () => false;
    return;
  }
  /* Verdicts as they are now: those of the thresholds as moved, where the page has them. */
  const list = rigData("cases");
  const rows = new Map((list ? list.key : []).map((key, row) => [key, row]));
  const outcomeNow = (one) => {
    const row = window.rigVerdicts ? rows.get(one.key) : undefined;
    return row === undefined ? one.outcome : rigVerdicts.outcome(row);
  };
  const movedNow = (one) => {
    const row = window.rigVerdicts ? rows.get(one.key) : undefined;
    return row !== undefined && rigVerdicts.moved(row);
  };
  const failing = (one) => outcomeNow(one) === "fail";
  const timeline = new RigTimeline(at("timeline"), "timeline of the case; arrow keys move the cursor");
  const player = new RigPlayer();
  let place = -1;
  let shown = null;
  let shownAt = -1;  // the place that `shown` belongs to: another may have been asked for since
  let loaded = "";   // the part whose sound the player holds
  let soundTurn = 0;
  let resume = null; // where the player was when another sound was asked for, in seconds
  let side = null;   // until the reader chooses: the playout that was scored

  /* --- choosing ------------------------------------------------------------------------------ */

  data.runs.forEach((name, index) => at("run").append(rigElement("option", { value: index }, name)));

  const choiceText = (one) => {
    const now = outcomeNow(one);
    return `${one.name} · ${now === one.outcome ? now : one.outcome + " → " + now}`
      + (one.sound ? " ♪" : "");
  };

  const count = () => {
    const n = cases.filter(failing).length;
    const turned = cases.some((one) => outcomeNow(one) !== one.outcome);
    at("count").textContent = `${place + 1} of ${cases.length}, ${n} failing`
      + (turned ? " under the thresholds as moved" : "");
    at("next-failing").disabled = n === 0;
  };

  const listRun = (run) => {
    if (at("choice").dataset.run === String(run)) return;
    at("choice").dataset.run = run;
    at("choice").replaceChildren(...cases.flatMap((one, index) => one.run !== run ? []
      : [rigElement("option", { value: index }, choiceText(one))]));
  };

  const open = async (index) => {
    const one = cases[index];
    place = index;
    player.clear();
    soundTurn += 1;
    resume = null;
    at("run").value = one.run;
    listRun(one.run);
    at("choice").value = index;
    count();
    let part;
    try {
      part = await rigPart("case-" + index);
    } catch (error) {
      if (place !== index) return;
      shown = null;
      at("head").replaceChildren(rigElement("p", { class: "fail" }, error.message));
      return;
    }
    if (place !== index) return;
    shown = part;
    shownAt = index;
    draw(true);
    if (window.rigHash) rigHash.set("case", [one.key]);
    document.dispatchEvent(new CustomEvent("rig:case", { detail: { key: one.key } }));
    await loadSound();
  };

  window.rigOpenCase = (key) => {
    const index = places.get(key);
    if (index === undefined) return false;
    open(index);
    document.getElementById("case").scrollIntoView({ block: "start" });
    timeline.canvas.focus({ preventScroll: true });
    return true;
  };

  const step = (by, wanted) => {
    for (let i = 1; i <= cases.length; i++) {
      const index = (place + by * i % cases.length + cases.length) % cases.length;
      if (wanted(cases[index])) { open(index); return; }
    }
  };
  const any = () => true;
  at("run").addEventListener("change", () => {
    const run = Number(at("run").value);
    const first = cases.findIndex((one) => one.run === run);
    const worst = cases.findIndex((one) => one.run === run && failing(one));
    if (first >= 0) open(worst >= 0 ? worst : first);
  });
  at("choice").addEventListener("change", () => open(Number(at("choice").value)));
  at("previous").addEventListener("click", () => step(-1, any));
  at("next").addEventListener("click", () => step(1, any));
  at("next-failing").addEventListener("click", () => step(1, failing));

  /* --- the picture --------------------------------------------------------------------------- */

  /* Of hold and flush, the one whose data is drawn: where nothing was interrupted they are one. */
  const policy = () => {
    const wanted = side === "hold" || side === "flush" ? side : shown.scored_playout;
    return wanted === "flush" && shown.verdict.flush ? "flush" : "hold";
  };

  const verdict = () => shown.verdict[policy()] || shown.verdict[shown.scored_playout];

  const spec = () => {
    const of = (map) => map ? map[policy()] || map.hold || null : null;
    const words = (found) => found ? found.words : [];
    const waves = shown.waves || { user: null, model: null };
    const modelWords = of(shown.model_words);
    const lanes = [
      { kind: "wave", label: "user", colour: "user", wave: waves.user, spans: shown.spans.user },
      { kind: "words", label: "", colour: "user", words: words(shown.user_words) },
      { kind: "wave", label: "model, " + policy(), colour: "model", wave: of(waves.model),
        spans: of(shown.spans.model) || [] },
      { kind: "words", label: "", colour: "model", words: words(modelWords) },
    ];
    if (side === "arrivals") {
      lanes.push({ kind: "steps", label: "arrived and not heard yet", colour: "model",
        points: shown.waiting || [], unit: "s" });
    }
    lanes.push({ kind: "curve", label: "speech probability of the model's side", colour: "probability",
      curve: of(shown.probability), line: shown.threshold });
    lanes.push({ kind: "events", label: "", colour: "event", events: shown.events || [] });
    return { duration_s: shown.duration_s, lanes, bands: shown.windows, marks: verdict().marks };
  };

  const draw = (fresh) => {
    if (fresh) timeline.show(spec());
    else timeline.change(spec());
    head();
    note();
    details();
    for (const button of root.querySelectorAll("[data-side]")) {
      button.setAttribute("aria-pressed", String(button.dataset.side === (side || policy())));
    }
    timing(timeline.at);
  };

  const number = (value) => typeof value === "number" && !Number.isInteger(value)
    ? value.toFixed(3) : String(value);
  const amount = (value, unit) => value === null || value === undefined ? "–"
    : number(value) + (unit ? " " + unit : "");

  const head = () => {
    const found = verdict();
    const name = `${shown.case_id} t${shown.trial}`;
    const one = cases[shownAt];
    const now = outcomeNow(one);
    const turned = now !== one.outcome;
    const other = policy() !== shown.scored_playout;
    const badge = (outcome, words) => rigElement("span", { class: "verdict " + outcome },
      outcome.toUpperCase() + words);
    const under = other ? ` · under ${policy()}; scored under ${shown.scored_playout}: ${one.outcome}` : "";
    at("head").replaceChildren(
      rigElement("h3", {}, badge(found.outcome, turned ? " as scored" : ""),
        turned ? " " : null, turned ? badge(now, " under the thresholds as moved"
          + (other ? " and " + shown.scored_playout : "")) : null,
        ` ${name} · ${shown.action} expected · ` + data.runs[one.run] + under),
      rigElement("p", {}, (turned ? "as scored: " : "") + found.reason));
  };

  const note = () => {
    const parts = [];
    if (shown.problem) parts.push("no picture: " + shown.problem);
    if (side === "flush" && !shown.verdict.flush) {
      parts.push("nothing was interrupted here: flush is the same as hold");
    }
    const alignment = { uniform: "the user's words are spread evenly, not aligned",
      segments: "the run holds no times of the user's words: each segment's text is drawn over its length" };
    const words = shown.user_words;
    if (words && alignment[words.alignment]) parts.push(alignment[words.alignment]);
    if (shown.model_words && Object.values(shown.model_words).some((w) => w && w.words.length)) {
      parts.push("times of the model's words are estimates");
    }
    if (shown.waves) {
      const rate = shown.waves.user.rate_hz;
      if (rate < 99) parts.push(`long recording: waves at ${rate.toFixed(1)} points a second`);
    }
    if (movedNow(cases[shownAt])) {
      parts.push("bounds, margins and reasons are those of the thresholds as scored, not as moved");
    }
    if (!shown.problem && !cases[shownAt].sound) {
      parts.push(`its sound is not in this page (--audio): ${shown.recording}`);
    }
    if (shown.events_left_out) parts.push(`${shown.events_left_out} more events are not drawn`);
    at("note").textContent = parts.join(" · ");
  };

  /* `words`: the last column is text, and may be long. */
  const table = (caption, heads, rows, words) => rows.length === 0 ? null
    : rigElement("div", { class: words ? "scroll words-last" : "scroll", tabindex: 0 }, rigElement("table", {},
      rigElement("caption", {}, caption),
      rigElement("tr", {}, ...heads.map((text) => rigElement("th", { scope: "col" }, text))),
      ...rows.map((row) => rigElement("tr", {}, ...row.map((value) => rigElement("td", {}, value))))));

  const milli = (value) => value.toFixed(3).replace(/^-(0\.000)$/, "$1");

  /* What decided and what was planned on the left, all that was measured on the right; below, texts. */
  const details = () => {
    const found = verdict();
    const left = [];
    const right = [];
    const out = [];
    const how = found.deciding;
    if (how && how.margin !== null) {
      const least = how.at_least ? "at least " : "";
      left.push(table("decided by", ["quantity", "value", "bound", "margin"], [[how.quantity,
        least + amount(how.value, how.unit),
        `${how.bound_name} ${amount(how.bound, how.unit)}`, amount(how.margin, how.unit)]]));
    } else if (found.value !== null || found.limit !== null) {
      left.push(table("decided by", ["value", "limit"],
        [[amount(found.value, found.unit), amount(found.limit, found.unit)]]));
    }
    const others = Object.entries(shown.verdict).filter(([name]) => name !== policy())
      .map(([name, one]) => ["playout " + name, one.outcome, one.reason]);
    for (const [name, outcome, reason] of shown.alternates) others.push([name, outcome, reason]);
    left.push(table("other readings of this case", ["reading", "outcome", "why"], others, true));
    const fromWindow = new Set(["genuine_onset_s", "first_offset_s", "first_offset_at_least_s"]);
    const measuredRows = (inside) => found.measured.filter(([name]) => fromWindow.has(name) === inside)
      .map(([name, value]) => [name, number(value)]);
    right.push(table("measured", ["what", "value"], measuredRows(false)));
    right.push(table("measured, from the window's start", ["what", "s"], measuredRows(true)));
    left.push(table("schedule, s from the session's begin", ["moment", "planned", "was", "later than the plan",
      "the plan"], (shown.schedule || []).map(([name, plan, how, was, after]) => [name,
      plan === null ? "–" : milli(plan), milli(was), after === null ? "–" : milli(was - after), how]), true));
    if (shown.timing) {
      const t = shown.timing;
      left.push(table(`${t.clock} time: how late frames were sent, ms`, ["p99", "most", "most near the window"],
        [[amount(t.late_p99_ms), amount(t.late_max_ms), amount(t.late_max_near_window_ms)]]));
    }
    if (shown.flags.length) out.push(rigElement("p", {}, "flags: " + shown.flags.join(", ")));
    if (shown.conditions) out.push(rigElement("p", {}, "line conditions: " + shown.conditions.join(", ")));
    const text = (title, content) => content ? rigElement("details", {},
      rigElement("summary", {}, title), rigElement("p", { class: "text" }, content)) : null;
    const spoken = shown.user_words;
    out.push(text("what the user said", spoken ? spoken.words.map(([word]) => word).join(" ")
      + (spoken.left_out ? ` … and ${spoken.left_out} words more` : "") : ""));
    const cut = shown.text_left_out ? ` … and ${shown.text_left_out} characters more` : "";
    out.push(text("what the model said: all text that came, heard or not",
      shown.text ? shown.text + cut : ""));
    out.push(text("what was to be read back", shown.target));
    out.push(text("prompt", shown.prompt));
    const column = (side, some) => rigElement("div", { class: side }, ...some);
    at("details").replaceChildren(column("left", left), column("right", right), ...out.filter((one) => one !== null));
  };

  for (const button of root.querySelectorAll("[data-side]")) {
    button.addEventListener("click", () => chooseSide(button.dataset.side));
  }
  const chooseSide = (name) => {
    side = name;
    if (!shown || shownAt !== place) return;  // drawn when the case has been read
    draw(false);
    loadSound();
  };

  document.addEventListener("rig:verdicts", () => {
    for (const option of at("choice").options) {
      const text = choiceText(cases[Number(option.value)]);
      if (option.textContent !== text) option.textContent = text;
    }
    count();
    if (!shown || shownAt !== place) return;
    head();
    note();
  });

  /* --- sound --------------------------------------------------------------------------------- */

  /* Reading and decoding take their time, and the reader may want another sound meanwhile: only the
     latest call may change anything, and it goes on where the first one stopped the player. */
  const loadSound = async () => {
    const mine = ++soundTurn;
    const part = shown && shown.sound[policy()] || shown && shown.sound.hold;
    if (player.ready && loaded === part) return;
    if (player.playing) resume = player.at;
    player.clear();
    loaded = "";
    buttons();
    if (!part) return;
    try {
      const sound = await rigPart(part);
      if (mine !== soundTurn) return;
      await player.load(sound.base64);
      if (mine !== soundTurn) return;
      loaded = part;
    } catch (error) {
      if (mine !== soundTurn) return;
      unplayable(error);
    }
    buttons();
    if (resume !== null) playFrom(resume);
    resume = null;
  };

  const unplayable = (error) => {
    at("note").textContent = "the sound cannot be played: " + error.message;
  };

  const playFrom = (from_s, to_s) => player.play(from_s, to_s).catch(unplayable);

  const buttons = () => {
    at("play").disabled = !player.ready;
    at("play").textContent = player.playing ? "pause" : "play";
    at("play-window").disabled = !player.ready || !scored();
  };

  const scored = () => shown && shown.windows.find((band) => band.scored);

  const timing = (seconds) => {
    at("time").textContent = `${seconds.toFixed(2)} of ${shown ? shown.duration_s.toFixed(2) : "–"} s`;
  };

  const play = () => {
    if (player.playing) player.pause();
    else playFrom(timeline.at >= player.duration - 0.01 ? 0 : timeline.at);
  };
  /* Half a second before it, to hear what it begins in. */
  const playWindow = () => {
    const band = scored();
    if (!band || !player.ready) return;
    timeline.cursor(Math.max(0, band.start_s - 0.5));
    playFrom(timeline.at, band.end_s + 0.5);
  };
  player.ontick = (seconds) => { timeline.cursor(seconds); timing(seconds); };
  player.onstate = buttons;
  timeline.onseek = (seconds) => {
    timing(seconds);
    if (player.playing) playFrom(seconds);
  };
  at("play").addEventListener("click", play);
  at("play-window").addEventListener("click", playWindow);

  const channel = (name) => {
    player.channel(name);
    for (const button of root.querySelectorAll("[data-channel]")) {
      button.setAttribute("aria-pressed", String(button.dataset.channel === name));
    }
  };
  for (const button of root.querySelectorAll("[data-channel]")) {
    button.addEventListener("click", () => channel(button.dataset.channel));
  }

  /* --- zoom and keys ------------------------------------------------------------------------- */

  const zoomWindow = () => {
    const band = scored();
    if (!band) return;
    const room = 0.15 * (band.end_s - band.start_s) + 0.3;
    timeline.view(band.start_s - room, band.end_s + room);
  };
  at("zoom-in").addEventListener("click", () => timeline.zoom(1.6));
  at("zoom-out").addEventListener("click", () => timeline.zoom(1 / 1.6));
  at("zoom-window").addEventListener("click", zoomWindow);
  at("zoom-fit").addEventListener("click", () => timeline.fit());

  const keys = {
    n: () => step(1, failing), p: () => step(-1, failing), "]": () => step(1, any),
    "[": () => step(-1, any), w: playWindow, b: () => channel("both"), l: () => channel("left"),
    r: () => channel("right"), h: () => chooseSide("hold"), f: () => chooseSide("flush"),
    a: () => chooseSide("arrivals"), "+": () => timeline.zoom(1.6), "=": () => timeline.zoom(1.6),
    "-": () => timeline.zoom(1 / 1.6), z: zoomWindow, 0: () => timeline.fit(), " ": play,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    const inside = document.getElementById("case").contains(event.target);
    if (!inside && event.target !== document.body) return;
    if (event.target.closest("input, select, textarea, summary")) return;
    /* Space on a button presses it. */
    if (event.key === " " && event.target.closest("button")) return;
    const act = keys[event.key.toLowerCase()];
    if (!act || !shown) return;
    event.preventDefault();
    act();
  });

  const named = window.rigHash ? rigHash.all("case")[0] : undefined;
  const first = places.has(named) ? places.get(named) : Math.max(0, cases.findIndex(failing));
  window.rigFirst = open(first);
})();
