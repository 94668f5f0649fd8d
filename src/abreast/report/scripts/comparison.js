// What `abreast compare` has found, if there is anything.

function comparison(section) {
  const told = runs.find(run => run.comparison).comparison;
  const about = told.about;
  const interval = row => (row.low === null ? "–" : `${tell(row.low)} to ${tell(row.high)}`);
  const ofAgent = row => about.who.indexOf(row.who); // both modes of an algorithm stand together
  const rows = [...told.summary, ...(told.other_modes || [])].sort((one, two) => ofAgent(one) - ofAgent(two));
  const summary = rows.map(row => [
    row.who,
    row.algorithm,
    row.mode || "–",
    tell(row.runs),
    tell(row.mean),
    tell(row.interquartile_mean),
    interval(row),
  ]);
  const better = told.improvement
    .filter(row => row.who === about.who[0])
    .map(row => [`${row.algorithm} over ${row.over}`, tell(row.probability), interval(row)]);
  section.replaceChildren(
    el("h2", {}, "Comparison"),
    el(
      "p",
      {},
      `${counted(told.runs.length, "run")} in ${about.tasks.join(", ")}; ${counted(about.episodes, "episode")} at each checkpoint,`,
      ` ${tell(about.absolute_episodes)} at the best one. ${about.normalise === "none" ? "Scores are rewards of an episode." : `Scores are normalised: ${about.normalise}.`}`,
    ),
    ...told.notes.map(note => el("p", { class: "empty" }, note)),
    table(["agent", "algorithm", "mode", "runs", "mean", "interquartile mean", "95 % interval"], summary),
    ...(better.length ? [table(["probability of improvement", "all agents", "95 % interval"], better)] : []),
    ...(told.picture ? [el("img", { src: told.picture, alt: "The figures of the comparison", class: "wide" })] : []),
  );
}
