/* One axis of time, drawn on a canvas: lanes below each other, bands and marks across them, a cursor.

     const timeline = new RigTimeline(container, "what it is, for screen readers");
     timeline.show(spec);               draw something else; the view is the whole of it
     timeline.view(start_s, end_s);     zoom
     timeline.fit(); timeline.zoom(2);  whole; by a factor, around the cursor or the middle
     timeline.cursor(seconds);          move the cursor; follows it when it leaves the view
     timeline.onseek = (seconds) => {}; a click or a key asked for a moment
     timeline.onview = () => {};        the view changed

   spec: {duration_s, lanes, bands, marks}
     lanes, from the top:
       {kind: "wave", label, colour, wave: rig.report.waveform.waves, spans: [[start_s, end_s], ...]}
       {kind: "words", label, colour, words: [[text, start_s, end_s], ...]}
       {kind: "curve", label, colour, curve: rig.report.waveform.curve, line: 0..1 or null}
       {kind: "steps", label, colour, points: [[s, value], ...], unit}
       {kind: "events", label, colour, events: [[s, kind, text], ...]}
     bands: [{start_s, end_s, name, scored}]      marks: [[s, name], ...]
   `colour` is a role of rig/report/colours.py. Everything is text or numbers; nothing is markup. */
"use strict";
window.RigTimeline = (() => {
  const HEIGHTS = { wave: 76, words: 20, curve: 44, steps: 44, events: 34 };
  const RULER = 22;
  const GAP = 6;
  const MARK = 16;  // below the lanes, for the names of marks
  const FONT = "12px system-ui, sans-serif";
  const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];
  const LEAST_VIEW_S = 0.05;

  const clock = (s, step) => {
    const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : 2;
    if (s < 60) return s.toFixed(digits);
    const minutes = Math.floor(s / 60);
    return minutes + ":" + (s - 60 * minutes).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  };

  const DOTS = "…";

  /* The text, or as much of it as fits with "…" behind; at least the dots. */
  const fitted = (g, text, room) => {
    if (text.length <= 200 && g.measureText(text).width <= room) return text;
    let [fits, beyond] = [0, Math.min(text.length, 200) + 1];
    while (beyond - fits > 1) {
      const middle = (fits + beyond) >> 1;
      if (g.measureText(text.slice(0, middle) + DOTS).width <= room) fits = middle;
      else beyond = middle;
    }
    return text.slice(0, fits).trimEnd() + DOTS;
  };

  class RigTimeline {
    constructor(container, label) {
      this.onseek = null;
      this.onview = null;
      this._spec = { duration_s: 0, lanes: [], bands: [], marks: [] };
      this._start = 0;
      this._end = 1;
      this._at = 0;
      this._peaks = new WeakMap();
      this.canvas = rigElement("canvas", {
        class: "timeline", tabindex: 0, role: "slider", "aria-label": label,
        "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0,
        onkeydown: (event) => this._key(event),
        onpointerdown: (event) => this._down(event),
        onpointermove: (event) => this._move(event),
        onpointerup: (event) => this._up(event),
        onpointercancel: () => { this._drag = null; },
        onpointerleave: () => { if (!this._drag) this.said.textContent = ""; },
        onwheel: (event) => this._wheel(event),
      });
      this.said = rigElement("p", { class: "timeline-said soft", "aria-hidden": "true" });
      container.append(this.canvas, this.said);
      new ResizeObserver(() => this._draw()).observe(this.canvas);
      document.addEventListener("rig:theme", () => this._draw());
    }

    get start() { return this._start; }
    get end() { return this._end; }
    get at() { return this._at; }

    show(spec) {
      this._spec = spec;
      this._at = 0;
      let height = RULER;
      for (const lane of spec.lanes) height += HEIGHTS[lane.kind] + GAP;
      if (spec.marks.length) height += MARK - GAP;
      this.canvas.style.height = height + "px";
      this.canvas.setAttribute("aria-valuemax", spec.duration_s.toFixed(3));
      this.fit();
      this.cursor(0);
    }

    /* Other lanes of the same session: the view and the cursor stay. */
    change(spec) {
      const { _start: start, _end: end, _at: at } = this;
      this.show(spec);
      this.view(start, end);
      this.cursor(at);
    }

    fit() { this.view(0, this._spec.duration_s); }

    view(start, end) {
      const whole = Math.max(this._spec.duration_s, LEAST_VIEW_S);
      const length = Math.min(whole, Math.max(LEAST_VIEW_S, end - start));
      this._start = Math.max(0, Math.min(start, whole - length));
      this._end = this._start + length;
      if (this.onview) this.onview();
      this._draw();
    }

    zoom(factor, around) {
      const inside = this._at >= this._start && this._at <= this._end;
      const centre = around !== undefined ? around
        : inside ? this._at : (this._start + this._end) / 2;
      const length = (this._end - this._start) / factor;
      const share = (centre - this._start) / (this._end - this._start);
      this.view(centre - share * length, centre + (1 - share) * length);
    }

    cursor(seconds) {
      this._at = Math.max(0, Math.min(seconds, this._spec.duration_s));
      this.canvas.setAttribute("aria-valuenow", this._at.toFixed(3));
      this.canvas.setAttribute("aria-valuetext", this._at.toFixed(2) + " seconds");
      if (this._at < this._start || this._at > this._end) {
        const length = this._end - this._start;
        this.view(this._at - 0.1 * length, this._at + 0.9 * length);
      } else this._draw();
    }

    /* --- pointer and keys ------------------------------------------------------------------ */

    _seek(seconds) {
      this.cursor(seconds);
      if (this.onseek) this.onseek(this._at);
    }

    _seconds(event) {
      const box = this.canvas.getBoundingClientRect();
      return this._start + (event.clientX - box.left) / box.width * (this._end - this._start);
    }

    _down(event) {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this._drag = { x: event.clientX, start: this._start, end: this._end, moved: false };
    }

    _move(event) {
      if (!this._drag) {
        this.said.textContent = this._under(this._seconds(event), event.offsetY);
        return;
      }
      const dx = event.clientX - this._drag.x;
      if (Math.abs(dx) > 4) this._drag.moved = true;
      if (!this._drag.moved) return;
      const length = this._drag.end - this._drag.start;
      const by = dx / this.canvas.clientWidth * length;
      this.view(this._drag.start - by, this._drag.end - by);
    }

    _up(event) {
      const drag = this._drag;
      this._drag = null;
      if (drag && !drag.moved) this._seek(this._seconds(event));
    }

    _wheel(event) {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.zoom((event.deltaY || event.deltaX) < 0 ? 1.25 : 0.8, this._seconds(event));
    }

    _key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const step = event.shiftKey ? 1 : 0.1;
      const seek = { ArrowLeft: this._at - step, ArrowRight: this._at + step,
        PageDown: this._at - 5, PageUp: this._at + 5, Home: 0, End: this._spec.duration_s };
      if (!(event.key in seek)) return;
      event.preventDefault();
      event.stopPropagation();
      this._seek(seek[event.key]);
    }

    _under(seconds, y) {
      const parts = [seconds.toFixed(3) + " s"];
      for (const band of this._spec.bands) {
        if (seconds >= band.start_s && seconds < band.end_s) parts.push(band.name);
      }
      let top = RULER;
      for (const lane of this._spec.lanes) {
        const height = HEIGHTS[lane.kind] + GAP;
        if (y >= top && y < top + height) parts.push(...this._inLane(lane, seconds));
        top += height;
      }
      return parts.join(" · ");
    }

    _inLane(lane, s) {
      const near = (this._end - this._start) / this.canvas.clientWidth * 5;
      if (lane.kind === "words") {
        return lane.words.filter(([, a, b]) => s >= a - near && s < Math.max(b, a + near))
          .slice(0, 3).map(([text, a, b]) => `${text} (${a.toFixed(2)} to ${b.toFixed(2)} s)`);
      }
      if (lane.kind === "events") {
        return lane.events.filter(([at]) => Math.abs(at - s) < near).slice(0, 4)
          .map(([at, , text]) => `${text} at ${at.toFixed(3)} s`);
      }
      if (lane.kind === "wave") {
        return lane.spans.filter(([a, b]) => s >= a && s < b)
          .map(([a, b]) => `${lane.label}: speech ${a.toFixed(3)} to ${b.toFixed(3)} s`);
      }
      if (lane.kind === "curve" && lane.curve) {
        const values = this._bytes(lane.curve, "values", Uint8Array);
        const i = Math.floor(s * lane.curve.rate_hz);
        return i < values.length ? [`${lane.label} ${(values[i] / 255).toFixed(2)}`] : [];
      }
      if (lane.kind === "steps") return [`${lane.label} ${valueAt(lane.points, s).toFixed(3)} ${lane.unit}`];
      return [];
    }

    /* --- drawing --------------------------------------------------------------------------- */

    _bytes(holder, name, type) {
      if (!this._peaks.has(holder)) this._peaks.set(holder, new type(rigBytes(holder[name]).buffer));
      return this._peaks.get(holder);
    }

    _draw() {
      if (this._asked) return;
      this._asked = requestAnimationFrame(() => { this._asked = 0; this._paint(); });
    }

    _paint() {
      const canvas = this.canvas;
      const width = canvas.clientWidth;
      const height = canvas.clientHeight;
      if (!width || !height) return;
      const ratio = window.devicePixelRatio || 1;
      const [deviceWidth, deviceHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== deviceWidth || canvas.height !== deviceHeight) {
        canvas.width = deviceWidth;
        canvas.height = deviceHeight;
      }
      const g = canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.font = FONT;
      g.textBaseline = "alphabetic";
      const colour = {};
      for (const role of ["ink", "paper", "raised", "soft", "line", "user", "model", "window",
        "probability", "event", "cursor", "fail"]) colour[role] = rigColour(role);
      const x = (s) => (s - this._start) / (this._end - this._start) * width;
      const paint = { g, colour, x, width, height };
      g.fillStyle = colour.paper;
      g.fillRect(0, 0, width, height);
      this._bands(paint);
      this._ruler(paint);
      let top = RULER;
      for (const lane of this._spec.lanes) {
        this["_" + lane.kind](paint, lane, top, HEIGHTS[lane.kind]);
        this._label(paint, lane.label, top);
        top += HEIGHTS[lane.kind] + GAP;
      }
      this._marks(paint);
      g.fillStyle = colour.cursor;
      g.fillRect(Math.round(x(this._at)) - 0.5, 0, 1.5, height);
      g.beginPath();
      g.moveTo(x(this._at) - 5, 0);
      g.lineTo(x(this._at) + 5, 0);
      g.lineTo(x(this._at), 7);
      g.fill();
    }

    _label({ g, colour }, text, top) {
      if (!text) return;
      const wide = g.measureText(text).width;
      g.globalAlpha = 0.8;
      g.fillStyle = colour.paper;
      g.fillRect(2, top, wide + 6, 15);
      g.globalAlpha = 1;
      g.fillStyle = colour.soft;
      g.fillText(text, 5, top + 12);
    }

    _bands({ g, colour, x, height }) {
      for (const band of this._spec.bands) {
        const [a, b] = [x(band.start_s), x(band.end_s)];
        if (band.scored) {
          g.globalAlpha = 0.3;
          g.fillStyle = colour.window;
          g.fillRect(a, 0, b - a, height);
          g.globalAlpha = 1;
        }
        g.strokeStyle = band.scored ? colour.ink : colour.soft;
        g.setLineDash(band.scored ? [] : [4, 3]);
        g.strokeRect(a + 0.5, 0.5, b - a - 1, height - 1);
        g.setLineDash([]);
      }
    }

    _ruler({ g, colour, x, width }) {
      const length = this._end - this._start;
      const step = STEPS.find((s) => length / s <= width / 64) || STEPS[STEPS.length - 1];
      g.fillStyle = colour.soft;
      g.strokeStyle = colour.line;
      for (let i = Math.ceil(this._start / step); i * step <= this._end; i++) {
        const at = x(i * step);
        g.beginPath();
        g.moveTo(at, 14);
        g.lineTo(at, RULER);
        g.stroke();
        const text = clock(i * step, step) + (i * step < 60 ? " s" : "");
        const wide = g.measureText(text).width;
        if (at + wide < width) g.fillText(text, at + 3, 12);
      }
    }

    _wave({ g, colour, x, width }, lane, top, height) {
      const middle = top + height / 2;
      const half = height / 2 - 4;
      g.fillStyle = colour[lane.colour];
      g.globalAlpha = 0.22;
      for (const [a, b] of lane.spans) {
        g.fillRect(x(a), top, Math.max(1, x(b) - x(a)), height);
      }
      g.globalAlpha = 1;
      for (const [a, b] of lane.spans) {
        g.fillRect(x(a), top + height - 3, Math.max(1, x(b) - x(a)), 3);
      }
      g.fillStyle = colour.line;
      g.fillRect(0, middle, width, 1);
      if (!lane.wave) return;
      const peaks = this._bytes(lane.wave, "peaks", Int8Array);
      const rate = lane.wave.rate_hz;
      /* Quiet tracks are drawn larger, twenty times at most. */
      const gain = Math.min(20, 1 / Math.max(lane.wave.loudest, 0.01)) / 127;
      g.fillStyle = colour[lane.colour];
      const per = (this._end - this._start) / width;
      for (let px = 0; px < width; px++) {
        const first = Math.floor((this._start + px * per) * rate);
        const last = Math.max(first + 1, Math.ceil((this._start + (px + 1) * per) * rate));
        let low = 127;
        let high = -128;
        for (let i = first; i < last && 2 * i + 1 < peaks.length; i++) {
          if (peaks[2 * i] < low) low = peaks[2 * i];
          if (peaks[2 * i + 1] > high) high = peaks[2 * i + 1];
        }
        if (high < low || (low === 0 && high === 0)) continue;
        const up = Math.min(half, high * gain * half);
        const down = Math.max(-half, low * gain * half);
        g.fillRect(px, middle - up, 1, Math.max(1, up - down));
      }
    }

    _words({ g, colour, x, width }, lane, top, height) {
      let free = -Infinity;
      const dots = g.measureText(DOTS).width;
      lane.words.forEach(([text, a, b], i) => {
        const left = x(a);
        if (left > width || x(b) < 0) return;
        g.fillStyle = colour[lane.colour];
        g.fillRect(left, top + height - 3, Math.max(1, x(b) - left - 1), 2);
        const from = Math.max(left, 1);
        if (from < free) return;
        /* The text of a whole segment, where words have no times, keeps to its own length. */
        const least = Math.min(width - from - 2, text.length > 40 ? Math.max(x(b) - from, 12) : Infinity);
        let shown = fitted(g, text, least);
        /* The next word has no room: what is left out is marked here. */
        const next = lane.words[i + 1];
        const end = from + g.measureText(shown).width;
        if (next && Math.max(x(next[1]), 1) < end + 5 && x(next[1]) <= width && !shown.endsWith(DOTS)) {
          shown = fitted(g, shown + DOTS, Math.max(width - from - 2, dots));
        }
        g.fillStyle = colour.ink;
        g.fillText(shown, from, top + 12);
        free = from + g.measureText(shown).width + 5;
      });
    }

    _curve({ g, colour, x, width }, lane, top, height) {
      const y = (value) => top + height - 2 - value * (height - 4);
      g.fillStyle = colour.line;
      g.fillRect(0, y(0), width, 1);
      if (lane.line !== null) {
        g.strokeStyle = colour.soft;
        g.setLineDash([3, 3]);
        g.beginPath();
        g.moveTo(0, y(lane.line));
        g.lineTo(width, y(lane.line));
        g.stroke();
        g.setLineDash([]);
      }
      if (!lane.curve) return;
      const values = this._bytes(lane.curve, "values", Uint8Array);
      const rate = lane.curve.rate_hz;
      g.strokeStyle = colour[lane.colour];
      g.beginPath();
      let begun = false;
      const per = (this._end - this._start) / width;
      for (let px = 0; px <= width; px++) {
        const first = Math.floor((this._start + px * per) * rate);
        const last = Math.max(first + 1, Math.floor((this._start + (px + 1) * per) * rate));
        let most = -1;
        for (let i = first; i < last && i < values.length; i++) most = Math.max(most, values[i]);
        if (most < 0) continue;
        if (begun) g.lineTo(px, y(most / 255));
        else g.moveTo(px, y(most / 255));
        begun = true;
      }
      g.stroke();
    }

    _steps({ g, colour, x, width }, lane, top, height) {
      let most = 0;
      for (const [, value] of lane.points) most = Math.max(most, value);
      const y = (value) => top + height - 2 - (most ? value / most : 0) * (height - 16);
      g.fillStyle = colour.line;
      g.fillRect(0, y(0), width, 1);
      g.strokeStyle = colour[lane.colour];
      g.beginPath();
      lane.points.forEach(([s, value], i) => {
        if (i) g.lineTo(x(s), y(value));
        else g.moveTo(x(s), y(value));
      });
      g.stroke();
      g.fillStyle = colour.soft;
      const text = "most " + most.toFixed(2) + " " + lane.unit;
      g.fillText(text, width - g.measureText(text).width - 4, top + 12);
    }

    _events({ g, colour, x, width }, lane, top, height) {
      const free = [-Infinity, -Infinity];
      const seen = lane.events.filter(([s]) => x(s) >= -1 && x(s) <= width);
      for (const [s, kind] of seen) {
        g.fillStyle = kind === "fault" ? colour.fail : kind === "user" ? colour.user
          : kind === "model" ? colour.model : colour.event;
        g.fillRect(x(s), top, 1.5, height);
      }
      for (const [s, , text] of seen) {
        const at = x(s);
        const rowAt = (place) => (place >= free[0] ? 0 : place >= free[1] ? 1 : -1);
        /* At the right edge a name stands before its stroke, or is cut with "…". */
        const whole = fitted(g, text, 360);
        const wide = g.measureText(whole).width;
        const before = at - 3 - wide;
        let [left, shown] = [at + 3, whole];
        if (left + wide > width) {
          if (before >= 0 && rowAt(before - 3) >= 0) left = before;
          else shown = fitted(g, text, width - left - 2);
        }
        const row = rowAt(left - 3);
        if (row < 0) continue;
        this._plate(g, colour, shown, left, top + 12 + 16 * row);
        free[row] = left + g.measureText(shown).width + 7;
      }
    }

    /* A text that strokes of others do not run through. */
    _plate(g, colour, text, left, base) {
      g.globalAlpha = 0.85;
      g.fillStyle = colour.paper;
      g.fillRect(left - 1, base - 11, g.measureText(text).width + 3, 14);
      g.globalAlpha = 1;
      g.fillStyle = colour.ink;
      g.fillText(text, left, base);
    }

    _marks({ g, colour, x, width, height }) {
      const marks = this._spec.marks.map(([s, name]) => [x(s), name])
        .filter(([at]) => at >= 0 && at <= width).sort((a, b) => a[0] - b[0]);
      marks.forEach(([at, name], i) => {
        g.strokeStyle = colour.ink;
        g.setLineDash([2, 2]);
        g.beginPath();
        g.moveTo(at, RULER);
        g.lineTo(at, height);
        g.stroke();
        g.setLineDash([]);
        /* Behind its stroke; before it where the next one or the edge is too near. */
        const wide = g.measureText(name).width;
        const room = (i + 1 < marks.length ? marks[i + 1][0] : width) - at;
        const left = wide + 8 > room && at - wide - 4 >= 0 ? at - wide - 4 : at + 3;
        this._plate(g, colour, name, left, height - 4);
      });
    }
  }

  const valueAt = (points, s) => {
    for (let i = points.length - 1; i >= 0; i--) {
      if (points[i][0] > s) continue;
      const after = points[i + 1];
      if (!after) return points[i][1];
      const share = after[0] > points[i][0] ? (s - points[i][0]) / (after[0] - points[i][0]) : 0;
      return points[i][1] + share * (after[1] - points[i][1]);
    }
    return 0;
  };

  return RigTimeline;
})();
