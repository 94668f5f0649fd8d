"""A game whose process ends in the middle of a run, in the way that `world.fate` names; with a marker, only once."""

import os
import signal
import time
from pathlib import Path
from typing import ClassVar

from abreast.errors import WorldError
from own_game import Garden

FATAL_EPOCH = 5


class Fragile(Garden):
    """Agents gather berries until their process ends."""

    defaults: ClassVar = {**Garden.defaults, "world": {**Garden.defaults["world"], "fate": "none", "marker": ""}}

    def populate_environment(self):
        if self.epochs_played == FATAL_EPOCH:
            self.meet_fate(self.config.world.fate, self.config.world.marker)
        super().populate_environment()

    def meet_fate(self, fate, marker):
        if marker and Path(marker).exists():
            return
        if marker:
            Path(marker).touch()
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fate == "hangs":
            time.sleep(3600)
        elif fate == "raises":
            raise ZeroDivisionError("a berry was divided by zero")
        elif fate == "refuses":
            raise WorldError("there are no berries in winter.")
