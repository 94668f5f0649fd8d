"""Files of events for TensorBoard: `tensorboard --logdir RUN`."""

import time
from pathlib import Path
from typing import Any

from PIL import Image
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from abreast.integrations.loggers.scalars import scalars, settings_of

RGB = 3
"""How TensorBoard calls pictures of three colours."""


class TensorBoardLogger:
    """Writes one event for each epoch, whole and at once: what there is after a crash is what metrics.jsonl has."""

    def __init__(self, run: Path) -> None:
        self._folder, self._settings = run / "tensorboard", settings_of(run)
        self._writer: EventFileWriter | None = None
        self._began = 0.0

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None:
        elapsed = more["time"]["elapsed_s"]
        if self._writer is None:
            self._writer, self._began = EventFileWriter(str(self._folder)), time.time() - elapsed
            # What is there from this epoch on, after a checkpoint or from before another export, is not shown any more.
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=self._began, step=epoch, session_log=start))
            hyperparameters = hparams_pb(self._settings, trial_id=str(self._folder))
            self._writer.add_event(Event(wall_time=self._began, step=epoch, summary=hyperparameters))
        values = [Summary.Value(tag=tag, simple_value=x) for tag, x in scalars(reward, epsilon, more).items()]
        if "film" in more:
            with Image.open(more["film"]) as film:
                size = {"width": film.width, "height": film.height, "colorspace": RGB}
            values.append(
                Summary.Value(tag="film", image=Summary.Image(encoded_image_string=more["film"].read_bytes(), **size))
            )
        self._writer.add_event(Event(wall_time=self._began + elapsed, step=epoch, summary=Summary(value=values)))
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
