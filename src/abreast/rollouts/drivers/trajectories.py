"""The run folder of a rollout.

<run folder>/  config.yaml   rollout.yaml   trajectories.jsonl   images/episode_000003_02.png   log.txt
"""

import io
import logging
import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import yaml
from PIL.Image import Image

from abreast.errors import ConfigError, RunFolderError
from abreast.files import locked, logged_to, write_whole
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.lines import Found, encode, line_of, repair
from abreast.rollouts.drivers.policies.base import Played
from abreast.settings import read_yaml

log = logging.getLogger("abreast")

_PICTURE = re.compile(r"episode_(\d+)_\d+\.png")
_HALF_WRITTEN = re.compile(r"\.(config\.yaml|rollout\.yaml|trajectories\.jsonl|episode_\d+_\d+\.png)\.\d+\.part")
"""Names of files that `write_whole` has not renamed yet."""


class Begun(NamedTuple):
    """A run that was begun before."""

    config: RolloutConfig
    play: PlayConfig


def read_run(folder: Path) -> Begun:
    """What a run was begun with."""
    missing = [name for name in ("config.yaml", "rollout.yaml") if not (folder / name).is_file()]
    if missing:
        if (
            missing == ["rollout.yaml"] and not (folder / "trajectories.jsonl").exists()
        ):  # it is written after the other
            raise RunFolderError(
                f"{folder} has no rollout.yaml: a rollout that was stopped before its first episode leaves nothing to"
                " resume; remove the folder, and start it again."
            )
        raise RunFolderError(f"{folder} is no run of `abreast rollout` that could be resumed: it has no {missing[-1]}.")
    given = read_yaml(folder / "rollout.yaml")
    try:
        play = PlayConfig.parse({key: value for key, value in given.items() if key != "abreast_version"})
    except ConfigError as error:
        raise RunFolderError(f"{folder / 'rollout.yaml'} cannot be used: {error}") from None
    return Begun(RolloutConfig.parse(read_yaml(folder / "config.yaml")), play)


def read_version(folder: Path) -> str:
    """The version of abreast that played a run."""
    path = folder / "rollout.yaml"
    return str(read_yaml(path).get("abreast_version", "unknown")) if path.is_file() else "unknown"


def read_player(folder: Path) -> tuple[str | None, str | None]:
    """The policy that played a run, and its model, if it has one."""
    if not (folder / "rollout.yaml").is_file():
        return None, None
    play = read_run(folder).play
    return play.policy, play.server.model


class Trajectories:
    """Writes each episode as soon as it is over, so that a crash loses none that has ended.

    A run that is resumed appends to what is there; `before` are the episodes that it had.
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
        self._remark, self._count = remark, 0
        with _writing_to(folder), ExitStack() as until:
            until.enter_context(locked(folder))
            self.before: Found = repair(folder / "trajectories.jsonl", retry_failed)
            _remove_leftovers(folder, {line["episode"] for line in self.before.lines})
            self._open = until.pop_all()

    def __enter__(self) -> "Trajectories":
        with ExitStack() as until:
            until.push(self._open)  # the lock: without it, what was made is taken back
            self._begin()
            until.pop_all()
        log.info(self._remark)
        if self.before.lines:
            log.info("resumed with %d episodes", len(self.before.lines))
        for fault in self.before.faults:
            log.warning("%s It is played again.", fault)
        return self

    def _begin(self) -> None:
        """Write the settings, and open what is written to meanwhile."""
        with _writing_to(self._folder), ExitStack() as opened:
            write_whole(self._folder / "config.yaml", self._config.encode())
            write_whole(self._folder / "rollout.yaml", self._play.encode())
            opened.enter_context(logged_to(self._folder / "log.txt"))
            # Lines are appended: a file that is replaced as a whole could only be written at the end. There is no buffer,
            # which would write the rest of a line that did not fit on the disk at some later time.
            self._file = opened.enter_context((self._folder / "trajectories.jsonl").open("ab", buffering=0))
            self._open.push(opened.pop_all())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        how = "finished" if error is None else f"stopped by {type(error).__name__}"
        before = len(self.before.lines)
        log.info("%s after %d episodes%s", how, self._count, f" more, {before + self._count} in all" if before else "")
        self._open.close()

    def add(self, played: Played) -> None:
        """Write an episode."""
        numbers = count()

        def save(image: Image) -> str:
            name = f"images/episode_{played.number:06d}_{next(numbers):02d}.png"
            png = io.BytesIO()
            image.save(png, "PNG")
            (self._folder / "images").mkdir(exist_ok=True)
            write_whole(self._folder / name, png.getvalue())
            return name

        with _writing_to(self._folder):
            self._append(encode(line_of(played, save)))
        self._count += 1

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
    for path in (*folder.glob(".*.part"), *pictures.glob(".*.part")):
        if _HALF_WRITTEN.fullmatch(path.name):
            path.unlink(missing_ok=True)
    for path in pictures.glob("episode_*.png"):
        named = _PICTURE.fullmatch(path.name)
        if named is not None and int(named[1]) not in episodes:
            path.unlink(missing_ok=True)
