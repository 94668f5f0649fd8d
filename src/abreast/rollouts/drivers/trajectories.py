"""The run folder of a rollout.

<run folder>/  config.yaml   rollout.yaml   trajectories.jsonl   images/episode_000003_02.png   log.txt
"""

import io
import logging
from contextlib import ExitStack
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


class Begun(NamedTuple):
    """A run that was begun before."""

    config: RolloutConfig
    play: PlayConfig


def read_run(folder: Path) -> Begun:
    """What a run was begun with."""
    if not (folder / "rollout.yaml").is_file() or not (folder / "config.yaml").is_file():
        raise RunFolderError(f"{folder} is no run of `abreast rollout` that could be resumed: it has no rollout.yaml.")
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
        with ExitStack() as until:
            until.enter_context(locked(folder))
            self.before: Found = repair(folder / "trajectories.jsonl", retry_failed)
            self._open = until.pop_all()

    def __enter__(self) -> "Trajectories":
        write_whole(self._folder / "config.yaml", self._config.encode())
        write_whole(self._folder / "rollout.yaml", self._play.encode())
        self._open.enter_context(logged_to(self._folder / "log.txt"))
        # Lines are appended: a file that is replaced as a whole could only be written at the end.
        self._file = self._open.enter_context((self._folder / "trajectories.jsonl").open("ab"))
        log.info(self._remark)
        if self.before.lines:
            log.info("resumed with %d episodes", len(self.before.lines))
        for fault in self.before.faults:
            log.warning("%s It is played again.", fault)
        return self

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

        self._file.write(encode(line_of(played, save)))
        self._file.flush()
        self._count += 1
