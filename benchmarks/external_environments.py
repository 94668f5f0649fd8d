"""Do environments of other projects do the same in workers, one of which is killed, as in a plain loop?

    python benchmarks/external_environments.py [--only NAME ...] [--output DIR]     five minutes

Prints the table of docs/how-to/gymnasium-rollouts.md. It has a row for each environment whose package is installed; the
others are listed as skipped. `benchmarks/external/` has what makes each of them playable: its glue, counted in lines of
code. The plain loop steps a single environment, without the manager. States, actions, rewards, info and success of its 64
episodes must be those of two workers, byte for byte, although one of these is killed while it takes a turn. The folder of
--output keeps what was compared, and what `abreast check` has said.
"""

import argparse
import importlib
import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from abreast.rollouts import EnvStateManager

HERE = Path(__file__).resolve().parent
EPISODES, AT_ONCE, WORKERS = 64, 8, 2
STORIES = 4
CHECK_SECONDS = 120
HEAD = "| environment | version | lines of glue | `abreast check` | 64 episodes, one worker killed |"


@dataclass(frozen=True)
class Case:
    """An environment, and what it needs."""

    name: str
    package: str
    """As pip calls it."""
    module: str
    """As Python imports it."""
    target: str
    """In benchmarks/external/."""
    turns: int = 12
    needs: str = ""
    """Another program, or "stories": files that TextWorld has to make first."""

    @property
    def file(self) -> Path:
        return HERE / "external" / f"{self.target.partition(':')[0]}.py"

    @property
    def env_type(self) -> str:
        return f"external.{self.target}"


CASES = (
    Case("reasoning-gym, letter_counting", "reasoning-gym", "reasoning_gym", "reasoning_gym_tasks:Task", turns=1),
    Case("GEM, GuessTheNumber", "gem-llm", "gem", "gem_games:guess_the_number"),
    Case("GEM, 2048", "gem-llm", "gem", "gem_games:game_2048"),
    Case("TextArena, GuessTheNumber, one player", "textarena", "textarena", "textarena_games:guess_the_number"),
    Case("TextArena, 2048, one player", "textarena", "textarena", "textarena_games:game_2048"),
    Case("TextArena, TicTacToe, the other at random", "textarena", "textarena", "textarena_games:tic_tac_toe"),
    Case("TextWorld, a game of tw-make", "textworld", "textworld", "textworld_games:Game", needs="stories"),
    Case("Jericho, the same stories", "jericho", "jericho", "jericho_games:Game", needs="stories"),
    Case("ScienceWorld, find-living-thing", "scienceworld", "scienceworld", "scienceworld_tasks:Task", needs="java"),
    Case("BabyAI, GoToRedBall", "minigrid", "minigrid", "babyai_levels:level"),
    Case("NLE, NetHackScore", "nle", "nle", "nethack:task"),
)


def missing(case: Case) -> str | None:
    """Return what a case lacks, or None."""
    if find_spec(case.module) is None:
        return f"{case.package} is not installed"
    if case.needs == "stories" and not any(Path("stories").glob("*.z8")):
        return "there are no stories: TextWorld, which makes them, is not installed"
    if case.needs and case.needs != "stories" and shutil.which(case.needs) is None:
        return f"{case.needs} is not installed"
    return None


def make_stories() -> None:
    """Make games with TextWorld, as `tw-make` does, in the folder `stories`."""
    import textworld

    for seed in range(STORIES):
        options = textworld.GameOptions()
        options.seeds, options.path, options.file_ext = seed, f"stories/{seed}.z8", ".z8"
        options.nb_rooms, options.nb_objects, options.quest_length = 3, 5, 3
        textworld.make(options)


# ---- what is compared


def answer(seed: int, turn: int, info: dict[str, Any]) -> str:
    """Select an action at random, the same wherever an episode is played."""
    listed = info.get("available_actions") or range(30)
    return str(random.Random(f"{seed}/{turn}").choice(listed))


def line(seed: int, history: list[dict[str, Any]], success: bool) -> bytes:
    """Return all that is said of an episode as a line of a file."""
    keys = ("state", "actions", "reward", "info")
    turns = [{key: entry[key] for key in keys if key in entry} for entry in history]
    return json.dumps({"seed": seed, "turns": turns, "success": success}, default=repr).encode() + b"\n"


def in_a_plain_loop(case: Case) -> Iterator[bytes]:
    """Play one episode after the other, in one environment, without the manager."""
    module, _, name = case.env_type.partition(":")
    env = getattr(importlib.import_module(module), name)()
    for seed in range(EPISODES):
        _, info = env.reset(seed=seed)
        history, success = [{"state": env.render()}], False
        for turn in range(case.turns):
            action = answer(seed, turn, info)
            _, reward, terminated, truncated, info = env.step(action)
            history[-1].update(actions=[action], reward=0.0 + reward, info=info)
            history.append({"state": env.render()})
            if terminated or truncated:
                success = bool(info.get("success", False))
                break
        yield line(seed, history, success)
    env.close()


def in_workers(case: Case) -> Iterator[bytes]:
    """Play the same episodes in two workers; one of them is killed in the second batch, while it takes a turn."""
    groups = {"env_groups": AT_ONCE, "group_size": 1, "env_configs": {"tags": ["Env"], "n_groups": [AT_ONCE]}}
    config = {
        "custom_envs": {"Env": {"env_type": case.env_type, "max_actions_per_traj": case.turns}},
        "es_manager": {"use_multiprocessing": True, "max_workers": WORKERS, "train": groups},
    }
    with EnvStateManager(config) as manager:
        for first in range(0, EPISODES, AT_ONCE):
            caches, turn = manager.reset(seed=first), 0
            while caches:
                manager.send([_input(cache, first, turn) for cache in caches])
                if first == AT_ONCE and turn == case.turns // 3:
                    os.kill(manager.worker_pids[0], signal.SIGKILL)
                caches, turn = manager.recv(min_ready=len(caches)), turn + 1
            for status, cache in zip(manager.statuses(), manager.caches, strict=True):
                yield line(status["seed"], cache["history"], not status["truncated"])
        restarts = manager.team.restarts if manager.team is not None else 0
    if restarts != 1:
        raise SystemExit(f"{case.name}: {restarts} restarts of workers: expected one, of that which was killed.")


def _input(cache: dict[str, Any], first: int, turn: int) -> dict[str, Any]:
    told = cache["info"] if turn == 0 else cache["history"][-2]["info"]
    return {"env_id": cache["env_id"], "actions": [answer(first + cache["env_id"], turn, told)]}


# ---- the table


def glue(case: Case) -> int:
    """Count the lines of code of its file; the two games of a project share one."""
    source = re.sub(r'"""[^"]*"""', "", case.file.read_text())
    return sum(bool(each.strip()) and not each.strip().startswith("#") for each in source.splitlines())


def checked(case: Case, output: Path) -> str:
    """Return the verdict of `abreast check`: the checks that are wrong, or ok and those with a note."""
    command = [sys.executable, "-m", "abreast", "check", case.env_type]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no verdict in {CHECK_SECONDS} s"
    (output / f"{_file_name(case)}.check.txt").write_text(done.stdout + done.stderr)
    wrong, notes = (re.findall(rf"^{each}\s+([^:]+):", done.stdout, re.MULTILINE) for each in ("wrong", "note"))
    if done.returncode:
        return f"wrong: {', '.join(wrong)}" if wrong else f"exit code {done.returncode}"
    return f"ok; note: {', '.join(notes)}" if notes else "ok"


def compared(case: Case, output: Path) -> str:
    """Return "equal", or how many episodes differ; both files are kept."""
    files = output / f"{_file_name(case)}.loop.jsonl", output / f"{_file_name(case)}.workers.jsonl"
    for file, play in zip(files, (in_a_plain_loop, in_workers), strict=True):
        file.write_bytes(b"".join(play(case)))
    loop, workers = (file.read_bytes() for file in files)
    if loop == workers:
        return "equal"
    differ = sum(a != b for a, b in zip(loop.splitlines(), workers.splitlines(), strict=True))
    return f"{differ} of {EPISODES} differ"


def _file_name(case: Case) -> str:
    return case.target.replace(":", ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="words of names, say GEM")
    parser.add_argument("--output", type=Path, default=Path(tempfile.gettempdir()) / "external_environments")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    os.chdir(output)  # TextWorld and Jericho look for the folder `stories`
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    if find_spec("textworld") is not None and not Path("stories").exists():
        make_stories()
    cases = [case for case in CASES if not arguments.only or any(word in case.name for word in arguments.only)]
    logging.disable(logging.INFO)  # some of them log every episode
    rows, skipped = [HEAD, "|---|---|---:|---|---|"], []
    for case in cases:
        if lack := missing(case):
            skipped.append(f"skipped: {case.name}: {lack}")
            continue
        print(f"{case.name} ...", file=sys.stderr)
        row = [case.name, f"{case.package} {version(case.package)}", str(glue(case))]
        rows.append(f"| {' | '.join([*row, checked(case, output), compared(case, output)])} |")
    print("\n".join([*rows, "", *skipped, f"What was compared: {output}"]))  # at the end: some of them print, too


if __name__ == "__main__":
    main()
