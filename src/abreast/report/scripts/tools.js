// The page of a report, and of the live view.
//
//   data (embedded, or data.json again and again) ─▶ show() ─▶ a section for each subject ─▶ DOM, as text only
//
// What a user has chosen is in `choice`. It outlives new data and a reload. Everything that comes from a run is put into
// the page by textContent: nothing here parses HTML.
"use strict";

const isLive = document.body.dataset.mode === "live";
const byId = id => document.getElementById(id);
let runs = [];

// ---- what the user has chosen

const KEPT = "abreast:" + location.pathname;
const choice = Object.assign(
  {
    x: "epoch",
    smooth: null,
    figures: null,
    agents: null,
    hidden: [],
    seeds: true,
    zoom: null,
    run: 0,
    span: null,
    differences: true,
    setting: "",
    sort: "episode",
    down: false,
    tag: "",
    success: "",
    low: "",
    high: "",
    text: "",
    episode: null,
  },
  recall(),
);

function recall() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

function choose(changes) {
  Object.assign(choice, changes);
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(choice));
  } catch {
    /* a file may have no storage: it is kept in memory */
  }
}

// ---- small tools

/** An element with properties and children. Texts become text, never HTML. */
function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key === "colour") node.style.background = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return node;
}

const colour = number =>
  getComputedStyle(document.documentElement)
    .getPropertyValue(`--c${number % 14}`)
    .trim();
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

function tell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 1e7 || size < 1e-4
    ? value.toExponential(2)
    : size >= 1000
      ? Math.round(value).toLocaleString("en")
      : String(+value.toPrecision(4));
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return `${+(value * 1e6).toPrecision(3)} µs`;
  if (value < 1) return `${+(value * 1e3).toPrecision(3)} ms`;
  if (value < 120) return `${+value.toPrecision(3)} s`;
  const whole = Math.round(value),
    two = number => String(number).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

const percent = value => (Number.isFinite(value) ? `${(100 * value).toFixed(1)} %` : "–");
const mean = values => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN);
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const empty = text => el("p", { class: "empty" }, text);

function table(heads, rows, kind = "") {
  const cell = (value, place) => el(place, { class: typeof value === "object" || !/^[-–\d]/.test(value) ? "" : "number" }, value);
  const numeric = heads.map((_, at) => rows.length && rows.every(row => cell(row[at], "td").className));
  const head = heads.map((text, at) => el("th", { scope: "col", class: numeric[at] ? "number" : "" }, text));
  const body = rows.map(row =>
    el(
      "tr",
      {},
      row.map((value, at) => el("td", { class: numeric[at] ? "number" : "" }, value)),
    ),
  );
  return el("div", { class: "scroll" }, el("table", { class: kind }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

function chip(text, checked, changed, dot = null) {
  const box = el("input", { type: "checkbox", checked, onchange: () => changed(box.checked) });
  return el("label", { class: "chip" }, box, dot && el("span", { class: "dot", colour: dot }), text);
}

function group(title, ...children) {
  return el("fieldset", {}, el("legend", {}, title), children);
}

function tip(event, ...lines) {
  const box = byId("tip");
  box.hidden = !lines.length;
  if (!lines.length) return;
  box.replaceChildren(...lines.map(line => el("div", {}, line)));
  const { width, height } = box.getBoundingClientRect();
  const left = event.clientX + 16 + width < innerWidth ? event.clientX + 16 : Math.max(4, event.clientX - width - 16);
  box.style.left = `${left}px`;
  box.style.top = `${Math.max(4, Math.min(innerHeight - height - 4, event.clientY + 14))}px`;
}
