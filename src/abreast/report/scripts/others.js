// Plan, faults, settings, films.

function plan(section) {
  const told = detail()?.plan ?? {},
    { reasons, timing, ...others } = told;
  section.replaceChildren(el("h2", {}, "Plan"), ...(runs.length > 1 ? [whichRun("plan")] : []));
  if (!Object.keys(told).length) {
    section.append(
      empty(
        "This run has no plan.json: a sequential run needs no plan. Parallel ones (--parallel) write what was measured and why it was split so.",
      ),
    );
    return;
  }
  section.append(...[].concat(reasons ?? []).map(text => el("p", {}, String(text))));
  const text = value => (typeof value === "number" ? tell(value) : typeof value === "string" ? value : JSON.stringify(value));
  const rows = facts =>
    Object.entries(facts)
      .filter(([, value]) => value !== null && String(value) !== "")
      .map(([key, value]) => [key.replaceAll("_", " "), text(value)]);
  section.append(table(["", ""], rows(others)));
  if (timing) section.append(el("details", {}, el("summary", {}, "What was measured"), table(["", ""], rows(timing))));
}

function faults(section) {
  const run = detail();
  section.replaceChildren(el("h2", {}, "Faults survived"), ...(runs.length > 1 ? [whichRun("faults")] : []));
  if (!run) return;
  const problems = run.log.problems,
    again = restarts(run);
  const parts = [];
  if (run.kind === "training") parts.push(`${counted(again, "restart")} of processes`);
  if (run.kind === "rollout")
    parts.push(`${counted(run.table.error.filter(error => error !== null).length, "episode")} could not go on`);
  parts.push(
    `${counted(problems.filter(([, level]) => level === "WARNING").length, "warning")} and ${counted(problems.filter(([, level]) => level !== "WARNING").length, "error")} in log.txt`,
  );
  section.append(el("p", {}, `${parts.join("; ")}.`));
  for (const text of run.unreadable) section.append(el("p", { class: "bad" }, `In this run's folder: ${text}`));
  if (problems.length)
    section.append(
      table(
        ["time", "", "what"],
        problems.map(([time, level, text]) => [
          time,
          el("span", { class: level === "WARNING" ? "" : "bad" }, level.toLowerCase()),
          message(text),
        ]),
      ),
    );
  const tail = run.log.tail;
  section.append(
    tail.length
      ? el(
          "details",
          {},
          el("summary", {}, `The last ${counted(tail.length, "line")} of log.txt`),
          el("pre", {}, tail.join("\n")),
        )
      : empty("There is no log.txt, or it is empty."),
  );
}

function message(text) {
  const [first, ...others] = text.split("\n");
  return others.length ? el("details", {}, el("summary", {}, first), el("pre", {}, others.join("\n"))) : el("span", {}, text);
}

function settings(section) {
  const keys = [...new Set(runs.flatMap(run => Object.keys(run.settings)))];
  const differs = key => new Set(runs.map(run => run.settings[key])).size > 1;
  section.replaceChildren(el("h2", {}, "Settings"));
  if (!keys.length) {
    section.append(empty("There is no config.yaml in the run folder."));
    return;
  }
  const place = el("div");
  const fill = () => {
    const wanted = keys.filter(
      key => key.toLowerCase().includes(choice.setting.toLowerCase()) && (runs.length < 2 || !choice.differences || differs(key)),
    );
    const list = table(
      ["setting", ...runs.map(run => run.name)],
      wanted.map(key => [key, ...runs.map(run => run.settings[key] ?? "–")]),
      "settings",
    );
    list.querySelectorAll("tbody tr").forEach((row, at) => {
      if (runs.length > 1 && differs(wanted[at])) row.className = "differs";
    });
    place.replaceChildren(
      wanted.length
        ? list
        : empty(keys.some(differs) || choice.setting ? "No setting fits." : "These runs have the same settings."),
    );
  };
  const filter = el("input", {
    type: "search",
    placeholder: "Filter",
    "aria-label": "Filter settings",
    value: choice.setting,
    oninput: event => {
      choose({ setting: event.target.value });
      fill();
    },
  });
  section.append(
    el(
      "div",
      { class: "row" },
      filter,
      runs.length > 1
        ? chip("only differences", choice.differences, isOn => {
            choose({ differences: isOn });
            fill();
          })
        : null,
    ),
  );
  if (runs.length > 1) section.append(place);
  else {
    const fold = el("details", { open: Boolean(choice.setting) }, el("summary", {}, counted(keys.length, "setting")), place);
    section.append(fold);
    filter.addEventListener("input", () => {
      fold.open = true;
    });
  }
  fill();
}

function films(section) {
  const run = detail(),
    list = run?.films ?? [];
  section.replaceChildren(el("h2", {}, "Films"), ...(runs.length > 1 ? [whichRun("films")] : []));
  if (!list.length) {
    section.append(empty("This run has no films: it was run without animation, or its game draws no pictures."));
    return;
  }
  const shownFilms = [],
    named = [];
  for (const film of list) {
    const source = isLive
      ? `film/${encodeURIComponent(film.name)}${location.search}${location.search ? "&" : "?"}v=${film.changed}`
      : run.sources?.[film.name];
    if (!source || shownFilms.length === 12) {
      named.push(film.name);
      continue;
    }
    const told = [
      film.epoch != null ? `epoch ${tell(film.epoch)}` : null,
      film.reward != null ? `reward ${tell(film.reward)}` : null,
    ]
      .filter(Boolean)
      .join(", ");
    const label = `${film.name}${told ? `: ${told}` : ""}`;
    const isVideo = film.name.endsWith(".mp4");
    const picture = isVideo
      ? el("video", { src: source, controls: true, loop: true, muted: true })
      : el("img", { src: source, alt: `Film ${label}` });
    shownFilms.push(el("figure", {}, picture, el("figcaption", { class: "soft" }, label)));
  }
  section.append(el("div", { class: "films" }, shownFilms));
  if (named.length)
    section.append(el("p", { class: "soft" }, `Not in this page, to keep it small, but in replays/: ${named.join(", ")}.`));
}
