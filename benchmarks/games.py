"""Do the games learn with the settings they come with? The curves and films of their READMEs.

    python benchmarks/games.py [--seeds 3] [--jobs CORES] [--only GAME ...] [--epochs N] [--output DIR]
    python benchmarks/games.py --draw DIR            learning-<game>.png from DIR/curves.csv; needs matplotlib

Each game is trained with its own settings and every seed, sequentially, each run in a process of its own; beside that,
agents that act at random play it. Written are `curves.csv` (game, seed, epoch, figure, value), `<game>.gif` (the last epoch
of seed 0), and, where matplotlib is there, the pictures. Printed is the mean of the last tenth of each run.
"""

import argparse
import csv
import math
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean

from abreast.games import find_game, list_games

RANDOM_EPOCHS = 60
LONE_LEARNERS = {"tag": [f"model.per_agent.{agent}.algorithm=random" for agent in range(1, 4)]}
"""Games whose rewards add up to nearly the same however well one plays: agent 0 learns among agents that act at random."""
TELLING = {
    "cleanup": ("dirty_share",),
    "coins": ("coins", "own_colour"),
    "harvest": ("apples_left",),
    "iowa": ("good_decks",),
    "kitchen": ("soups",),
    "prisoners": ("cooperation",),
}
"""Figures of a game's own that say more than the reward does."""
Row = tuple[str, str, int, str, float]
Curves = dict[str, dict[str, dict[str, dict[int, float]]]]
"""By game, figure, seed and epoch; a figure that is not defined in an epoch (nobody took a coin, say) is left out."""


def train(game: str, seed: str, epochs: int | None, output: Path) -> tuple[list[Row], float]:
    """One run; returns a row for each figure of each epoch, and its CPU seconds. The seed `random`: nothing learns."""
    found, is_random = find_game(game), seed == "random"
    overrides = [f"experiment.epochs={RANDOM_EPOCHS}"] if is_random else LONE_LEARNERS.get(game, [])
    overrides = [*overrides, "multiprocessing.device=cpu"] + ([] if is_random else [f"experiment.seed={seed}"])
    if epochs is not None and not is_random:
        overrides.append(f"experiment.epochs={epochs}")
    env = found.build(found.configure(None, overrides))
    if is_random:
        env.act_at_random()
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        result = env.run_experiment(animate=seed == "0", logging=False, output_dir=Path(folder) / "run")
        for film in Path(folder).rglob("last.gif"):
            shutil.copy(film, output / f"{game}.gif")
    rows = []
    for record in result.epochs:
        reward = record["reward_per_agent"][0] if game in LONE_LEARNERS else record["reward"]
        figures = {"reward": reward, **record.get("metrics", {})}
        rows += [(game, seed, record["epoch"], name, value) for name, value in figures.items() if value is not None]
    return rows, time.process_time() - begin


def train_all(games: list[str], seeds: int, jobs: int, epochs: int | None, output: Path) -> None:
    """Every game with every seed, and at random; `curves.csv` has what is there already while the rest runs."""
    output.mkdir(parents=True, exist_ok=True)
    names = [*map(str, range(seeds)), "random"]
    context = multiprocessing.get_context("spawn")
    with (output / "curves.csv").open("w", newline="") as file, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        writer = csv.writer(file)
        writer.writerow(["game", "seed", "epoch", "figure", "value"])
        started = {pool.submit(train, game, seed, epochs, output): (game, seed) for seed in names for game in games}
        for done in as_completed(started):
            rows, cpu_s = done.result()
            writer.writerows(rows)
            file.flush()
            print(f"{' '.join(started[done])}: {len(rows)} rows, {cpu_s:.0f} s of CPU time", flush=True)


def read(path: Path) -> Curves:
    curves: Curves = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            curves[row["game"]][row["figure"]][row["seed"]][int(row["epoch"])] = float(row["value"])
    return curves


def report(curves: Curves) -> Iterator[str]:
    """A line for each game: the last tenth of each run, beside what random agents get."""
    for game, figures in sorted(curves.items()):
        for figure in ("reward", *TELLING.get(game, ())):
            runs = dict(figures[figure])
            chance = fmean(runs.pop("random", {0: math.nan}).values())
            last = [fmean(list(run.values())[-max(1, len(run) // 10) :]) for _, run in sorted(runs.items())]
            yield f"{game}, {figure}: {', '.join(f'{value:.2f}' for value in last)}; random {chance:.2f}"


def smooth(values: list[float], width: int = 20) -> list[float]:
    return [fmean(values[max(0, end - width) : end]) for end in range(1, len(values) + 1)]


def draw(curves: Curves, folder: Path) -> None:
    """A picture for each game: one line per run, averaged over 20 epochs, and one for random agents."""
    from matplotlib.figure import Figure

    for game, figures in curves.items():
        shown = ["reward", *TELLING.get(game, ())]
        picture = Figure(figsize=(4.9 * len(shown), 4), dpi=110, layout="tight")
        panels = picture.subplots(1, len(shown), squeeze=False)[0]
        for axes, figure in zip(panels, shown, strict=True):
            for number, (seed, run) in enumerate(sorted(figures[figure].items())):
                if seed == "random":
                    axes.axhline(
                        fmean(run.values()), color="#8d99ae", linestyle="--", linewidth=2, label="random agents"
                    )
                else:
                    axes.plot(
                        list(run),
                        smooth(list(run.values())),
                        color="#2e6f95",
                        linewidth=1.6,
                        label="" if number else "each seed",
                    )
            who = "the learner" if game in LONE_LEARNERS else "all agents"
            label = f"reward of {who}" if figure == "reward" else figure.replace("_", " ")
            axes.set(xlabel="epoch", ylabel=f"{label}, mean of 20 epochs")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25)
        picture.suptitle(f"{game}, {find_game(game).configure().experiment.num_agents} agents")
        picture.legend(*panels[0].get_legend_handles_labels(), loc="upper right", ncols=2, frameon=False)
        picture.savefig(folder / f"learning-{game}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", type=Path, metavar="DIR", help="draw what was measured before")
    parser.add_argument("--only", nargs="+", choices=list_games(), default=list_games(), metavar="GAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--epochs", type=int, help="instead of what each game says")
    parser.add_argument("--output", type=Path, default=Path("runs/games"))
    arguments = parser.parse_args()
    folder: Path = arguments.draw or arguments.output
    if arguments.draw is None:
        train_all(arguments.only, arguments.seeds, arguments.jobs, arguments.epochs, folder)
    curves = read(folder / "curves.csv")
    print("\nlast tenth of each run, per seed:\n" + "\n".join(report(curves)))
    try:
        draw(curves, folder)
    except ImportError:
        print(f"pictures need matplotlib: python benchmarks/games.py --draw {folder}")


if __name__ == "__main__":
    main()
