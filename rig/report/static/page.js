/* What every page has: its data, elements made of text, the theme, the charts.
   The names that other scripts may use are listed in rig/report/page.py. */
"use strict";
(() => {
  const parsed = new Map();
  const waiting = new Map();

  /* Parsed JSON of the element data-NAME, or null. */
  window.rigData = (name) => {
    if (!parsed.has(name)) {
      const element = document.getElementById("data-" + name);
      if (!element) return null;
      parsed.set(name, JSON.parse(element.textContent));
    }
    return parsed.get(name);
  };

  /* Large parts come behind the scripts. */
  const wholePage = new Promise((resolve) => {
    document.addEventListener("DOMContentLoaded", resolve, { once: true });
  });

  const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

  const unpacked = async (base64) => new Response(new Blob([bytesOf(base64)]).stream()
    .pipeThrough(new DecompressionStream("gzip"))).text();

  const read = async (text, gzipped) => JSON.parse(gzipped ? await unpacked(text) : text);

  window.rigBytes = bytesOf;

  /* Called by the files of parts. */
  window.rigStore = (name, text, gzipped) => {
    const asked = waiting.get(name);
    if (asked) asked.resolve(read(text, gzipped));
  };

  /* A part of the data: in the page, or in a file beside it, which only a script element can read
     from disk. */
  window.rigPart = (name) => {
    const element = document.getElementById("part-" + name);
    if (element) return read(element.textContent, element.type === "application/gzip");
    const folder = rigData("page").parts;
    if (folder === null && document.readyState === "loading") {
      return wholePage.then(() => rigPart(name));
    }
    if (folder === null) return Promise.reject(new Error("this page has no part " + name));
    if (waiting.has(name)) return waiting.get(name).promise;
    const asked = {};
    asked.promise = new Promise((resolve, reject) => {
      asked.resolve = resolve;
      const file = folder + "/" + name + ".js";
      const script = document.createElement("script");
      const end = (problem) => {
        script.remove();
        waiting.delete(name);
        reject(new Error(file + " " + problem));  // changes nothing where it was answered
      };
      script.onload = () => end("holds something else");
      script.onerror = () => end("cannot be read; it belongs beside this page");
      script.src = file;
      document.head.append(script);
    });
    waiting.set(name, asked);
    return asked.promise;
  };

  /* A word that turns the direction of writing turns its own alone: between the marks of an isolate
     (Unicode, UAX 9) it cannot reverse what follows. */
  const isolated = (text) => (/[\u202a-\u202e\u2066-\u2069]/.test(text)
    ? text.replace(/\S*[\u202a-\u202e\u2066-\u2069]\S*/g,
      (word) => "\u2068" + word.replace(/[\u2066-\u2069]/g, "") + "\u2069") : text);

  /* An element. Attribute values and children are text; functions under "on..." are listeners. */
  window.rigElement = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) {
        element.setAttribute(name, String(value));
      }
    }
    for (const child of children) {
      if (child === null || child === undefined) continue;
      element.append(child instanceof Node ? child : document.createTextNode(isolated(String(child))));
    }
    return element;
  };

  window.rigColour = (role) =>
    getComputedStyle(document.documentElement).getPropertyValue("--" + role).trim();

  /* --- theme ------------------------------------------------------------------------------- */

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const themed = () => document.dispatchEvent(new CustomEvent("rig:theme"));
  document.getElementById("rig-theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    themed();
  });
  dark.addEventListener("change", themed);

  /* --- charts ------------------------------------------------------------------------------ */

  const themeOf = () => {
    const axis = { gridcolor: rigColour("line"), zerolinecolor: rigColour("line"),
      linecolor: rigColour("line") };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: rigColour("ink"), family: "system-ui, sans-serif" },
      xaxis: axis, yaxis: axis,
      hoverlabel: { bgcolor: rigColour("raised"), font: { color: rigColour("ink") } },
    };
  };

  /* The theme below what the figure says itself; axes beside the first get its theme too. */
  const layoutOf = (figure) => {
    const merge = (under, over) => {
      const out = { ...under };
      for (const [name, value] of Object.entries(over || {})) {
        const both = value && typeof value === "object" && !Array.isArray(value)
          && out[name] && typeof out[name] === "object";
        out[name] = both ? merge(out[name], value) : value;
      }
      return out;
    };
    const theme = themeOf();
    for (const name of Object.keys(figure.layout || {})) {
      if (/^[xy]axis\d+$/.test(name)) theme[name] = theme.xaxis;
    }
    return merge({ ...theme, autosize: true, margin: { l: 48, r: 16, t: 24, b: 40 } },
      figure.layout);
  };

  /* plotly.js lies in the page compressed; its text is run as an inline script, which the page's
     policy knows by its hash. */
  const plotlyReady = async () => {
    const script = document.createElement("script");
    script.textContent = await unpacked(document.getElementById("rig-plotly").textContent);
    document.head.append(script);
  };

  /* A colour of a chart, or the one that stands for it on this theme's paper. */
  const inTheme = (key, value) => (key === "color" && /^#[0-9a-f]{6}$/.test(value)
    ? rigColour("chart-" + value.slice(1)) || value : value);

  const drawCharts = async () => {
    const charts = Object.entries(rigData("page").charts);
    if (!charts.length) return;
    await plotlyReady();
    const one = ([key, figure]) => {
      const place = document.getElementById("chart-" + key);
      const copy = JSON.parse(JSON.stringify(figure.data), inTheme);
      Plotly.react(place, copy, layoutOf(figure), { responsive: true, displaylogo: false });
    };
    /* One at a time, so that the page answers between them. */
    let turn = 0;
    const draw = async () => {
      const mine = ++turn;
      for (const chart of charts) {
        await idle();
        if (mine !== turn) return;
        one(chart);
      }
    };
    document.addEventListener("rig:theme", draw);
    await draw();
  };
  const idle = () => new Promise((resolve) => {
    if (window.requestIdleCallback) requestIdleCallback(() => resolve(), { timeout: 500 });
    else setTimeout(resolve, 30);
  });
  /* Charts come behind the first picture: `rigFirst` is a promise of it, where a section has one. */
  const start = async () => {
    await Promise.resolve(window.rigFirst).catch(() => {});
    await idle();
    drawCharts();
  };
  if (document.readyState === "complete") start();
  else window.addEventListener("load", start);
})();
