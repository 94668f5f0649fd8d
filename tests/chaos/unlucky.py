"""A game and models that end their process when SIGUSR2 has told them to: in the middle of the next update or turn.

As native code that crashes. (What raises is not tried again: see test_hosted.py.)
"""

import os
import signal
import threading

from abreast.games import Game, find_game
from abreast.games.treasurehunt import TreasurehuntEnv
from abreast.models import DQN, IQN, PPO
from abreast.processes.child import parent_pid

_armed = threading.Event()


def listen() -> None:
    """Let SIGUSR2 arm this process, if it is a child."""
    if parent_pid() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR2, lambda *_: _armed.set())


def exit_if_armed() -> None:
    """End this process at once, if it was told to."""
    if _armed.is_set():
        os._exit(1)


class _Unlucky:
    def __init__(self, *args, **kwargs):
        listen()
        super().__init__(*args, **kwargs)

    def train_step(self):
        loss = super().train_step()
        exit_if_armed()  # in the middle of a round: what was learned since the last publish is lost
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
        exit_if_armed()


GAME = Game(UnluckyHunt, "unlucky", "Exits when told to.", find_game("treasurehunt").folder)
