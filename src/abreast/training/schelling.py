"""The Schelling diagram of a game: what a cooperator and a defector get, against how many of the others cooperate.

Agents are scripted: a game says in `Environment.scripted` what it means to cooperate and to defect. Nothing is learned.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import GameError, short
from abreast.streams import seeded_globals
from abreast.training.environment import Environment
from abreast.training.lanes import GridworldLanes
from abreast.training.statistics import bootstrap_interval

ROLES = ("cooperate", "defect")
COLOURS = {"cooperate": "#2e6f95", "defect": "#d1495b"}


class Payoff(NamedTuple):
    """What agents of a role get in an epoch, in their mean, with its 95 % interval (none of a single epoch)."""

    role: str
    others: int
    """How many of the other agents cooperate."""
    mean: float
    interval: tuple[float, float] | None
    episodes: int


class Diagram(NamedTuple):
    """All payoffs of a game: those of cooperators, then those of defectors, each by how many others cooperate."""

    game: str
    payoffs: list[Payoff]

    def of(self, role: str) -> list[Payoff]:
        return [each for each in self.payoffs if each.role == role]

    @property
    def verdict(self) -> str:
        """Whether it is a social dilemma, and by which of the two reasons to defect."""
        (sucker, *_, reward), (punishment, *_, temptation) = ([each.mean for each in self.of(role)] for role in ROLES)
        reasons = [("fear", punishment > sucker), ("greed", temptation > reward)]
        found = " and ".join(name for name, is_there in reasons if is_there)
        is_dilemma = reward > punishment and reward > sucker and found
        return (
            f"all cooperate {reward:.4g}, all defect {punishment:.4g}, a lone cooperator {sucker:.4g}, a lone defector"
            f" {temptation:.4g}: {f'a social dilemma, by {found}' if is_dilemma else 'no social dilemma'}."
        )

    def write(self, folder: Path) -> list[Path]:
        """schelling.csv, and schelling.png where matplotlib is there; returns what was written."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["other_cooperators,role,payoff,low,high,episodes"]
        for each in self.payoffs:
            low, high = each.interval or ("", "")
            lines.append(f"{each.others},{each.role},{each.mean},{low},{high},{each.episodes}")
        (folder / "schelling.csv").write_text("\n".join(lines) + "\n")
        try:
            self._draw(folder / "schelling.png")
        except ImportError:
            return [folder / "schelling.csv"]
        return [folder / "schelling.png", folder / "schelling.csv"]

    def _draw(self, path: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), dpi=110, layout="tight")
        axes = figure.subplots()
        for role in ROLES:
            points = self.of(role)
            others = [each.others for each in points]
            axes.plot(others, [each.mean for each in points], "o-", color=COLOURS[role], label=f"an agent that {role}s")
            if all(each.interval for each in points):
                lows, highs = zip(*(each.interval for each in points if each.interval), strict=True)
                axes.fill_between(others, lows, highs, color=COLOURS[role], alpha=0.2, linewidth=0)
        axes.set(xlabel="other agents that cooperate", ylabel="reward in an epoch", title=self.game, xticks=others)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        figure.savefig(path)


def check_scripts(env: Any, name: str) -> None:
    """Refuse a game that has no such diagram."""
    scripted = env.scripted if isinstance(env, Environment) else {}
    missing = [role for role in ROLES if not callable(scripted.get(role))]
    if missing:
        raise GameError(
            f"{name} does not say what it means to {missing[0]}: let its environment have scripted = {{'cooperate': f,"
            " 'defect': g}, two functions of an agent and its world that return the number of an action."
        )
    if len(env.agents) < 2:
        raise GameError(f"{name} has one agent, and a Schelling diagram needs others: raise experiment.num_agents.")


def schelling_diagram(
    env: Any, name: str, episodes: int, seed: int = 0, on_episode: Callable[[], None] = lambda: None
) -> Diagram:
    """Play a game with every number of cooperators. Who they are is drawn anew for each epoch; all follows from the seed."""
    check_scripts(env, name)
    kind = type(env).__name__
    agents = len(env.agents)
    earned: dict[tuple[str, int], list[float]] = {}
    for cooperators in range(agents + 1):
        for episode in range(episodes):
            stream = np.random.SeedSequence(seed, spawn_key=(cooperators, episode))
            order = np.random.default_rng(stream).permutation(agents).tolist()
            roles = [ROLES[place >= cooperators] for place in order]
            with seeded_globals(stream):
                scores = _play(env, roles, stream, kind)
            for role in set(roles):
                own = [score for score, each in zip(scores, roles, strict=True) if each == role]
                earned.setdefault((role, cooperators - (role == "cooperate")), []).append(fmean(own))
            on_episode()
    return Diagram(name, list(_payoffs(earned, agents)))


def _payoffs(earned: dict[tuple[str, int], list[float]], agents: int) -> Iterator[Payoff]:
    for role in ROLES:
        for others in range(agents):
            values = earned[role, others]
            yield Payoff(role, others, fmean(values), bootstrap_interval(values), len(values))


def _play(env: Environment, roles: list[str], stream: np.random.SeedSequence, kind: str) -> list[float]:
    """One epoch; returns what each agent got."""
    GridworldLanes(env).draw_from([stream] * len(env.lanes))
    env.reset()
    asked = [0] * len(roles)

    def choose(number: int, state: object) -> int:
        asked[number] += 1
        action: Any = env.scripted[roles[number]](env.agents[number], env.world)
        if not isinstance(action, int | np.integer) or not 0 <= action < env.agents[number].action_spec.n_actions:
            raise GameError(
                f"{kind}.scripted[{roles[number]!r}] returned {short(action)}: expected the number of an action, from 0 to"
                f" {env.agents[number].action_spec.n_actions - 1}."
            )
        return int(action)

    for number, agent in enumerate(env.agents):  # which `reset` may have made anew
        agent.get_action = partial(choose, number)
    while env.is_playing:
        env.take_turn()
    if env.turn and not all(asked):
        raise GameError(
            f"agent {asked.index(0)} of {kind} takes its turn without get_action, so no script can play it: let its"
            " `transition` call self.get_action(state)."
        )
    return [agent.score + agent.take_given() for agent in env.agents]
