"""Chapter 10: many text environments at once. The wrong worker, replay, exactly once.

python docs/guide/10_text_environments.py
"""

import os
import signal
import tempfile
from pathlib import Path

import gymnasium

from abreast import EnvStateManager
from abreast.processes.backend import ChildSpec
from abreast.processes.process import ProcessBackend
from abreast.processes.team import RestartPolicy, Team

HUNTERS, TURNS, STEPS = 5, 6, 30
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
ACTIONS = [[list(MOVES)[(3 * hunter + turn) % 4] for turn in range(TURNS)] for hunter in range(HUNTERS)]


class Hunt(gymnasium.Env):
    """Treasure hunt for one hunter, told as text. Each step is also paid for, in the world outside."""

    render_mode, metadata = "text", {"render_modes": ["text"]}
    observation_space, action_space = gymnasium.spaces.Text(100), gymnasium.spaces.Text(10)

    def __init__(self, ledger=os.devnull):
        self.ledger = ledger

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hunter, self.gem = self.np_random.integers(0, 5, (2, 2))
        return self.render(), {}

    def step(self, action):
        self.hunter = (self.hunter + MOVES[action]) % 5
        found = bool((self.hunter == self.gem).all())
        with Path(self.ledger).open("a") as file:
            file.write("a step is paid for\n")
        return self.render(), float(found), found, False, {"success": found}

    def render(self):
        return f"You stand at {self.hunter.tolist()}, a gem lies at {self.gem.tolist()}."


class PaidHunt(Hunt):
    replayable = False  # a step that was paid for must not be taken again, not even after a death


class PoolWorker:
    """A worker as pools are often used: it makes an environment when it first hears of it, and keeps it."""

    def __init__(self, context):
        self.context, self.envs = context, {}

    def obey(self, key, order):
        hunter, action = order
        if hunter not in self.envs:
            self.envs[hunter] = Hunt()
            self.envs[hunter].reset(seed=hunter)
        self.context.answer(key, self.envs[hunter].step(action)[0])

    idle = close = lambda self: None


def any_worker(size):
    """A pool gives each step to a worker that is free; here, so that it is the same each time, to one after the other."""
    team = Team(ProcessBackend(), lambda _: ChildSpec("pool worker", PoolWorker), size, RestartPolicy(0, 60))
    team.start()
    texts = [""] * HUNTERS
    for step in range(STEPS):
        turn, hunter = divmod(step, HUNTERS)
        team.submit(step % size, hunter, (hunter, ACTIONS[hunter][turn]))
        while not (events := team.events()):
            team.wait(1.0)
        texts[hunter] = events[0].value
    team.stop()
    return texts


def managed(kind, ledger):
    """The same with the manager; before turn 3 a worker is killed. Returns all last texts, and how many episodes ended."""
    tag = {"env_type": f"{__file__}:{kind.__name__}", "max_actions_per_traj": 20, "env_config": {"ledger": str(ledger)}}
    groups = {"group_size": 1, "env_configs": {"tags": ["Hunt"], "n_groups": [HUNTERS]}}
    settings = {"use_multiprocessing": True, "max_workers": 2, "train": groups}
    with EnvStateManager({"custom_envs": {"Hunt": tag}, "es_manager": settings}) as manager:
        outputs = manager.reset(seed=0)
        for turn in range(TURNS):
            if turn == 3:
                os.kill(manager.worker_pids[0], signal.SIGKILL)
            inputs = [{"env_id": (each := cache["env_id"]), "actions": [ACTIONS[each][turn]]} for cache in outputs]
            outputs = manager.step(inputs)
        return [cache["history"][-1]["state"] for cache in manager.caches], HUNTERS - len(outputs)


def main():
    # The pitfall: a step goes to any worker. All steps are taken and answered, on boards that are not those.
    right, pooled = any_worker(1), any_worker(2)  # with a single worker it is a plain loop over the environments
    print("any worker: hunters in a wrong place:", sum(map(str.__ne__, pooled, right)), "of", HUNTERS)
    assert pooled != right

    # Mended: an environment stays in its worker. One that is killed is rebuilt by replaying its actions.
    with tempfile.TemporaryDirectory() as folder:
        for kind in (Hunt, PaidHunt):
            texts, ended = managed(kind, ledger := Path(folder, kind.__name__))
            paid = len(ledger.read_text().splitlines())
            print(
                f"{kind.__name__}: texts right: {texts == right}; episodes ended: {ended}; steps paid: {paid} of {STEPS}"
            )
            assert (texts == right and paid > STEPS) if kind is Hunt else (ended and paid < STEPS)


if __name__ == "__main__":
    main()
