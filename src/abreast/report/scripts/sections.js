// The sections of the page, and the overview.
const SECTIONS = [
  ["overview", "Overview", () => true, () => runs.map(run => (isTraining() ? trainingRow(run) : rolloutRow(run))), overview],
  ["comparison", "Comparison", () => runs.some(run => run.comparison), () => runs.map(run => run.comparison), comparison],
  ["curves", "Curves", () => isTraining(), () => null, curves],
  ["episodes", "Episodes", () => !isTraining(), () => null, episodes],
  ["timeline", "Timeline", () => true, () => runs.map(run => run.timeline), timeline],
  ["plan", "Plan", () => isTraining(), () => runs.map(run => run.plan), plan],
  [
    "faults",
    "Faults",
    () => true,
    () => runs.map(run => [run.log.problems, run.log.tail, run.unreadable, restarts(run)]),
    faults,
  ],
  ["settings", "Settings", () => true, () => runs.map(run => run.settings), settings],
  ["films", "Films", () => isTraining(), () => runs.map(run => [run.films, run.sources]), films],
];
const shown = {};

const isTraining = () => runs.length === 0 || runs[0].kind === "training";
const detail = () => runs[Math.min(choice.run, runs.length - 1)];

/** Bring the page up to date. A section is made anew only where what it shows has changed, or `name` is it. */
function show(name = null) {
  const main = byId("main");
  if (!main.querySelector("section")) main.replaceChildren();
  const names = [...new Set(runs.map(run => run.name))];
  byId("title").textContent = document.title = names.length
    ? `${names.slice(0, 3).join(", ")}${names.length > 3 ? " …" : ""} · abreast`
    : "abreast";
  byId("nav").replaceChildren(
    ...SECTIONS.filter(([, , fits]) => fits()).map(([id, title]) => el("a", { href: `#${id}` }, title)),
  );
  for (const [id, title, fits, slice, fill] of SECTIONS) {
    let section = byId(id);
    if (!fits()) {
      section?.remove();
      continue;
    }
    if (!section) {
      main.append((section = el("section", { id, "aria-label": title })));
      delete shown[id];
    }
    const now = JSON.stringify([slice(), id === "settings" || id === "overview" ? 0 : choice.run]);
    if (name === id || slice() === null || shown[id] !== now) fill(section);
    shown[id] = now;
  }
}

/** Which run the sections below are about. */
function whichRun(id) {
  if (runs.length < 2) return null;
  const options = runs.map((run, number) => el("option", { value: number, selected: run === detail() }, run.name));
  return el(
    "label",
    {},
    "Run ",
    el(
      "select",
      {
        onchange: event => {
          choose({ run: +event.target.value, span: null, episode: null });
          show(id);
        },
      },
      options,
    ),
  );
}

function overview(section) {
  const heads = isTraining()
    ? ["run", "game", "state", "epochs", "agents", "reward, last tenth", "agent-steps", "time", "agent-steps/s", "restarts"]
    : ["run", "tags", "policy", "state", "episodes", "success", "reward", "score", "tokens"];
  const rows = runs.map(run => (isTraining() ? trainingRow(run) : rolloutRow(run)));
  section.replaceChildren(
    el("h2", {}, isTraining() ? "Training" : "Rollout"),
    runs.length ? table(heads, rows) : empty("No data yet."),
  );
  if (!isTraining()) section.append(...rolloutFigures());
}

function state(run) {
  if (isLive && conditionOf(run) !== "ended") return conditionOf(run);
  if (!run.log.ended && run.is_locked && !isLive) return "under way, when this page was made";
  return run.log.ended ? run.log.ended.replace(/\.$/, "") : "killed, or copied while it ran";
}

function trainingRow(run) {
  const reward = run.figures.find(figure => figure.group === "run" && figure.name === "reward")?.all ?? [];
  const asked = run.settings["experiment.epochs"];
  const speed = run.figures.find(figure => figure.group === "time" && figure.name === "agent_steps_per_s")?.all ?? [];
  const last = reward.slice(-Math.max(1, Math.floor(reward.length / 10))).filter(value => value !== null);
  return [
    run.name,
    run.settings.game ?? "–",
    state(run),
    asked ? `${tell(run.epochs)} of ${tell(+asked)}` : tell(run.epochs),
    tell(run.agents.length),
    tell(mean(last)),
    tell(run.x.agent_steps.at(-1)),
    seconds(run.x.elapsed_s.at(-1)),
    tell(Math.round(speed.at(-1)) || null),
    tell(restarts(run)),
  ];
}

function restarts(run) {
  const counts = (run.figures ?? []).filter(({ group, name }) => group === "time" && /^(actor_)?restarts$/.test(name));
  return counts.reduce((sum, figure) => sum + Math.max(0, ...(figure.all ?? []).slice(-1)), 0);
}
