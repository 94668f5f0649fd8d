"""The run folder of a rollout.

<run folder>/  config.yaml   trajectories.jsonl   images/episode_000003_02.png   log.txt
"""

import io
import json
import logging
import math
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import yaml

from abreast.files import logged_to, write_whole
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.drivers.play import Played

log = logging.getLogger("abreast")


class Trajectories:
    """Writes each episode as soon as it is over, so that a crash loses none that has ended."""

    def __init__(self, folder: Path, config: RolloutConfig, remark: str) -> None:
        self._folder = folder
        self._config = f"# {remark}\n{yaml.safe_dump(config.model_dump(), sort_keys=False)}"
        self._remark, self._count = remark, 0
        self._open = ExitStack()

    def __enter__(self) -> "Trajectories":
        write_whole(self._folder / "config.yaml", self._config.encode())
        self._open.enter_context(logged_to(self._folder / "log.txt"))
        # Lines are appended: a file that is replaced as a whole could only be written at the end.
        self._file = self._open.enter_context((self._folder / "trajectories.jsonl").open("a", encoding="utf-8"))
        log.info(self._remark)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        how = "finished" if error is None else f"stopped by {type(error).__name__}"
        log.info("%s after %d episodes", how, self._count)
        self._open.close()

    def add(self, played: Played) -> None:
        """Write an episode."""
        cache = played.cache
        line = {
            "env_id": played.env_id,
            "group_id": played.group_id,
            "tag": cache["tag"],
            "seed": played.seed,
            "penalty": cache["penalty"],
            "reward": played.tally.reward,
            "success": played.tally.success,
            "terminated": True,
            "truncated": played.truncated,
            "history": self._without_images(cache["history"], played.env_id),
        }
        self._file.write(json.dumps(_plain(line), allow_nan=False) + "\n")
        self._file.flush()
        self._count += 1

    def _without_images(self, history: list[dict[str, Any]], env_id: int) -> list[dict[str, Any]]:
        """The history with file names in place of images."""
        entries, number = [], 0
        for entry in history:
            names = []
            for image in entry.get("images", ()):
                names.append(f"images/episode_{env_id:06d}_{number:02d}.png")
                number += 1
                png = io.BytesIO()
                image.save(png, "PNG")
                (self._folder / "images").mkdir(exist_ok=True)
                write_whole(self._folder / names[-1], png.getvalue())
            entries.append({**entry, "images": names} if names else entry)
        return entries


def _plain(value: Any) -> Any:
    """A value that JSON can represent; others become null or text, since an info may hold anything."""
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return str(value)
