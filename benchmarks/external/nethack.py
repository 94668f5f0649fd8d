"""NetHack, which `reset` does not seed, and whose info holds what cannot be sent from a worker."""

import gymnasium
import nle  # noqa: F401 (registers the tasks)

from abreast.rollouts.adapters import TextAdapter


class Seeded(gymnasium.Wrapper):
    def reset(self, *, seed=None, options=None):
        self.unwrapped.seed(core=seed, disp=seed, reseed=False)
        return super().reset(seed=seed, options=options)[0], {}

    def step(self, action):
        *result, info = super().step(action)
        return *result, {"success": bool(info["is_ascended"])}


def task(name="NetHackScore-v0"):
    env = gymnasium.make(name, render_mode="ansi", savedir=None)
    names = {number: str(action).split(".")[-1] for number, action in enumerate(env.unwrapped.actions)}
    return TextAdapter(Seeded(env), names)
