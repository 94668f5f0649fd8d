"""`abreast trajectories RUN`: look at the episodes of a rollout, filter them, export them."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from abreast.cli.app import ROLLOUTS, app, complain, counted, look_here, out
from abreast.cli.app import show as show_table
from abreast.errors import ConfigError, RolloutError
from abreast.plugins import import_target, is_target
from abreast.rollouts.drivers.browse import select_lines, sort_lines, table_of, text_of
from abreast.rollouts.drivers.export import export, of_run
from abreast.rollouts.drivers.lines import find_file, read_lines
from abreast.rollouts.drivers.results import Results, percent

MANY = 50
"""Episodes that are listed, unless more are asked for."""


@app.command(rich_help_panel=ROLLOUTS)
def trajectories(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder of `abreast rollout`, or its trajectories.jsonl.")
    ],
    show: Annotated[
        int | None, typer.Option(metavar="N", help="Show all of episode N: prompts, answers, rewards.")
    ] = None,
    success: Annotated[
        bool | None, typer.Option("--success/--failed", help="Only those that were, or were not, one.")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only those that could not go on.")] = False,
    tag: Annotated[str | None, typer.Option(help="Only those of a tag.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only those with a seed.")] = None,
    group: Annotated[int | None, typer.Option(help="Only those of a group.")] = None,
    min_reward: Annotated[float | None, typer.Option(help="Only those with at least this reward.")] = None,
    max_reward: Annotated[float | None, typer.Option(help="Only those with at most this reward.")] = None,
    contains: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those in which TEXT was said or shown.")
    ] = None,
    sort: Annotated[
        str, typer.Option(metavar="KEY", help="episode, reward, score, success, turns or seed; -KEY: descending.")
    ] = "episode",
    limit: Annotated[int, typer.Option(min=0, help="List so many; 0: all.")] = MANY,
    target: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write them, in the form that trainers read, to .jsonl or .parquet."
        ),
    ] = None,
    per_turn: Annotated[
        bool, typer.Option("--per-turn", help="With --export: a row for each turn, not each episode.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --export: add tokens and masks; a model's name or folder, or MODULE:NAME."
        ),
    ] = None,
) -> None:
    """List the episodes of a rollout, show one, or export them."""
    if target is None and (per_turn or tokenizer is not None):
        raise ConfigError("--per-turn and --tokenizer are for exports: give --export FILE too.")
    look_here()
    found, faults = read_lines(find_file(run))
    for fault in faults:
        complain(fault)
    if show is not None:
        line = next((line for line in found if line["episode"] == show), None)
        if line is None:
            raise RolloutError(f"there is no episode {show} in {run}, which holds {len(found)} episodes.")
        out.print(text_of(line))
        return
    equal = {"success": success, "tag": tag, "seed": seed, "group_id": group}
    lines = sort_lines(select_lines(found, equal, errors, min_reward, max_reward, contains), sort)
    if target is not None:
        source = of_run(run)._replace(lines=lines)
        replaced = " (it replaces the file of that name)" if target.exists() else ""
        skipped = dict[int, str]()
        rows = export(source, target, _load(tokenizer), per_turn, skipped)
        out.print(
            f"{counted(rows, 'row')} of {counted(len(lines) - len(skipped), 'episode')} were written to {target}{replaced}"
        )
        return
    if lines:
        # In a terminal, reasons that are too long are cut; elsewhere, say in a file, nothing is.
        show_table(table_of(lines[: limit or None], out.width if out.is_terminal else None))
    more = f" ({len(lines) - limit:,} more are not listed: --limit 0)" if 0 < limit < len(lines) else ""
    results = Results()
    for line in lines:
        results.add(line)
    figures = f", reward {results.mean('reward'):.3f}, score {results.mean('score'):.3f}"
    means = f", success {percent(results.mean('success'))}{figures}" if lines else ""
    out.print(f"{len(lines):,} of {counted(len(found), 'episode')}{means}{more}")


def _load(name: str | None) -> Any:
    if name is None:
        return None
    if is_target(name):
        return import_target(name, "tokenizer", RolloutError)
    try:
        transformers = import_module("transformers")
    except ImportError:
        raise RolloutError(
            f"the tokenizer {name!r} needs the package transformers: pip install transformers."
        ) from None
    try:
        return transformers.AutoTokenizer.from_pretrained(name)
    except Exception as error:
        raise RolloutError(f"the tokenizer {name!r} cannot be loaded: {' '.join(str(error).split())[:300]}") from error
