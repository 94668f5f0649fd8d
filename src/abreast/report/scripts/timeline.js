// The timeline: spans of every process, on a canvas; their sums as a table.

const MEANINGS = {
  play: "a pass over all lanes, with see, choose, act and remember",
  see: "the worlds change (your game's transition), and agents observe",
  choose: "networks choose actions",
  act: "actions are executed (your game's act, or its step)",
  remember: "what happened is written into replays",
  train: "a round of a learner, with its updates",
  update: "an update of a network, with its sample",
  sample: "a batch is drawn from a replay",
  publish: "what was learned is published to actors",
  record: "an epoch or episode is written down, and loggers are told",
  film: "films are painted and written",
  checkpoint: "a checkpoint is written",
  start: "a worker gets ready",
  turn: "turns of environments",
  model: "calls of a model, which overlap",
  rebuild: "an episode is replayed after a death",
  wait: "waits for orders",
};
const ROW = 18;

function timeline(section) {
  const run = detail(),
    told = run?.timeline;
  section.replaceChildren(el("h2", {}, "Timeline"), ...(runs.length > 1 ? [whichRun("timeline")] : []));
  if (!told || !told.lanes.length) {
    section.append(
      empty(
        "This run has no timeline.json: it is written with each checkpoint and at the end of a run, unless the timeline is switched off or the run was killed before.",
      ),
    );
    return;
  }
  const lanes = told.lanes.map(lane => ({ ...lane, rows: rowsOf(lane) }));
  const end = Math.max(1, ...lanes.flatMap(lane => lane.rows.map(({ begin, length }) => begin + length)));
  const begin = Math.min(end - 1, ...lanes.flatMap(lane => lane.rows.slice(0, 1).map(row => row.begin)));
  section.append(
    el("p", {}, el("b", {}, "Advice: "), told.advice),
    ...(told.waits.length ? [el("p", { class: "soft" }, `${told.waits.join("; ")}.`)] : []),
    shares(told, lanes),
    el("details", {}, el("summary", {}, "How often, how long, and what is done in each span"), sums(lanes)),
  );
  const canvas = el("canvas", {
    class: "timeline",
    tabIndex: 0,
    role: "img",
    "aria-label": "Spans of every process over time; the table above has their sums",
  });
  const view = { lanes, kinds: told.kinds, whole: [begin, end], canvas, drag: null };
  const buttons = [
    ["+", "Zoom in", () => zoomTime(view, 0.5)],
    ["−", "Zoom out", () => zoomTime(view, 2)],
    ["←", "Earlier", () => panTime(view, -0.5)],
    ["→", "Later", () => panTime(view, 0.5)],
  ].map(([text, title, onclick]) => el("button", { title, onclick }, text));
  section.append(
    el(
      "div",
      { class: "row" },
      buttons,
      el("button", { onclick: () => showTime(view, null) }, "Show all"),
      legendOf(told.kinds),
      el("span", { class: "soft hint" }, "drag to zoom, double click to reset"),
    ),
    canvas,
  );
  const dropped = lanes.reduce((sum, lane) => sum + lane.dropped, 0);
  if (dropped)
    section.append(el("p", { class: "soft" }, `${counted(dropped, "older span")} are not drawn; the sums above count them.`));
  listen(view);
  paint(view);
  timeline.view = view;
}

const kindColour = (kinds, kind) =>
  kinds[kind][1]
    ? ink("wait")
    : colour([...new Set(kinds.filter(([, isWait]) => !isWait).map(([name]) => name))].indexOf(kinds[kind][0]));

function legendOf(kinds) {
  const waits = kinds.filter(([, waiting]) => waiting).map(([name]) => name);
  const entries = kinds.flatMap(([name, waiting], kind) => (waiting ? [] : [[name, kindColour(kinds, kind)]]));
  if (waits.length) entries.push([[...new Set(waits)].join(", "), ink("wait")]);
  return el(
    "span",
    { class: "row" },
    entries.map(([name, look]) => el("span", {}, el("span", { class: "dot", colour: look }), ` ${name}`)),
  );
}

/** Spans with the row they are drawn in: those inside of others below them, calls that overlap below each other. */
function rowsOf(lane) {
  const rows = [],
    open = [];
  for (const [kind, begin, length] of lane.spans) {
    while (open.length && open.at(-1) + 1 < begin + length) open.pop(); // times are rounded to 1 µs
    rows.push({ kind, begin, length, row: Math.min(open.length, 2) });
    open.push(begin + length);
  }
  const first = rows.length ? 1 + Math.max(...rows.map(({ row }) => row)) : 0,
    ends = [];
  for (const [kind, begin, length] of lane.calls) {
    let row = ends.findIndex(end => end <= begin);
    if (row < 0) row = ends.length < 6 ? ends.length : 5;
    ends[row] = begin + length;
    rows.push({ kind, begin, length, row: first + row });
  }
  return rows;
}

/** What each process did, in shares of its life: the same figures as those of `abreast timeline`. */
function shares(told, lanes) {
  return el(
    "div",
    { class: "shares" },
    lanes.map(lane => {
      const parts = Object.entries(lane.shares).sort((one, other) => other[1] - one[1]);
      const text = parts.filter(([, share]) => share >= 0.005).map(([name, share]) => `${name} ${percent(share)}`);
      return [
        el("b", {}, lane.name),
        el("span", { class: "soft" }, `works ${percent(1 - lane.waiting)}, waits ${percent(lane.waiting)}`),
        el(
          "div",
          { class: "bar", role: "img", "aria-label": text.join(", ") },
          parts.map(([name, share]) => {
            const part = el("span", { colour: partColour(told.kinds, name), title: `${name} ${percent(share)}` });
            part.style.width = `${100 * share}%`;
            return part;
          }),
        ),
        el("div", {}, text.join(", ")),
      ];
    }),
  );
}

const isWait = name => /^wait|^paused$|^restart$/.test(name);
function partColour(kinds, name) {
  const kind = kinds.findIndex(([known]) => known === name);
  return isWait(name) ? ink("wait") : kind < 0 ? "transparent" : kindColour(kinds, kind);
}

/** Counts and means, with what is done in each span. */
function sums(lanes) {
  const rows = lanes.flatMap(lane =>
    Object.entries(lane.totals)
      .sort((one, other) => other[1].seconds - one[1].seconds)
      .map(([name, { count, seconds: all }]) => [
        lane.name,
        name,
        tell(count),
        seconds(all),
        seconds(all / Math.max(1, count)),
        MEANINGS[name] ?? (isWait(name) ? "waits" : ""),
      ]),
  );
  return table(["process", "span", "times", "together", "each", "what is done"], rows, "sums");
}

const timeRange = view => choice.span ?? view.whole;

function showTime(view, range) {
  choose({ span: range });
  paint(view);
}

function zoomTime(view, factor) {
  const [low, high] = timeRange(view),
    middle = (low + high) / 2,
    half = Math.max(1, ((high - low) * factor) / 2);
  showTime(view, half * 2 >= view.whole[1] - view.whole[0] ? null : [middle - half, middle + half]);
}

function panTime(view, share) {
  const [low, high] = timeRange(view),
    [first, last] = view.whole,
    step = Math.max(first - low, Math.min(last - high, (high - low) * share));
  if (choice.span) showTime(view, [low + step, high + step]);
}

function paint(view) {
  const { canvas, lanes, kinds } = view,
    scale = devicePixelRatio || 1,
    width = canvas.clientWidth,
    left = width < 500 ? 0 : 130;
  let top = 0;
  view.places = [];
  for (const lane of lanes) {
    const rows = 1 + Math.max(0, ...lane.rows.map(({ row }) => row)),
      above = left ? 0 : 18;
    view.places.push({ lane, top: top + above, rows });
    top += above + rows * ROW + 8;
  }
  const height = top + 24;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d"),
    [low, high] = timeRange(view),
    per = (width - left) / (high - low);
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  const colours = kinds.map((_, kind) => kindColour(kinds, kind));
  Object.assign(view, { left, low, per });
  for (const { lane, top: at, rows } of view.places) {
    pen.fillStyle = ink("code");
    pen.fillRect(left, at, width - left, rows * ROW);
    const ends = [],
      last = [];
    for (const { kind, begin, length, row } of lane.rows) {
      if (begin + length < low || begin > high) continue;
      const x = left + Math.max(0, (begin - low) * per),
        end = left + Math.min(width - left, (begin + length - low) * per);
      if (end <= (ends[row] ?? -1) && last[row] === kind) continue; // it lies within the same pixel
      ends[row] = Math.max(x + 1, end);
      last[row] = kind;
      pen.fillStyle = colours[kind];
      pen.fillRect(x, at + row * ROW + 1, Math.max(1, end - x - (end - x > 3 ? 0.5 : 0)), ROW - 2);
      if (end - x > 46) {
        pen.fillStyle = kinds[kind][1] ? ink("soft") : ink("card");
        pen.fillText(kinds[kind][0], x + 4, at + row * ROW + 13, end - x - 6);
      }
    }
    pen.fillStyle = ink("ink");
    const most = left ? 20 : 50;
    pen.fillText(
      lane.name.length > most ? `${lane.name.slice(0, most - 1)}…` : lane.name,
      0,
      left ? at + 13 : at - 4,
      left ? left - 6 : width,
    );
  }
  pen.fillStyle = ink("soft");
  for (let part = 0; part <= 4; part++) {
    const x = left + ((width - left) * part) / 4;
    pen.textAlign = part === 4 ? "right" : part ? "center" : "left";
    pen.fillText(seconds((low + ((high - low) * part) / 4 - view.whole[0]) / 1e6), x, height - 6);
  }
  if (view.drag) {
    pen.fillStyle = `color-mix(in srgb, ${ink("accent")} 22%, transparent)`;
    pen.fillRect(Math.min(...view.drag), 0, Math.abs(view.drag[1] - view.drag[0]), top);
  }
}

function listen(view) {
  const { canvas } = view,
    timeAt = x => view.low + (Math.max(view.left, x) - view.left) / view.per;
  canvas.addEventListener("pointerdown", event => {
    if (event.pointerType === "mouse") {
      view.drag = [event.offsetX, event.offsetX];
      canvas.setPointerCapture(event.pointerId);
    }
  });
  canvas.addEventListener("pointermove", event => {
    if (view.drag) {
      view.drag[1] = event.offsetX;
      paint(view);
      return;
    }
    const time = timeAt(event.offsetX),
      slack = 1 / view.per;
    const place = view.places.find(({ top, rows }) => event.offsetY >= top && event.offsetY < top + rows * ROW);
    const row = place && Math.floor((event.offsetY - place.top) / ROW);
    const span =
      event.offsetX >= view.left &&
      place?.lane.rows.findLast(
        each => each.row === row && each.begin - slack <= time && each.begin + each.length + slack >= time,
      );
    if (!span) return tip(null);
    const [name, isWait] = view.kinds[span.kind];
    return tip(
      event,
      el("b", {}, `${place.lane.name}: ${name}`),
      `${seconds(span.length / 1e6)}${isWait ? ", waiting" : ""}`,
      `from ${seconds((span.begin - view.whole[0]) / 1e6)}`,
    );
  });
  canvas.addEventListener("pointerup", () => {
    if (!view.drag) return;
    const [one, other] = view.drag.map(timeAt),
      isWide = Math.abs(view.drag[1] - view.drag[0]) > 4;
    view.drag = null;
    if (isWide) showTime(view, [Math.min(one, other), Math.max(one, other)]);
    else paint(view);
  });
  canvas.addEventListener("pointerleave", () => tip(null));
  canvas.addEventListener("dblclick", () => showTime(view, null));
  canvas.addEventListener("keydown", event => {
    if (event.key === "+") zoomTime(view, 0.5);
    else if (event.key === "-") zoomTime(view, 2);
    else if (event.key === "ArrowLeft") panTime(view, -0.2);
    else if (event.key === "ArrowRight") panTime(view, 0.2);
    else return;
    event.preventDefault();
  });
}
