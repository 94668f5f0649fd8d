"""A game and models that raise when they are told to: SIGUSR2 arms them, the next update or turn goes wrong."""

import signal
import threading

from abreast.games import Game, find_game
from abreast.games.treasurehunt import TreasurehuntEnv
from abreast.models import DQN, IQN, PPO
from abreast.processes.child import parent_pid

_armed = threading.Event()


class Misfortune(Exception):
    """What is raised."""


def listen() -> None:
    """Let SIGUSR2 arm this process, if it is a child."""
    if parent_pid() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR2, lambda *_: _armed.set())


def fail_if_armed() -> None:
    """Raise, once, if this process was told to."""
    if _armed.is_set():
        _armed.clear()
        raise Misfortune("somebody asked for it")


class _Unlucky:
    def __init__(self, *args, **kwargs):
        listen()
        super().__init__(*args, **kwargs)

    def train_step(self):
        loss = super().train_step()
        fail_if_armed()  # in the middle of a round: what was learned since the last publish is lost
        return loss


class UnluckyDQN(_Unlucky, DQN):
    """As DQN."""


class UnluckyIQN(_Unlucky, IQN):
    """As IQN."""


class UnluckyPPO(_Unlucky, PPO):
    """As PPO."""


class UnluckyHunt(TreasurehuntEnv):
    """As treasure hunt."""

    def __init__(self, *args, **kwargs):
        listen()
        super().__init__(*args, **kwargs)

    def after_turn(self):
        fail_if_armed()


GAME = Game(UnluckyHunt, "unlucky", "Raises when told to.", find_game("treasurehunt").folder)
