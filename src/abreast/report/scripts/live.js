// The live view, and the beginning of it all.

// ---- the live view

const token = new URLSearchParams(location.search).get("token") ?? "";
const PERIOD_MS = 2000;
let newest = "",
  told = null;

function banner(text, isBad = false) {
  const place = byId("banner");
  place.hidden = !text;
  place.textContent = text;
  place.className = isBad ? "bad" : "";
}

/** running, paused or ended: as the server says it, or as far as the log has it. */
const conditionOf = run => run.condition ?? (run.log.ended ? "ended" : "running");
const isEach = condition => runs.length > 0 && runs.every(run => conditionOf(run) === condition);
const sentenceOf = async answer => (await answer.text()).replace(/\.$/, "");

function controls() {
  const asks = [
    ["pause", "Pause"],
    ["go_on", "Go on"],
    ["checkpoint", "Checkpoint now"],
    ["stop", "Stop"],
  ].filter(([name]) => isTraining() || name !== "checkpoint");
  const place = byId("controls"),
    useless = { pause: isEach("paused"), go_on: isEach("running") };
  if (place.childElementCount !== asks.length)
    place.replaceChildren(...asks.map(([name, text]) => el("button", { id: name, onclick: () => ask(name, text) }, text)));
  place.hidden = false;
  for (const button of place.children) button.disabled = isEach("ended") || Boolean(useless[button.id]);
}

async function ask(name, text) {
  if (name === "stop" && !confirm("Stop this run? It keeps what it has learned, and can go on later.")) return;
  try {
    const answer = await fetch(`control/${name}${location.search}`, { method: "POST", headers: { "X-Token": token } });
    told = {
      text: answer.ok
        ? `${text}: the run was asked, and does it between two ${isTraining() ? "passes" : "episodes"}.`
        : `${text} was refused: ${await sentenceOf(answer)}.`,
      isBad: !answer.ok,
      until: Date.now() + 8000,
    };
  } catch {
    told = { text: `${text}: the server cannot be reached.`, isBad: true, until: Date.now() + 8000 };
  }
  banner(told.text, told.isBad);
}

async function poll() {
  const began = performance.now();
  try {
    const answer = await fetch(`data.json${location.search}`, { cache: "no-cache" });
    if (!answer.ok) throw new Error(await sentenceOf(answer));
    const text = await answer.text();
    if (text !== newest) {
      const given = JSON.parse(text);
      runs = Array.isArray(given) ? given : given.runs.map(run => ({ condition: given.condition, ...run }));
      newest = text;
      show();
      controls();
    }
    const silent = Math.round(Date.now() / 1000 - Math.max(0, ...runs.map(run => run.changed)));
    if (told && Date.now() < told.until) banner(told.text, told.isBad);
    else if (isEach("ended")) banner(`This run has ended: ${runs.map(state).join("; ")}. The page stays as it is.`);
    else if (isEach("paused")) banner("This run is paused, until it is told to go on.");
    else if (silent > 60)
      banner(`No file of this run has changed for ${seconds(silent)}: it is busy with something long.`, true);
    else banner("");
  } catch (error) {
    const why =
      error instanceof TypeError
        ? "the server is gone. Start abreast watch again, and open the address that it prints"
        : error.message;
    banner(`Not up to date: ${why}. What you see is the last that was known.`, true);
    for (const button of byId("controls").children) button.disabled = true;
    newest = "";
  }
  setTimeout(poll, Math.max(PERIOD_MS, 10 * (performance.now() - began))); // reading a large run takes time from the run
}

// ---- begin

function fit() {
  for (const { chart, card } of plots.values()) {
    const place = card.querySelector(".plot");
    if (chart && place) chart.setSize({ width: Math.max(200, place.clientWidth), height: place.clientHeight });
  }
  if (timeline.view?.canvas.isConnected) paint(timeline.view);
}

new ResizeObserver(fit).observe(byId("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const key of Object.keys(shown)) delete shown[key];
  show();
});
addEventListener("scroll", () => tip(null), { passive: true });

if (isLive) poll();
else {
  runs = JSON.parse(byId("data").textContent);
  show();
}
