"""metrics.csv: a line for each epoch and a column for each figure, for spreadsheets and data frames."""

import csv
from pathlib import Path
from typing import Any

from abreast.integrations.loggers.scalars import scalars
from abreast.training.run.metrics import read_epochs


class CsvLogger:
    """Adds a line for each epoch. The whole file is written anew, from metrics.jsonl, when it begins and when a figure is
    there for the first time: so a run that goes on has no line twice, and none is missing."""

    def __init__(self, run: Path) -> None:
        self._metrics, self._path = run / "metrics.jsonl", run / "metrics.csv"
        self._columns: dict[str, None] = {}

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None:
        rows = [{"epoch": epoch, **scalars(reward, epsilon, more)}]
        is_anew = not rows[0].keys() <= self._columns.keys()
        if is_anew:
            before = (each for each in read_epochs(self._metrics)[0] if each["epoch"] < epoch)
            rows[:0] = [{"epoch": each["epoch"], **scalars(each["reward"], each["epsilon"], each)} for each in before]
            self._columns = dict.fromkeys(name for row in rows for name in row)
        with self._path.open("w" if is_anew else "a", newline="") as file:
            writer = csv.DictWriter(file, list(self._columns))
            if is_anew:
                writer.writeheader()
            writer.writerows(rows)
