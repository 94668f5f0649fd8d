"""The run folder of a rollout.

<run folder>/  config.yaml   rollout.yaml   trajectories.jsonl   images/episode_000003_02.png   log.txt
"""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

import yaml

from abreast.errors import ConfigError, RunFolderError, log
from abreast.files import locked, logged_to, write_whole
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.lines import Line, encode, line_of, repair, save_picture
from abreast.rollouts.drivers.policies.base import Played
from abreast.rollouts.drivers.results import Results
from abreast.settings import read_yaml

_PICTURE = re.compile(r"episode_(\d+)_\d+\.png")


def read_run(folder: Path) -> tuple[RolloutConfig, PlayConfig, str]:
    """What a run was begun with, the version of abreast among it."""
    missing = next((name for name in ("config.yaml", "rollout.yaml") if not (folder / name).is_file()), None)
    if missing is not None:
        raise RunFolderError(
            f"{folder} is no run of `abreast rollout` that could be used: it has no {missing}. (One that was stopped before"
            " its first episode leaves nothing to resume: remove the folder, and start it again.)"
        )
    given = read_yaml(folder / "rollout.yaml")
    version = str(given.pop("abreast_version", "unknown"))
    try:
        return RolloutConfig.parse(read_yaml(folder / "config.yaml")), PlayConfig.parse(given), version
    except ConfigError as error:
        raise RunFolderError(f"{folder} cannot be used: {error}") from None


class Trajectories:
    """Writes each episode as soon as it is over, so that a crash loses none that has ended.

    A run that is resumed appends to what is there: `numbers` are the episodes that it had, `faults` what else was in its
    file. `results` has the figures of these and of those that are added.
    """

    def __init__(
        self,
        folder: Path,
        config: RolloutConfig,
        play: PlayConfig,
        remark: str,
        version: str,
        retry_failed: bool = False,
    ) -> None:
        self._folder = folder
        self._config = f"# {remark}\n{yaml.safe_dump(config.model_dump(), sort_keys=False)}"
        self._play = yaml.safe_dump({"abreast_version": version, **play.model_dump()}, sort_keys=False)
        self._remark, self.results, self._asked = remark, Results(), play.episodes
        with _writing_to(folder), ExitStack() as until:
            until.enter_context(locked(folder))
            self.numbers = set[int]()
            self.faults = repair(folder / "trajectories.jsonl", lambda line: self._keep(line, retry_failed))
            _remove_leftovers(folder, self.numbers)
            self._open = until.pop_all()

    def _keep(self, line: Line, retry_failed: bool) -> bool:
        """Note an episode that the run had, unless it is to be played again."""
        if retry_failed and line["unanswered"]:
            return False
        self.results.add(line)
        self.numbers.add(line["episode"])
        return True

    def __enter__(self) -> "Trajectories":
        with _writing_to(self._folder), ExitStack() as until:
            until.push(self._open)  # the lock: without it, what was made is taken back
            write_whole(self._folder / "config.yaml", self._config.encode())
            write_whole(self._folder / "rollout.yaml", self._play.encode())
            until.enter_context(logged_to(self._folder / "log.txt"))
            # Lines are appended: a file that is replaced as a whole could only be written at the end. There is no buffer,
            # which would write the rest of a line that did not fit on the disk at some later time.
            self._file = until.enter_context((self._folder / "trajectories.jsonl").open("ab", buffering=0))
            self._open = until.pop_all()
        log.info(self._remark)
        if self.results.before:
            log.info("resumed with %d episodes", self.results.before)
        for fault in self.faults:
            log.warning("%s It is played again.", fault)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        count, before = len(self.results.tallies), self.results.before
        is_whole = error is None and before + count >= self._asked
        how, of = ("finished", "") if is_whole else ("stopped", f", of {self._asked}")
        told = (
            (f" more, {before + count} in all" if before else "")
            + of
            + (f", by {type(error).__name__}" if error else "")
        )
        log.info("%s after %d episodes%s", how, count, told)
        self._open.close()

    def add(self, played: Played) -> None:
        """Write an episode."""
        names = (f"images/episode_{played.number:06d}_{number:02d}.png" for number in count())
        with _writing_to(self._folder):
            line = line_of(played, lambda image: save_picture(image, self._folder, next(names)))
            self._append(encode(line))
        self.results.add(line, played.tally)

    def _append(self, line: bytes) -> None:
        """Write a whole line, or none of it if the disk is full."""
        end, rest = self._file.seek(0, os.SEEK_END), memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(end)
            raise


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """A full disk, or a folder that may not be written to, is a sentence."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"cannot write to the run folder {folder}: {error.strerror or error}.") from None


def _remove_leftovers(folder: Path, episodes: Collection[int]) -> None:
    """Remove what a run that was killed has not finished: half-written files, and pictures of episodes it does not have."""
    pictures = folder / "images"
    for path in (*folder.glob(".*.*.part"), *pictures.glob(".*.*.part")):  # as `write_whole` names them
        path.unlink(missing_ok=True)
    for path in pictures.glob("episode_*.png"):
        named = _PICTURE.fullmatch(path.name)
        if named is not None and int(named[1]) not in episodes:
            path.unlink(missing_ok=True)
