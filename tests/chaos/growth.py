"""Long runs whose memory and descriptors have to stay as they are."""

import gc
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from chaos.leftovers import descendants, descriptors, memory_kb
from fakes import small_game

ALLOWED = 0.02
"""How much resident memory may grow after the warm-up."""
WARM_UP = 0.2
"""Share of a run that counts as warm-up: replays fill, allocators find their size."""
SETTINGS = (
    "model.algorithm=dqn", "experiment.max_turns=50", "experiment.num_agents=4", "model.hidden_size=16",
    "model.buffer_capacity=1024", "model.batch_size=16", "model.n_frames=1", "model.gradient_steps=1",
    "experiment.train_interval=4",
)  # fmt: skip


class Meter:
    """A logger that looks at memory and descriptors of the run now and then: this process, then its workers."""

    def __init__(self, epochs: int, looks: int = 40) -> None:
        self._every = max(1, epochs // looks)
        self.seen: list[dict[str, tuple[int, int]]] = []

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: object) -> None:
        if epoch % self._every == 0:
            pids = [os.getpid(), *sorted(descendants(os.getpid()))]
            self.seen.append({str(pid): (memory_kb(pid), descriptors(pid)) for pid in pids})

    def report(self) -> list[str]:
        """A line for each process: what it had after the warm-up and at the end. Fails if one has grown."""
        settled = self.seen[int(len(self.seen) * WARM_UP) :]
        lines, faults = [], []
        for pid in settled[-1]:
            memory, opened = zip(*(each[pid] for each in settled if pid in each), strict=True)
            half = len(memory) // 2
            before, after = max(memory[:half]), max(memory[half:])
            who = "main" if pid == str(os.getpid()) else "worker"
            lines.append(f"{who}: {before} -> {after} kB, {opened[0]} -> {opened[-1]} descriptors")
            if after > before * (1 + ALLOWED) + 64 or max(opened[half:]) > max(opened[:half]):
                faults.append(lines[-1])
        assert not faults, f"{faults}; all: {lines}; looks: {settled[:: max(1, len(settled) // 10)]}"
        return lines


def growth(seed: int, agent_steps: int, parallel: bool, *overrides: str) -> str:
    """Play so many agent-steps and look at memory meanwhile; returns what was seen."""
    epochs = max(40, agent_steps // 200)
    settings = (*SETTINGS, f"experiment.epochs={epochs}", f"experiment.seed={seed}", *overrides)
    env = small_game(*settings)
    meter = Meter(epochs)
    with tempfile.TemporaryDirectory() as folder:
        run = env.run_experiment_mp if parallel else env.run_experiment
        run(animate=False, logger=meter, output_dir=Path(folder) / "run")
    return "; ".join(meter.report())


class Census:
    """A logger that counts the objects of this process that may hold others, by type, at some epochs."""

    def __init__(self, *epochs: int) -> None:
        self._epochs = epochs
        self.counts: list[Counter[str]] = []

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: object) -> None:
        if epoch in self._epochs:
            gc.collect()
            self.counts.append(Counter(type(each).__name__ for each in gc.get_objects()))

    @property
    def grown(self) -> dict[str, int]:
        """By how many objects of each type there are more, in each of the times between these epochs: what is made once,
        say because a class is looked up in all abstract ones, is in one of them."""
        times = [after - before for before, after in pairwise(self.counts)]
        return {name: more for name in times[0] if (more := min(time[name] for time in times)) > 0}


def objects_grown(folder: Path, epochs: Sequence[int], parallel: bool, *overrides: str) -> dict[str, int]:
    """Which objects a run of a few hundred epochs has more of at its end; workers are threads, so that all are here."""
    settings = (
        "model.algorithm=dqn",
        "experiment.max_turns=3",
        f"experiment.epochs={epochs[-1] + 1}",
        "multiprocessing.workers=threads",
    )
    env = small_game(*settings, *overrides)
    census = Census(*epochs)
    run = env.run_experiment_mp if parallel else env.run_experiment
    run(animate=False, logger=census, output_dir=folder / "run")
    return census.grown
