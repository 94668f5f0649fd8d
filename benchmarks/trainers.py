"""What it costs to play through a trainer's interface: turns per second of `rollout_func`, against stepping in process.

    python benchmarks/trainers.py                      # FrozenLake, SimpleSokoban
    python benchmarks/trainers.py --tags FrozenLake --episodes 32 --repeats 1

All play the same episodes with the same answers, which are there at once, so that what is timed is not a model. The limit
is the plain loop: one environment after the other, without tokens. Rows are ratios within one run.
`tokens`: the same loop with the tokens of every prompt made, which any trainer needs; `rollout_func`: TRL's form, in the
main process and in workers.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from abreast.integrations import trainers, trl
from abreast.rollouts import Context, EnvStateManager
from abreast.rollouts.context.sampled import TokenEpisode

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "rollouts" / "context"))
from tokenizers import END, CharTokenizer  # one token a character: tests/rollouts/context/tokenizers.py

TOKENIZER = CharTokenizer()
CONFIG = {"context": {"enable_think": False}}


def answer_of(tag: str) -> str:
    """An answer that does not end an episode soon."""
    names = EnvStateManager.for_tag(tag).tags[tag].config.action_lookup or {1: "nothing"}
    return f"<answer>{sorted(names.values())[0]}</answer>"


def plain(tag: str, seeds: list[int], answer: str, with_tokens: bool) -> int:
    turns = 0
    with EnvStateManager.for_tag(tag, config=CONFIG, use_multiprocessing=False) as manager:
        context = Context(manager.tags[tag])
        for seed in seeds:
            with manager.episode(seed=seed) as episode:
                tokens = TokenEpisode(context, TOKENIZER) if with_tokens else None
                while not episode.done:
                    if tokens is not None:
                        tokens.prompt(episode.cache)
                        tokens.write(TOKENIZER.encode(answer + END, add_special_tokens=False))
                    episode.step(answer)
                    turns += 1
    return turns


def through_trl(play: Any, count: int) -> dict[str, Any]:
    """All episodes at once. In an evaluation, seeds are those of every other call."""
    trainer = SimpleNamespace(
        processing_class=TOKENIZER,
        num_generations_eval=1,
        max_completion_length=64,
        accelerator=SimpleNamespace(process_index=0),
        model=SimpleNamespace(training=False, config=SimpleNamespace()),
        state=SimpleNamespace(global_step=0),
    )
    return play([[{"role": "user", "content": "Play."}]] * count, trainer)


def measure(tag: str, episodes: int, repeats: int) -> None:
    """Print the rates of a tag."""
    answer = answer_of(tag)
    ids = TOKENIZER.encode(answer + END, add_special_tokens=False)

    def answered(prompts: list[list[int]], trainer: Any) -> Any:
        return [ids] * len(prompts), None

    here, there = (
        trl.rollout_func(tag, config=CONFIG, use_multiprocessing=use, generate=answered) for use in (False, True)
    )
    seeds = through_trl(here, episodes)["episode_seed"]
    works = {
        "plain loop": lambda: plain(tag, seeds, answer, False),
        "tokens": lambda: plain(tag, seeds, answer, True),
        "rollout_func, main process": lambda: sum(through_trl(here, episodes)["num_turns"]),
        "rollout_func, workers": lambda: sum(through_trl(there, episodes)["num_turns"]),
    }
    turns = [work() for work in works.values()]  # this starts what has to be started
    if len(set(turns)) > 1:
        raise SystemExit(f"the ways to play {tag} had different numbers of turns: {turns}")
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            rates[name].append(work() / (time.perf_counter() - began))
    here.close()
    there.close()
    print(f"{tag}: {episodes} episodes, {turns[0]:,} turns, median of {repeats}")
    for name, each in rates.items():
        ratio = statistics.median(rate / limit for rate, limit in zip(each, rates["plain loop"], strict=True))
        print(f"  {name:28} {statistics.median(each):12,.0f} turns/s   {ratio:6.2f} of the plain loop")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tags", nargs="+", default=["FrozenLake", "SimpleSokoban"])
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    trainers.version = lambda package: f"{trainers.TRIED[package]}.0"  # type: ignore[assignment]  # its trainer is not used
    for each_tag in given.tags:
        measure(each_tag, given.episodes, given.repeats)
