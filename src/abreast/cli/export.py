"""`abreast export RUN --to NAME`: tell a logger of a run later, from its metrics. Whatever needs torch is imported by the
command."""

from pathlib import Path
from typing import Annotated

import typer

from abreast.cli.app import TRAINING, app, complain, counted, load_training, look_here, out
from abreast.errors import ConfigError, RunFolderError, words
from abreast.files import locked, open_run_folder

LOGGER_HELP = "tensorboard, wandb, trackio, csv, or a class of your own: MODULE:CLASS, FILE.py:CLASS."


@app.command(rich_help_panel=TRAINING)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of `abreast train`; the run is over.")],
    to: Annotated[str, typer.Option(metavar="LOGGER", help=LOGGER_HELP)],
) -> None:
    """Tell a logger of a run that is over, as --logger does while it trains."""
    open_run_folder(run)
    load_training()
    from abreast.training.run.loggers import close, find_loggers, make_logger, tell
    from abreast.training.run.metrics import read_epochs

    look_here()
    ((name, kind),) = find_loggers(to).items()
    epochs, faults = read_epochs(run / "metrics.jsonl")
    if not epochs:
        raise RunFolderError(f"{run} has no epoch in its metrics yet: there is nothing to export.")
    with locked(run):  # a run that goes on may write there by itself
        for fault in faults:
            complain(fault)
        logger = make_logger(name, kind, run)
        try:
            for record in epochs:
                tell(logger, record, run)
            close(logger)
        except Exception as error:
            raise ConfigError(f"the logger {name} raised {words(error, Path(__file__).parent)}.") from error
    out.print(f"{counted(len(epochs), 'epoch')} of {run} were written: {name}.")
