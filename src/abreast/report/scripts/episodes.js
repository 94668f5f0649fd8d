// Rollouts: their figures, a table of episodes, and all turns of one.

function rolloutRow(run) {
  const { table: list } = run,
    rows = [...list.tag.keys()],
    tags = [...new Set(list.tag)];
  const tokens = list.prompt.reduce((sum, count, at) => sum + count + list.completion[at], 0);
  return [
    run.name,
    tags.slice(0, 4).join(", ") + (tags.length > 4 ? " …" : "") || "–",
    run.settings.policy ?? "–",
    state(run),
    run.settings.episodes ? `${tell(run.episodes)} of ${tell(+run.settings.episodes)}` : tell(run.episodes),
    percent(success(list, rows)),
    tell(mean(rows.map(at => list.reward[at]))),
    tell(mean(rows.map(at => list.score[at]))),
    tell(tokens),
  ];
}

/** Of these episodes, how many succeeded; those of tags whose environment never says it are left out. */
function success(list, rows) {
  const silent = new Set(list.tag.filter((_, at) => list.success[at] === null));
  list.tag.forEach((tag, at) => list.success[at] && silent.delete(tag));
  return mean(rows.filter(at => !silent.has(list.tag[at])).map(at => +list.success[at]));
}

function rolloutFigures() {
  const rows = [];
  for (const run of runs) {
    const { table: list } = run;
    for (const tag of [...new Set(list.tag)].sort()) {
      const own = [...list.tag.keys()].filter(at => list.tag[at] === tag);
      const of = name => mean(own.map(at => +list[name][at]));
      const given = own.reduce((sum, at) => sum + list.num_given[at], 0),
        invalid = own.reduce((sum, at) => sum + list.num_invalid[at], 0);
      rows.push([
        ...(runs.length > 1 ? [run.name] : []),
        tag,
        tell(own.length),
        tell(own.filter(at => list.error[at] !== null).length),
        percent(success(list, own)),
        tell(of("reward")),
        tell(of("penalty")),
        tell(of("score")),
        tell(of("turns")),
        tell(of("num_actions")),
        percent(given ? invalid / given : NaN),
        tell(of("prompt")),
        tell(of("completion")),
      ]);
    }
  }
  const heads = [
    ...(runs.length > 1 ? ["run"] : []),
    "tag",
    "episodes",
    "could not go on",
    "success",
    "reward",
    "penalty",
    "score",
    "turns",
    "actions",
    "invalid actions",
    "prompt tokens",
    "answer tokens",
  ];
  const times = runs.flatMap(run => latencies(run).map(row => (runs.length > 1 ? [run.name, ...row] : row)));
  return [
    el("h3", {}, "Means over all episodes; one that could not go on counts as no success"),
    rows.length ? table(heads, rows) : empty("No episode has ended yet: trajectories.jsonl has no whole line."),
    el("h3", {}, "Latency"),
    times.length
      ? table([...(runs.length > 1 ? ["run"] : []), "of those that were recorded", "count", "median", "95th percentile", "longest"], times)
      : empty("Latencies are taken from timeline.json, which is written at the end of a run: this one has none."),
  ];
}

function latencies(run) {
  const found = {};
  for (const lane of run.timeline?.lanes ?? [])
    for (const [kind, , length] of [...lane.spans, ...lane.calls]) (found[run.timeline.kinds[kind][0]] ??= []).push(length / 1e6);
  return ["turn", "model", "rebuild"]
    .filter(name => found[name])
    .map(name => {
      const sorted = found[name].sort((one, other) => one - other),
        at = share => seconds(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]);
      return [name === "model" ? "calls of the model" : `${name}s`, tell(sorted.length), at(0.5), at(0.95), at(1)];
    });
}

const HEIGHT = 30;
const COLUMNS = [
  ["episode", "episode"],
  ["tag", "tag"],
  ["success", "success"],
  ["reward", "reward"],
  ["score", "score"],
  ["turns", "turns"],
  ["tokens", "tokens"],
  ["penalty", "penalty"],
  ["num_actions", "actions"],
  ["num_invalid", "invalid"],
  ["seed", "seed"],
  ["group_id", "group"],
  ["error", "error"],
];
const browser = { rows: [], found: null, search: 0, unpacked: new Map(), signature: "" };

function cellOf(list, key, at) {
  if (key === "tokens") return list.prompt[at] + list.completion[at];
  return list[key][at];
}

function episodes(section) {
  const run = detail();
  if (!run) return;
  const tags = [...new Set(run.table.tag)].sort(),
    signature = JSON.stringify([run.folder, tags, runs.length]);
  if (browser.signature !== signature) {
    browser.signature = signature;
    browser.unpacked.clear();
    const field = (key, label, properties, tag = "input", ...children) =>
      el(
        "label",
        {},
        el("span", { class: "soft" }, `${label} `),
        el(
          tag,
          {
            id: `filter-${key}`,
            value: choice[key],
            oninput: event => {
              choose({ [key]: event.target.value });
              byId("list").scrollTop = 0;
              filterEpisodes(key === "text");
            },
            ...properties,
          },
          ...children,
        ),
      );
    const options = (pairs, chosen) => pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
    const head = COLUMNS.map(([key, text]) =>
      el(
        "th",
        { scope: "col", "data-key": key },
        el(
          "button",
          {
            onclick: () => {
              choose({ sort: key, down: choice.sort === key && !choice.down });
              byId("list").scrollTop = 0;
              filterEpisodes();
            },
          },
          text,
        ),
      ),
    );
    section.replaceChildren(
      el("h2", {}, "Episodes"),
      el(
        "div",
        { class: "row" },
        whichRun("episodes"),
        field("tag", "Tag", {}, "select", ...options([["", "all"], ...tags.map(tag => [tag, tag])], choice.tag)),
        field(
          "success",
          "Success",
          {},
          "select",
          ...options(
            [
              ["", "all"],
              ["yes", "yes"],
              ["no", "no"],
              ["error", "could not go on"],
            ],
            choice.success,
          ),
        ),
        field("low", "Reward from", { type: "number", step: "any" }),
        field("high", "to", { type: "number", step: "any" }),
        field("text", "Text", { type: "search", placeholder: "in what was said or shown" }),
        el("span", { id: "count", class: "soft", role: "status" }),
      ),
      el(
        "div",
        { class: "episodes", id: "list", tabIndex: 0, "aria-label": "Episodes", onscroll: fillList },
        el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody")),
      ),
      el("div", { id: "episode" }),
    );
    filterEpisodes(true);
    if (choice.episode !== null) openEpisode(choice.episode);
  } else if (browser.count !== run.episodes) filterEpisodes(Boolean(choice.text));
  browser.count = run.episodes;
}

/** Which episodes fit, in which order. With `isText`, the text is searched for anew, pack by pack. */
async function filterEpisodes(isText = false) {
  const run = detail(),
    { table: list } = run;
  if (isText) {
    const turn = ++browser.search,
      wanted = choice.text.toLowerCase();
    browser.found = wanted ? new Set() : null;
    for (let pack = 0; wanted && pack < run.packs.length; pack++) {
      byId("count").textContent = `searching: ${percent(pack / run.packs.length)}`;
      const lines = await unpack(run, pack);
      if (turn !== browser.search) return;
      lines.forEach((line, at) => {
        if (saidIn(line).includes(wanted)) browser.found.add(pack * run.per_pack + at);
      });
    }
  }
  const low = choice.low === "" ? -Infinity : +choice.low,
    high = choice.high === "" ? Infinity : +choice.high;
  const fits = at =>
    (!choice.tag || list.tag[at] === choice.tag) &&
    list.reward[at] >= low &&
    list.reward[at] <= high &&
    (!browser.found || browser.found.has(at)) &&
    (!choice.success || (choice.success === "error" ? list.error[at] !== null : list.success[at] === (choice.success === "yes")));
  browser.rows = [...list.episode.keys()].filter(fits);
  const sign = choice.down ? -1 : 1;
  browser.rows.sort((one, other) => {
    const none = choice.sort === "success" ? 0.5 : ""; // unknown: between no and yes
    const [a, b] = [cellOf(list, choice.sort, one) ?? none, cellOf(list, choice.sort, other) ?? none];
    return sign * (a < b ? -1 : a > b ? 1 : 0) || list.episode[one] - list.episode[other];
  });
  const beyond =
    browser.found && run.packs.length * run.per_pack < run.episodes
      ? `; only the first ${tell(run.packs.length * run.per_pack)} could be searched`
      : "";
  byId("count").textContent = `${tell(browser.rows.length)} of ${counted(run.episodes, "episode")}${beyond}`;
  for (const head of byId("list").querySelectorAll("th"))
    head.ariaSort = head.dataset.key === choice.sort ? (choice.down ? "descending" : "ascending") : "none";
  for (const head of byId("list").querySelectorAll("th button"))
    head.textContent =
      head.textContent.replace(/ [▲▼]$/, "") + (head.parentNode.dataset.key === choice.sort ? (choice.down ? " ▼" : " ▲") : "");
  fillList();
}

/** Only the rows in sight are in the page: ten thousand would make it slow. */
function fillList() {
  const list = byId("list"),
    body = list.querySelector("tbody"),
    { table: columns } = detail(),
    rows = browser.rows;
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 10),
    last = Math.min(rows.length, first + Math.ceil(list.clientHeight / HEIGHT) + 20);
  const space = count => {
    const cell = el("td", { colSpan: COLUMNS.length });
    cell.style.height = `${count * HEIGHT}px`;
    return el("tr", { class: "space" }, cell);
  };
  const lines = rows.slice(first, last).map(at => {
    const number = columns.episode[at],
      open = () => openEpisode(number);
    const cells = COLUMNS.map(([key]) => {
      const value = cellOf(columns, key, at);
      if (key === "success")
        return value === null ? el("td", {}, "–") : el("td", { class: value ? "good" : "bad" }, value ? "yes" : "no");
      return el(
        "td",
        { class: typeof value === "number" ? "number" : "", title: key === "error" ? (value ?? "") : "" },
        typeof value === "number" ? (key === "seed" || key === "episode" ? String(value) : tell(value)) : (value ?? ""),
      );
    });
    return el(
      "tr",
      {
        class: `line${number === choice.episode ? " chosen" : ""}`,
        tabIndex: 0,
        onclick: open,
        onkeydown: event => {
          if (event.key === "Enter") open();
        },
      },
      cells,
    );
  });
  const nothing = rows.length
    ? []
    : [
        el(
          "tr",
          {},
          el(
            "td",
            { colSpan: COLUMNS.length, class: "empty" },
            columns.episode.length
              ? "No episode fits these filters."
              : "No episode has ended yet: trajectories.jsonl has no whole line.",
          ),
        ),
      ];
  body.replaceChildren(
    ...(first ? [space(first)] : []),
    ...lines,
    ...nothing,
    ...(last < rows.length ? [space(rows.length - last)] : []),
  );
}

/** The whole lines of a pack. A few stay unpacked. */
async function unpack(run, pack) {
  const packed = run.packs[pack],
    kept = browser.unpacked.get(pack);
  if (kept?.packed === packed) return kept.lines;
  const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  const lines = JSON.parse(text);
  browser.unpacked.set(pack, { packed, lines });
  if (browser.unpacked.size > 20) browser.unpacked.delete(browser.unpacked.keys().next().value);
  return lines;
}

const listOf = value => (Array.isArray(value) ? value : []);
const contentOf = message =>
  typeof message?.content === "string"
    ? message.content
    : listOf(message?.content)
        .map(part => part?.text ?? `[image ${part?.image_url?.url ?? ""}]`)
        .join("\n");
const saidIn = line =>
  [...listOf(line.messages).map(contentOf), ...listOf(line.history).map(entry => String(entry?.state ?? "")), line.error ?? ""]
    .join("\n")
    .toLowerCase();
const chat = messages =>
  messages.map(each => el("div", {}, el("b", { class: "soft" }, String(each?.role ?? "?")), el("pre", {}, contentOf(each))));

async function openEpisode(number) {
  const run = detail(),
    at = run.table.episode.indexOf(number),
    place = byId("episode");
  if (at < 0) return;
  choose({ episode: number });
  fillList();
  const pack = Math.floor(at / run.per_pack);
  if (pack >= run.packs.length) {
    place.replaceChildren(
      empty(
        `The turns of episode ${number} are not in this page, which would be too large. abreast trajectories ${run.folder} --show ${number} prints them.`,
      ),
    );
    return;
  }
  const line = (await unpack(run, pack))[at % run.per_pack];
  if (choice.episode !== number) return;
  const history = listOf(line.history),
    messages = listOf(line.messages);
  const facts = [
    `${line.tag}, seed ${line.seed}, group ${line.group_id}`,
    line.success ? "success" : line.success === null ? "success unknown" : "no success",
    `reward ${tell(line.reward)}`,
    `penalty ${tell(line.penalty)}`,
    `score ${tell(line.score)}`,
    `${counted(listOf(line.answers).length, "turn")}`,
    `tokens: ${tell(line.tokens?.prompt)} in prompts, ${tell(line.tokens?.completion)} in answers`,
  ];
  const step = away => {
    const here = browser.rows.indexOf(at),
      next = browser.rows[here + away];
    if (next !== undefined) openEpisode(run.table.episode[next]);
  };
  place.replaceChildren(
    el(
      "div",
      { class: "row" },
      el("h2", {}, `Episode ${number}`),
      el("button", { onclick: () => step(-1) }, "← before"),
      el("button", { onclick: () => step(1) }, "after →"),
    ),
    el("p", { class: "soft" }, facts.join(" · ")),
    ...(line.error ? [el("p", { class: "bad" }, `It could not go on: ${line.error}`)] : []),
    ...listOf(line.answers).map((answer, turn) => turnOf(run, line, messages, history[turn] ?? {}, turn)),
    ...(history.length
      ? [el("div", { class: "turn" }, el("h3", {}, "Last state"), el("div", { class: "wide" }, stateOf(run, history.at(-1))))]
      : []),
  );
}

function turnOf(run, line, messages, entry, turn) {
  const shownTo = listOf(line.prompts)[turn],
    before = listOf(line.prompts)[turn - 1];
  const prompt = Array.isArray(shownTo) ? shownTo : messages.slice(0, shownTo ?? 0);
  const isNew = typeof shownTo === "number" && typeof before === "number";
  const fresh = isNew ? messages.slice(before + 1, shownTo) : prompt;
  const brought = listOf(line.rewards)[turn],
    penalty = typeof brought === "number" && typeof entry.reward === "number" ? brought - entry.reward : null;
  const answer = entry.llm_raw_response || line.answers[turn],
    tokens = listOf(line.tokens?.turns)[turn];
  const facts = [
    `reward ${tell(entry.reward ?? brought)}`,
    penalty === null || Math.abs(penalty) < 1e-9 ? null : `penalty ${tell(+penalty.toPrecision(6))}`,
    tokens ? `tokens ${tell(tokens[0])} + ${tell(tokens[1])}` : null,
    entry.finish_reason ? `finish reason ${entry.finish_reason}` : null,
    listOf(entry.tool_calls).length ? `called ${entry.tool_calls.join(", ")}` : null,
  ].filter(Boolean);
  return el(
    "div",
    { class: "turn" },
    el("h3", {}, `Turn ${turn + 1} `, el("span", { class: "soft" }, facts.join(" · "))),
    el("div", {}, el("b", { class: "soft" }, "State"), stateOf(run, entry)),
    el(
      "div",
      {},
      el("b", { class: "soft" }, "Raw answer"),
      el("pre", {}, typeof answer === "string" ? answer : JSON.stringify(answer)),
      el("b", { class: "soft" }, "Actions"),
      el("pre", {}, listOf(entry.actions).map(String).join(" || ") || "none was valid"),
      ...listOf(entry.invalid).map(text => el("p", { class: "bad" }, String(text))),
    ),
    el(
      "details",
      { class: "wide" },
      el(
        "summary",
        {},
        isNew
          ? `Prompt (${counted(fresh.length, "new message")}, ${prompt.length} in all)`
          : `Prompt (${counted(prompt.length, "message")})`,
      ),
      chat(fresh),
      isNew ? el("details", {}, el("summary", {}, "The whole prompt"), chat(prompt)) : null,
    ),
    entry.info && Object.keys(entry.info).length
      ? el("details", { class: "wide" }, el("summary", {}, "Info"), el("pre", {}, JSON.stringify(entry.info, null, 1)))
      : null,
  );
}

function stateOf(run, entry) {
  const pictures = listOf(entry?.images).map(name => {
    const file = String(name).split("/").pop(),
      source = isLive ? `film/${encodeURIComponent(file)}${location.search}` : run.sources?.[file];
    return source ? el("img", { src: source, alt: String(name) }) : el("p", { class: "soft" }, `picture ${name}`);
  });
  return el("div", {}, pictures, el("pre", {}, String(entry?.state ?? "–")));
}
