// Curves: figures over epochs, agent-steps or time; runs that differ in their seed as a mean with its interval.

const KNOWN = {
  "run.reward": ["Reward", "of an epoch"],
  "run.loss": ["Loss", "mean over the updates of a round"],
  "run.epsilon": ["Epsilon", "share of random actions"],
  "run.updates": ["Updates", "of all learners"],
  "run.updates_per_agent_step": ["Updates per agent-step", "so far"],
  "time.agent_steps_per_s": ["Throughput", "agent-steps/s so far"],
  "time.collect_s": ["Playing", "seconds an epoch"],
  "time.train_s": ["Training, or waiting for it", "seconds an epoch"],
  "time.lag": ["Versions behind", "what is played with, against what is learned"],
  "time.learner_idle_s": ["Learners idle", "seconds an epoch"],
  "time.waited_for_actors_s": ["Waiting for actors", "seconds so far"],
  "time.restarts": ["Restarts of learners", "so far"],
  "time.actor_restarts": ["Restarts of actors", "so far"],
};
const GROUPS = { run: "", learning: "learning: ", metrics: "game: ", time: "time: " };
const AXES = { epoch: "epochs", steps: "steps", agent_steps: "agent-steps", elapsed_s: "wall time" };
const WINDOWS = [1, 3, 5, 11, 21, 51, 101, 201, 501, 1001];
const WHOLE_STEPS = [...Array(12).keys()].flatMap(power => [1, 2, 5].map(step => step * 10 ** power)); // no half epochs
const T95 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101,
  2.093, 2.086,
];
const plots = new Map(); // by the key of their figure

const keyOf = figure => `${figure.group}.${figure.name}`;
const titleOf = key => KNOWN[key]?.[0] ?? GROUPS[key.split(".")[0]] + key.slice(key.indexOf(".") + 1).replaceAll("_", " ");

/** Runs that differ in nothing but their seed, together. */
function groups() {
  const found = new Map();
  runs.forEach((run, number) => {
    const { "experiment.seed": seed, ...others } = run.settings;
    const same = choice.seeds && seed !== undefined ? JSON.stringify(Object.entries(others).sort()) : number;
    if (!found.has(same)) found.set(same, []);
    found.get(same).push(run);
  });
  return [...found.values()].map((members, number) => {
    const seeds = members.map(run => run.settings["experiment.seed"]);
    const name = members.length > 1 ? `${members[0].name} … (${members.length} seeds: ${seeds.join(", ")})` : members[0].name;
    return { members, name, number };
  });
}

/** The mean over so many epochs around each; nulls are left out, and stay. */
function smoothed(values, window) {
  if (window < 2) return values;
  const sums = new Float64Array(values.length + 1),
    counts = new Int32Array(values.length + 1);
  values.forEach((value, at) => {
    sums[at + 1] = sums[at] + (value ?? 0);
    counts[at + 1] = counts[at] + (value != null);
  });
  const half = window >> 1;
  return values.map((value, at) => {
    const low = Math.max(0, at - half),
      high = Math.min(values.length, at + half + 1);
    return value == null ? null : (sums[high] - sums[low]) / (counts[high] - counts[low]);
  });
}

/** The values of a figure for an agent, or for all (-1): the mean of the agents where a run has no such figure. */
function valuesOf(run, key, agent) {
  const figure = run.figures.find(each => keyOf(each) === key);
  if (!figure) return null;
  if (agent >= 0) return figure.agents[agent] ?? null;
  const columns = Object.values(figure.agents);
  if (figure.all || !columns.length) return figure.all;
  return columns[0].map((_, at) => {
    const known = columns.map(each => each[at]).filter(value => value != null);
    return known.length ? mean(known) : null;
  });
}

/** Mean and half of the 95 % interval (Student's t) over runs, by epoch. */
function overSeeds(members, key, agent, window) {
  const rows = new Map();
  for (const run of members) {
    const values = valuesOf(run, key, agent);
    if (!values) continue;
    smoothed(values, window).forEach((value, at) => {
      const epoch = run.x.epoch[at];
      if (!rows.has(epoch)) rows.set(epoch, { x: [], y: [] });
      rows.get(epoch).x.push(run.x[choice.x][at] ?? at);
      if (value != null) rows.get(epoch).y.push(value);
    });
  }
  const sorted = [...rows.entries()].sort((one, other) => one[0] - other[0]).map(([, row]) => row);
  const middle = sorted.map(({ y }) => (y.length ? mean(y) : null));
  const half = sorted.map(({ y }, at) => {
    if (y.length < 2) return null;
    const spread = Math.sqrt(y.reduce((sum, value) => sum + (value - middle[at]) ** 2, 0) / (y.length - 1));
    return ((T95[y.length - 2] ?? 1.96) * spread) / Math.sqrt(y.length);
  });
  let highest = -Infinity;
  return { x: sorted.map(({ x }) => (highest = Math.max(highest, mean(x)))), middle, half };
}

const windowSize = () => WINDOWS[choice.smooth ?? defaultSmooth()];

function defaultSmooth() {
  const points = Math.max(...runs.map(run => run.x.epoch.length));
  return Math.max(
    0,
    WINDOWS.findLastIndex(window => window <= points / 15),
  );
}

function figureKeys() {
  const keys = new Set(runs.flatMap(run => run.figures.map(keyOf)));
  const rank = key => [Object.keys(KNOWN).indexOf(key) + 1 || 90, Object.keys(GROUPS).indexOf(key.split(".")[0])];
  const order = key => rank(key)[1] * 100 + rank(key)[0];
  return [...keys].sort((one, other) => order(one) - order(other));
}

function chosenFigures() {
  const usual = key =>
    ["run.reward", "run.loss", "run.epsilon", "time.agent_steps_per_s", "time.lag"].includes(key) || key.startsWith("metrics.");
  return figureKeys().filter(key => (choice.figures ? choice.figures.includes(key) : usual(key)));
}

/** Agents that are drawn; -1 stands for all together. */
function chosenAgents(count) {
  if (choice.agents) return choice.agents;
  const isSum = groups().length > 1 || runs.length > 1 || count > 8;
  return isSum && !runs.some(run => run.has_sides) ? [-1] : [...Array(Math.min(count, 8)).keys()]; // the sum of sides says nothing
}

/** What is drawn of a figure: lines, each with its own x, and bands around them. */
function linesOf(key) {
  const lines = [],
    all = groups(),
    names = agentNames();
  for (const { members, name, number } of all) {
    if (choice.hidden.includes(name)) continue;
    const isWhole = members.every(run => !run.figures.some(figure => keyOf(figure) === key && Object.keys(figure.agents).length));
    for (const agent of isWhole ? [-1] : chosenAgents(names.length)) {
      const who = isWhole ? "" : agent < 0 ? "all agents" : names[agent];
      const label = all.length > 1 ? [name, who].filter(Boolean).join(", ") : who || name;
      const look =
        all.length > 1 || isWhole
          ? { colour: colour(number), dash: DASHES[(agent + 1) % 4] }
          : { colour: agent < 0 ? ink("ink") : colour(agent), dash: DASHES[agent >> 3] ?? [] };
      if (members.length > 1) {
        const { x, middle, half } = overSeeds(members, key, agent, windowSize());
        if (middle.some(value => value !== null)) lines.push({ label, ...look, x, y: middle, half });
        continue;
      }
      const raw = valuesOf(members[0], key, agent);
      if (raw && raw.some(value => value !== null))
        lines.push({ label, ...look, x: axis(members[0]), y: smoothed(raw, windowSize()), raw });
    }
  }
  return lines;
}

const axis = run => (run.x[choice.x].length ? run.x[choice.x] : run.x.epoch);
const agentNames = () => runs.reduce((longest, run) => (run.agents.length > longest.length ? run.agents : longest), []);

function curves(section) {
  const keys = figureKeys(),
    names = agentNames(),
    all = groups();
  if (!section.querySelector(".charts"))
    section.replaceChildren(el("h2", {}, "Curves"), el("div", { id: "tools" }), el("div", { class: "charts" }));
  if (!keys.length) {
    byId("tools").replaceChildren(
      empty(
        `No epoch is recorded yet in ${runs.map(run => run.name).join(", ") || "this run"}: metrics.jsonl has no whole line. The first one comes with the end of the first epoch.`,
      ),
    );
    section.querySelector(".charts").replaceChildren();
    return;
  }
  const signature = JSON.stringify([
    keys,
    names,
    all.map(({ name }) => name),
    choice.figures,
    choice.agents,
    choice.hidden,
    choice.seeds,
    choice.x,
    choice.smooth,
  ]);
  if (shown.tools !== signature) byId("tools").replaceChildren(...tools(keys, names, all));
  shown.tools = signature;
  for (const [key, plot] of plots)
    if (!chosenFigures().includes(key)) {
      plot.card.remove();
      plots.delete(key);
      plot.chart?.destroy();
    }
  for (const key of chosenFigures()) {
    if (!plots.has(key)) plots.set(key, { card: el("div", { class: "chart" }), signature: "" });
    section.querySelector(".charts").append(plots.get(key).card);
    draw(key, plots.get(key));
  }
}

function tools(keys, names, all) {
  const again = changes => {
    choose(changes);
    curves(byId("curves"));
  };
  const toggled = (list, value, isOn) => (isOn ? [...list, value] : list.filter(each => each !== value));
  const window = windowSize(),
    chosen = chosenFigures(),
    agents = chosenAgents(names.length),
    isOne = all.length === 1;
  const slider = el("input", {
    type: "range",
    id: "smooth",
    min: 0,
    max: WINDOWS.length - 1,
    value: choice.smooth ?? defaultSmooth(),
    "aria-label": "Smoothing",
    oninput: event => {
      byId("smoothed").textContent = smoothText(WINDOWS[+event.target.value]);
      choose({ smooth: +event.target.value });
      redraw();
    },
  });
  const axes = Object.entries(AXES).map(([name, text]) => {
    const radio = el("input", {
      type: "radio",
      name: "x",
      value: name,
      checked: choice.x === name,
      onchange: () => again({ x: name, zoom: null }),
    });
    return el("label", { class: "chip" }, radio, text);
  });
  const rows = [
    el(
      "div",
      { class: "row" },
      group("x", axes),
      el(
        "label",
        {},
        el("span", { class: "soft" }, "Smoothing "),
        slider,
        " ",
        el("output", { id: "smoothed" }, smoothText(window)),
      ),
      el(
        "span",
        { class: "row tight" },
        el("button", { title: "Zoom in", onclick: () => zoomBy(0.5) }, "+"),
        el("button", { title: "Zoom out", onclick: () => zoomBy(2) }, "−"),
        el("button", { title: "Earlier", onclick: () => panBy(-0.5) }, "←"),
        el("button", { title: "Later", onclick: () => panBy(0.5) }, "→"),
        el("button", { id: "whole", onclick: () => zoomTo(null) }, "Show all"),
        el("span", { class: "soft hint" }, "drag to zoom, double click to reset"),
      ),
    ),
    el(
      "div",
      { class: "row" },
      group(
        "Figures",
        keys.map(key => chip(titleOf(key), chosen.includes(key), isOn => again({ figures: toggled(chosen, key, isOn) }))),
      ),
    ),
    el(
      "div",
      { class: "row" },
      group(
        "Agents",
        [-1, ...names.keys()].map(agent =>
          chip(
            agent < 0 ? "all agents" : names[agent],
            agents.includes(agent),
            isOn => again({ agents: toggled(agents, agent, isOn).sort((one, other) => one - other) }),
            !isOne ? null : agent < 0 ? ink("ink") : colour(agent),
          ),
        ),
      ),
    ),
  ];
  if (runs.length > 1) {
    const chips = all.map(({ name, number }) =>
      chip(name, !choice.hidden.includes(name), isOn => again({ hidden: toggled(choice.hidden, name, !isOn) }), isOne ? null : colour(number)),
    );
    rows.push(
      el(
        "div",
        { class: "row" },
        group("Runs", chips),
        chip("seeds together", choice.seeds, isOn => again({ seeds: isOn, hidden: [] })),
      ),
    );
    const grouped = all.filter(({ members }) => members.length > 1);
    const text = grouped.length
      ? "A line is the mean over the seeds; its band is the 95 % interval of that mean (Student's t), after smoothing. Runs are of one kind if they differ in nothing but experiment.seed."
      : choice.seeds
        ? "No two of these runs differ in nothing but experiment.seed: there is no interval."
        : "A line is a run.";
    rows.push(el("p", { class: "soft" }, text));
  }
  const thin = Math.max(...runs.map(run => run.epochs_per_point));
  if (thin > 1) rows.push(el("p", { class: "soft" }, `Each point is the mean of up to ${thin} epochs.`));
  return rows;
}

const smoothText = window => (window < 2 ? "off" : `mean over ${window} points`);

function draw(key, plot) {
  const lines = linesOf(key);
  const signature = JSON.stringify([
    lines.map(({ label, colour: look, dash, raw }) => [label, look, dash, Boolean(raw)]),
    choice.x,
    windowSize() > 1,
    ink("ink"),
  ]);
  const [, about] = KNOWN[key] ?? [];
  if (!lines.length) {
    plot.chart?.destroy();
    Object.assign(plot, { chart: null, signature: "" });
    plot.card.replaceChildren(
      el("h3", {}, titleOf(key)),
      empty(
        chosenAgents(1).length && !choice.hidden.length
          ? "None of these agents has such a figure."
          : "Nothing is chosen: choose agents and runs above.",
      ),
    );
    return;
  }
  // A faint line of what is behind a smoothed one, where there are few.
  const hasRaw = windowSize() > 1 && lines.length <= 6 && lines.every(({ raw }) => raw);
  const tables = lines.map(({ x, y, half, raw }) =>
    half
      ? [x, y, y.map((v, i) => (half[i] == null ? null : v - half[i])), y.map((v, i) => (half[i] == null ? null : v + half[i]))]
      : hasRaw
        ? [x, y, raw]
        : [x, y],
  );
  const data = tables.every(([x]) => x === tables[0][0])
    ? [tables[0][0], ...tables.flatMap(([, ...columns]) => columns)]
    : uPlot.join(tables);
  plot.lines = lines;
  if (plot.chart && plot.signature === signature) {
    plot.chart.setData(data, false);
    scaleX(plot.chart);
    return;
  }
  plot.chart?.destroy();
  plot.signature = signature;
  const place = el("div", { class: "plot" });
  plot.card.replaceChildren(el("h3", {}, titleOf(key), about ? el("small", {}, ` ${about}`) : ""), place);
  const series = [{}],
    bands = [],
    owners = [null];
  lines.forEach((line, number) => {
    const own = { stroke: line.colour, width: 1.8, dash: line.dash, points: { show: line.x.length < 2 } };
    series.push(own);
    owners.push(number);
    if (line.half) {
      const hidden = { stroke: "transparent", points: { show: false } };
      series.push(hidden, { ...hidden });
      owners.push(null, null);
      bands.push({ series: [series.length - 1, series.length - 2], fill: `color-mix(in srgb, ${line.colour} 20%, transparent)` });
    } else if (hasRaw) {
      series.push({ stroke: `color-mix(in srgb, ${line.colour} 28%, transparent)`, width: 1, points: { show: false } });
      owners.push(null);
    }
  });
  const axes = [0, 1].map(number => ({
    stroke: ink("soft"),
    grid: { stroke: ink("line"), width: 1 },
    ticks: { stroke: ink("line"), width: 1 },
    size: number ? 58 : 34,
    ...(number || choice.x === "elapsed_s" ? {} : { incrs: WHOLE_STEPS }),
    values: (_, ticks) => ticks.map(tick => (number || choice.x !== "elapsed_s" ? short(tick) : seconds(tick))),
  }));
  const options = {
    width: Math.max(200, place.clientWidth),
    height: place.clientHeight,
    series,
    bands,
    axes,
    legend: { show: false },
    scales: { x: { time: false }, y: { range: (_, low, high) => spread(low, high) } },
    cursor: {
      drag: { x: true, y: false, setScale: false },
      sync: { key: "curves", setSeries: false },
      points: { size: 6 },
      bind: {
        dblclick: () => () => {
          zoomTo(null);
          return null;
        },
      },
      dataIdx: (chart, number, at) => nearest(chart.data[number], at),
    },
    hooks: { setSelect: [selected], setCursor: [chart => hover(chart, plot, owners)] },
  };
  plot.chart = new uPlot(options, data, place);
  plot.chart.root.setAttribute("role", "img");
  plot.chart.root.setAttribute(
    "aria-label",
    `${titleOf(key)}: ${lines.map(({ label, y }) => `${label} ends at ${tell(y.findLast(value => value !== null))}`).join("; ")}`.slice(
      0,
      400,
    ),
  );
  scaleX(plot.chart);
}

function short(tick) {
  const size = Math.abs(tick);
  return size >= 1e6
    ? `${+(tick / 1e6).toPrecision(4)}M`
    : size >= 1e4
      ? `${+(tick / 1e3).toPrecision(4)}k`
      : String(+tick.toPrecision(6));
}

function spread(low, high) {
  if (low === null) return [0, 1];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/** The place of the value that is nearest to a place: runs have their points at different x. */
function nearest(values, at) {
  for (let away = 0; away < values.length; away++) {
    if (values[at - away] != null) return at - away;
    if (values[at + away] != null) return at + away;
  }
  return at;
}

function hover(chart, plot, owners) {
  const { left, top, event } = chart.cursor;
  if (!event || left < 0 || chart.cursor.idx === null || !chart.over.matches(":hover")) {
    if (event?.type === "mouseleave" || left < 0) tip(null);
    return;
  }
  const found = [];
  owners.forEach((owner, number) => {
    if (owner === null) return;
    const line = plot.lines[owner],
      at = chart.cursor.idxs[number];
    const value = at === null ? null : chart.data[number][at];
    if (value == null) return;
    const next = chart.data[number + 1]?.[at];
    const more = line.half
      ? next == null
        ? ""
        : ` ± ${tell(value - next)}`
      : line.raw && windowSize() > 1
        ? ` (here ${tell(line.raw[line.x.indexOf(chart.data[0][at])])})`
        : "";
    found.push({
      value,
      line: el("span", {}, el("span", { class: "dot", colour: line.colour }), `${line.label}: ${tell(value)}${more}`),
    });
  });
  found.sort((one, other) => other.value - one.value);
  const x = chart.data[0][chart.cursor.idx];
  const where = choice.x === "elapsed_s" ? seconds(x) : `${AXES[choice.x].replace(/s$/, "")} ${tell(Math.round(x))}`;
  tip(
    event,
    el("b", {}, where),
    ...found.slice(0, 14).map(({ line }) => line),
    ...(found.length > 14 ? [`and ${found.length - 14} more`] : []),
  );
}

function selected(chart) {
  if (chart.select.width < 4) return;
  const edges = [chart.select.left, chart.select.left + chart.select.width].map(place => chart.posToVal(place, "x"));
  chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoomTo(edges);
}

function zoomTo(range) {
  choose({ zoom: range });
  for (const { chart } of plots.values()) if (chart) scaleX(chart);
}

function zoomBy(factor) {
  const chart = [...plots.values()].find(plot => plot.chart)?.chart;
  if (!chart) return;
  const { min, max } = chart.scales.x,
    half = ((max - min) * factor) / 2,
    middle = (min + max) / 2,
    xs = chart.data[0];
  zoomTo(middle - half <= xs[0] && middle + half >= xs.at(-1) ? null : [middle - half, middle + half]);
}

/** Move what is shown by a share of itself, not past the ends: fingers do not drag. */
function panBy(share) {
  const chart = [...plots.values()].find(plot => plot.chart)?.chart;
  if (!chart || !choice.zoom) return;
  const xs = chart.data[0],
    [low, high] = choice.zoom,
    step = Math.max(xs[0] - low, Math.min(xs.at(-1) - high, (high - low) * share));
  zoomTo([low + step, high + step]);
}

function scaleX(chart) {
  const xs = chart.data[0],
    [min, max] = choice.zoom ?? [xs[0], xs.at(-1)];
  chart.setScale("x", { min, max: max > min ? max : min + 1 });
}

function redraw() {
  for (const [key, plot] of plots) draw(key, plot);
}
