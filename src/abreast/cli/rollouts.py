"""The rollouts half of the command line: `abreast rollout`, `abreast envs`. None of it needs torch."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from abreast.cli.app import (
    ROLLOUTS,
    SHOWS,
    WHERE,
    ConfigFile,
    Output,
    Quiet,
    Verbose,
    app,
    choose_volume,
    look_here,
    out,
    show,
    show_settings,
)
from abreast.cli.rollout import Asked, prepare, prepare_again, run_rollout
from abreast.errors import AbreastError, ConfigError, RolloutError
from abreast.rollouts import RolloutConfig, find_kind, find_tag, list_kinds
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.context.preview import first_prompt
from abreast.rollouts.drivers.config import PlayConfig, ServerConfig
from abreast.rollouts.files import read_config
from abreast.rollouts.registry import constructor_settings
from abreast.settings import Section, explain


def _meaning(section: type[Section], key: str) -> str:
    field = section.model_fields[key]
    told = "" if field.default in (None, False) else f" Default: {field.default:g}."
    return f"{field.description}{told}"


def _server_option(key: str, *names: str) -> Any:
    return typer.Option(*names, help=_meaning(ServerConfig, key), rich_help_panel="With --policy openai")


@app.command(rich_help_panel=ROLLOUTS)
def rollout(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="TAG_OR_ENV",
            help="A tag (one that ships, or of custom_envs in FILE) or an environment type (`abreast envs` lists them, and"
            " MODULE:ENV and FILE.py:ENV are types), or an id of Gymnasium, say CartPole-v1.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG_OR_ENV | SECTION.KEY=VALUE]...",
            help="Further tags, and settings, e.g. es_manager.max_workers=4. Those of the environment are in the section"
            " env, e.g. env.num_boxes=2; `abreast envs TAG_OR_ENV` lists them. What else a server is sent is in the section"
            " sampling, e.g. sampling.temperature=0.7.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="Who plays: random (the default), solver, openai (a language model behind --base-url), human, replay RUN"
            " (the answers of an earlier run), or MODULE:FUNCTION or FILE.py:FUNCTION, a function of your own.",
        ),
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes in all; default 64.")] = None,
    group_size: Annotated[int | None, typer.Option(min=1, help="Episodes that share a seed; default 1.")] = None,
    max_actions: Annotated[
        int | None, typer.Option(help="Actions an episode may take (max_actions_per_traj of the tag).")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns an episode may take (max_turns of the tag).")] = None,
    instruction: Annotated[
        str | None, typer.Option(help="What a language model is told to do (env_instruction of the tag).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the first group (seed.train), and of the random policy.")
    ] = None,
    slots: Annotated[int | None, typer.Option(help=_meaning(PlayConfig, "slots"))] = None,
    time_limit: Annotated[float | None, typer.Option(help=_meaning(PlayConfig, "time_limit"))] = None,
    base_url: Annotated[str | None, _server_option("base_url")] = None,
    model: Annotated[str | None, _server_option("model")] = None,
    api_key_env: Annotated[str | None, _server_option("api_key_env")] = None,
    in_flight: Annotated[int | None, _server_option("in_flight")] = None,
    stream: Annotated[bool | None, _server_option("stream", "--stream")] = None,
    keep_tokens: Annotated[bool | None, _server_option("keep_tokens", "--keep-tokens")] = None,
    retries: Annotated[int | None, _server_option("retries")] = None,
    request_timeout: Annotated[float | None, _server_option("request_timeout")] = None,
    price_in: Annotated[float | None, _server_option("price_in")] = None,
    price_out: Annotated[float | None, _server_option("price_out")] = None,
    config: ConfigFile = None,
    output: Output = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Go on with a run: episodes that it has are not played again.", rich_help_panel=WHERE
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="With --resume: play episodes that got no answer once more.", rich_help_panel=WHERE
        ),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Take every turn of a worker in the main process too, and compare.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Everything in one thread, with the same results; every turn twice, and compared.",
            rich_help_panel=SHOWS,
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Play episodes of an environment, with a live display, and write their trajectories to a run folder."""
    choose_volume(quiet, verbose)
    look_here()
    server = {
        "base_url": base_url, "model": model, "api_key_env": api_key_env, "in_flight": in_flight, "stream": stream,
        "keep_tokens": keep_tokens,
        "retries": retries, "request_timeout": request_timeout, "price_in": price_in, "price_out": price_out,
    }  # fmt: skip
    play = {
        "policy": policy, "episodes": episodes, "group_size": group_size, "slots": slots, "time_limit": time_limit,
        "server": _given(server),
    }  # fmt: skip
    asked = Asked(
        name=name,
        overrides=list(overrides or []),
        config=config,
        tag=_given({"max_actions_per_traj": max_actions, "max_turns": max_turns, "env_instruction": instruction}),
        seed=seed,
        output=output,
        play=_given(play),
    )
    if retry_failed and resume is None:
        raise ConfigError("--retry-failed is for runs that are resumed: give --resume RUN too.")
    prepared = prepare(asked) if resume is None else prepare_again(asked, resume)
    run_rollout(prepared, output, resume, verify=verify, retry_failed=retry_failed, debug=debug)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


@app.command(rich_help_panel=ROLLOUTS)
def envs(
    name: Annotated[
        str | None, typer.Argument(metavar="[TAG_OR_ENV]", help="List its settings, and show its first prompt.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """List the environment types, or the settings of one and what a language model is told first."""
    look_here()
    if name is not None:
        chosen = RolloutConfig.parse(read_config(config) if config else {})
        tag = find_tag(name, chosen.custom_envs, preset=chosen.preset, context=chosen.context)
        budget = ("max_actions_per_traj", tag.budget, "Actions an episode may take (--max-actions).")
        given = {key for key, _, _ in explain(tag.config, "env.")}
        keywords = [
            (f"env.{each.name}", each.default, "An argument of its constructor.")
            for each in constructor_settings(tag.kind)
            if f"env.{each.name}" not in given
        ]
        show_settings([budget, *explain(tag.config, "env."), *keywords])
        out.print(f"\n{_first_prompt(name, chosen)}")
        if not tag.instruction.strip():
            out.print(f"\n{NO_TASK}")
        return
    tags = shipped_tags()
    table = Table("type", "tags", "solver", "what it is", box=None)
    for kind_name in list_kinds():
        names = "\n".join(tag for tag, settings in tags.items() if settings.env_type == kind_name)
        try:
            kind = find_kind(kind_name)
        except RolloutError as error:
            table.add_row(kind_name, names, "", str(error), style="red")
        else:
            table.add_row(kind_name, names, "yes" if kind.solver else "no", kind.summary)
    show(table)


# ---- inside

NO_TASK = (
    "The prompt says no task: give one by --instruction, as env_instruction of a tag under custom_envs, or register the type"
    " with register(..., instruction=...)."
)


def _first_prompt(name: str, config: RolloutConfig) -> str:
    try:
        return f"The first prompt (seed {config.seed.train}):\n\n{first_prompt(name, config)}"
    except AbreastError as error:  # its settings are of use all the same
        return f"The first prompt cannot be shown: {error}"
