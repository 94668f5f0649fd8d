"""What another process asks of a run that is under way: pause, go on, checkpoint now, stop.

    ask (abreast watch)                               Requests (the run, between two passes)
      makes an empty file     ──▶  RUN/.control/pause, checkpoint, stop  ──▶    look: obeys what is there
      to go on: removes pause
      sees how the run is     ◀──  RUN/.control/paused                   ◀──    says that it is paused

Everything is said by an empty file, which is there or not: nothing is ever half-written, and what was asked last holds. A
run removes the folder when it begins and when it ends: one that is resumed does not find what was asked before.
"""

import math
import shutil
import time
from pathlib import Path

from abreast.errors import ConfigError, RunFolderError, log, nearest, short
from abreast.files import is_locked

REQUESTS = ("pause", "go_on", "checkpoint", "stop")
FOLDER, PAUSED = ".control", "paused"
LOOK_S = 0.1
"""Seconds between two looks: one takes 10 µs on a local disk and more on a network's, and a pass may take a millisecond."""


class Requests:
    """The side of the run. As a context it has the folder; without one that can be written, nothing can be asked.

    with Requests(run) as requests:
        while not requests.is_stopped:
            if requests.look(): ...             a checkpoint is asked for
            if requests.is_paused: ...
    """

    def __init__(self, run: Path) -> None:
        self._folder, self._next_look = run / FOLDER, 0.0
        self.is_paused = self.is_stopped = False
        """What is asked for now."""

    def __enter__(self) -> "Requests":
        try:
            shutil.rmtree(self._folder, ignore_errors=True)  # of a session that was killed
            self._folder.mkdir()  # never through a link
        except OSError as error:
            self._give_up(error)
        return self

    def look(self) -> bool:
        """See what is asked for; whether that is a checkpoint. Calls that follow each other fast do not look each time."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_S
        try:
            asked = {path.name for path in self._folder.iterdir()}
            if "checkpoint" in asked:
                (self._folder / "checkpoint").unlink()
            self.is_paused, self.is_stopped = "pause" in asked, "stop" in asked
            if self.is_paused != (PAUSED in asked):
                mark = self._folder / PAUSED
                mark.touch() if self.is_paused else mark.unlink()
            return "checkpoint" in asked
        except OSError as error:
            self._give_up(error)
            return False

    def _give_up(self, error: OSError) -> None:
        """Go on without being asked anything: a run that is paused must not wait for what cannot come."""
        log.warning("this run cannot be paused or stopped by `abreast watch`: %s", error.strerror or error)
        self._next_look, self.is_paused = math.inf, False

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def ask(run: Path | str, request: str) -> None:
    """Ask a run that is under way for something. It is done between two passes, or episodes; nobody waits for it here."""
    if request not in REQUESTS:
        raise ConfigError(f"a run cannot be asked for {short(request)}: {nearest(request, REQUESTS)}")
    if not is_locked(Path(run)):
        raise RunFolderError(f"nothing can be asked of {run} (here: {request}): no run is under way there.")
    try:
        if request == "go_on":
            Path(run, FOLDER, "pause").unlink(missing_ok=True)
        else:
            Path(run, FOLDER, request).touch()
    except OSError as error:
        raise RunFolderError(f"nothing can be asked of {run} (here: {request}): {error.strerror or error}.") from None


def condition_of(run: Path) -> str:
    """How the run in a folder is: running, paused or ended."""
    if not is_locked(run):
        return "ended"
    return "paused" if (run / FOLDER / PAUSED).exists() else "running"
