"""Loggers: whatever is told of every epoch, beside the display. What they do changes no result, and ends no run.

`--logger tensorboard`, `run_experiment(logger=["csv", Mine()])`: one of ours by its name, a class by where it is found, or
an object. metrics.jsonl stays the truth; `abreast export` tells a logger of the epochs in it, later.
"""

import copy
import inspect
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from abreast.errors import ConfigError, log, nearest, words
from abreast.plugins import import_target, is_target
from abreast.training.run.metrics import EpochRecord

LOGGERS = {
    "csv": "CsvLogger",
    "tensorboard": "TensorBoardLogger",
    "trackio": "TrackioLogger",
    "wandb": "WandbLogger",
}
"""Classes of ours, each in the module of its name in `PACKAGE`."""
PACKAGE = "abreast.integrations.loggers"
"""A layer above this one: imported when a run asks for it."""
HERE = Path(__file__).parent


class Logger(Protocol):
    """Anything that is to be told of every epoch. It may also have a method `close()`, called at the end."""

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None:
        """Called when an epoch is recorded; `more` is what else metrics.jsonl says of it, and `film`, the path of its film,
        if it has one."""


OneLogger = Logger | type[Logger] | str
AnyLoggers = OneLogger | Sequence[OneLogger] | None
"""What `run_experiment` takes."""


def find_loggers(given: AnyLoggers) -> dict[str, Any]:
    """Loggers, or their classes, by the name that messages give them. What there is not is refused; a name counts once."""
    several = isinstance(given, Sequence) and not isinstance(given, str)
    found: dict[str, Any] = {}
    for each in given if several else () if given is None else (given,):  # type: ignore[union-attr]
        kind = each if isinstance(each, str | type) else type(each)
        name = kind if isinstance(kind, str) else kind.__name__
        logger = _find(each) if isinstance(each, str) else each
        if not callable(getattr(logger, "record_epoch", None)):
            raise ConfigError(f"the logger {name} has no method record_epoch(epoch, loss, reward, epsilon, **more).")
        found[name if isinstance(each, str) or name not in found else f"{name} {len(found)}"] = logger
    return found


def _find(name: str) -> Any:
    if is_target(name):
        return import_target(name, "logger", ConfigError)
    if name not in LOGGERS:
        raise ConfigError(f"there is no logger {name!r}: {nearest(name, LOGGERS)}")
    try:
        return getattr(import_module(f"{PACKAGE}.{name}"), LOGGERS[name])
    except ImportError as error:
        raise ConfigError(
            f'the logger {name!r} needs the package {name}: pip install "abreast[{name}]" ({error}).'
        ) from None


def make_logger(name: str, logger: Any, run: Path | None) -> Logger:
    """An object is taken as it is. A class is constructed: with the run folder, which has the settings in config.yaml, if
    its constructor has a parameter that needs a value; else with nothing."""
    if not isinstance(logger, type):
        return logger  # type: ignore[no-any-return]
    needed = [each for each in inspect.signature(logger).parameters.values() if each.default is each.empty]
    takes_run = any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed)
    if takes_run and run is None:
        raise ConfigError(
            f"the logger {name} needs a run folder, but with logging=False there is none: leave that out."
        )
    try:
        return logger(*([run] if takes_run else ()))  # type: ignore[no-any-return]
    except Exception as error:
        raise ConfigError(f"the logger {name} cannot begin: it raised {words(error, HERE)}.") from error


def tell(logger: Logger, record: EpochRecord, run: Path | None) -> None:
    """Tell a logger of an epoch, with its film, if it has one in the run folder."""
    more: dict[str, Any] = {
        key: copy.deepcopy(value)  # it may change what it is given
        for key, value in record.items()
        if key not in ("epoch", "reward", "loss", "epsilon")
    }
    if run is not None and (film := run / "replays" / f"epoch_{record['epoch']:06d}.gif").exists():
        more["film"] = film
    logger.record_epoch(record["epoch"], record["loss"] or 0.0, record["reward"], record["epsilon"], **more)


class Loggers:
    """The loggers of a run. One that raises is named, closed and left out."""

    def __init__(self, given: AnyLoggers) -> None:
        self._found = find_loggers(given)
        self._loggers: dict[str, Logger] = {}
        self._run: Path | None = None

    def begin(self, run: Path | None) -> None:
        """Construct those that are classes. `run`: the run folder, if metrics are kept in one."""
        self._run = run
        for name, logger in self._found.items():
            self._loggers[name] = make_logger(name, logger, run)

    def record(self, record: EpochRecord) -> None:
        """Tell all of them of an epoch."""
        for name, logger in list(self._loggers.items()):
            try:
                tell(logger, record, self._run)
            except (Exception, SystemExit) as error:
                log.warning(
                    "the logger %s is left out from epoch %d on, the run goes on: it raised %s",
                    name,
                    record["epoch"],
                    words(error, HERE),
                )
                log.info("its stack:", exc_info=error)
                with suppress(Exception, SystemExit):
                    close(self._loggers.pop(name))

    def close(self) -> None:
        """Close those that can be closed; each is, whatever the others do."""
        for name, logger in self._loggers.items():
            try:
                close(logger)
            except (Exception, SystemExit) as error:
                log.warning("the logger %s could not be closed: it raised %s", name, words(error, HERE))


def close(logger: Logger) -> None:
    """Close a logger that has a method for it."""
    if callable(method := getattr(logger, "close", None)):
        method()
