"""The rollouts half of the command line: `abreast rollout`, `abreast envs`. None of it needs torch."""

import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.table import Column, Table

from abreast.cli.app import ConfigFile, Output, app, held_back, look_here, out, settings_table
from abreast.errors import AbreastError, ConfigError, RolloutError, words
from abreast.files import make_run_folder
from abreast.rollouts import EnvStateManager, RolloutConfig, TagConfig, find_kind, find_tag, list_kinds
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.context.preview import first_prompt
from abreast.rollouts.drivers.display import RolloutDisplay
from abreast.rollouts.drivers.play import Played, make_policy, play_episodes
from abreast.rollouts.drivers.trajectories import Trajectories
from abreast.rollouts.episodes.summary import Ended, pass_at_k, summary_of_tag
from abreast.rollouts.files import read_config
from abreast.rollouts.registry import Tag, tag_settings
from abreast.settings import apply_overrides, explain

AT_ONCE = 256
"""Environments at the same time; more episodes than these are played in several resets."""

Name = Annotated[
    str,
    typer.Argument(
        metavar="TAG_OR_ENV",
        help="A tag (one that ships, or of custom_envs in FILE) or an environment type (`abreast envs` lists them, and"
        " MODULE:ENV is one).",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SECTION.KEY=VALUE]...",
        help="Settings, e.g. es_manager.max_workers=4. Those of the environment itself are in the section env,"
        " e.g. env.num_boxes=2; `abreast envs TAG_OR_ENV` lists them.",
    ),
]


@app.command()
def rollout(
    name: Name,
    overrides: Overrides = None,
    policy: Annotated[str, typer.Option(metavar="random|solver", help="Who plays.")] = "random",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes in all.")] = 64,
    group_size: Annotated[int, typer.Option(min=1, max=AT_ONCE, help="Episodes that share a seed.")] = 1,
    max_actions: Annotated[
        int | None, typer.Option(help="Actions an episode may take (max_actions_per_traj of the tag).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the first group (seed.train), and of the random policy.")
    ] = None,
    config: ConfigFile = None,
    output: Output = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Take every turn of a worker in the main process too, and compare.")
    ] = False,
) -> None:
    """Play episodes of an environment, with a live display, and write their trajectories to a run folder."""
    if episodes % group_size:
        raise ConfigError(f"--episodes {episodes} is not a multiple of --group-size {group_size}: make it one.")
    changes = [*(overrides or []), *([] if seed is None else [f"seed.train={seed}"])]
    look_here()
    chosen = _configure(name, config, changes, episodes // group_size, group_size, max_actions)
    tag = find_tag(name, chosen.custom_envs, preset=chosen.preset, context=chosen.context)
    player = make_policy(policy, tag, chosen.seed.train)
    _try_to_make(tag)
    manager, folder = EnvStateManager(chosen, verify=verify), make_run_folder(name, output).path
    again = ["abreast", "rollout", name, "--config", str(folder / "config.yaml"), "--policy", policy]
    again += ["--episodes", str(episodes), "--group-size", str(group_size)]
    display, ended, code = RolloutDisplay(episodes), list[Played](), 0
    try:
        with manager, Trajectories(folder, chosen, shlex.join(again)) as kept, display:

            def note(turns: int, over: list[Played]) -> None:
                for played in over:
                    with held_back(signal.SIGINT, signal.SIGTERM):
                        kept.add(played)
                        ended.append(played._replace(cache={}))  # it is written, and need not stay in memory
                display.show(turns, over)

            play_episodes(manager, player, note, episodes)
    except KeyboardInterrupt:
        out.print(f"Stopped after {len(ended)} episodes; these are kept.")
        code = 130
    if ended:
        out.print(_results(name, ended, group_size, display.turns_per_s))
    if verify:
        out.print(_verified(manager.verified_turns))
    out.print(f"The run folder is {folder}")
    if code:
        raise typer.Exit(code)
    failures = [played.error for played in ended if played.error is not None]
    if failures:
        raise RolloutError(
            f"{len(failures)} of {len(ended)} episodes could not go on, the first because of {failures[0]}"
            f" (see {folder}/log.txt)."
        )


@app.command()
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
        out.print(settings_table([budget, *explain(tag.config, "env.")]))
        out.print(f"\n{_first_prompt(name, chosen)}")
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
    out.print(table)


# ---- inside


def _first_prompt(name: str, config: RolloutConfig) -> str:
    try:
        return f"The first prompt (seed {config.seed.train}):\n\n{first_prompt(name, config)}"
    except AbreastError as error:  # its settings are of use all the same
        return f"The first prompt cannot be shown: {error}"


def _configure(
    name: str, file: Path | None, overrides: Sequence[str], groups: int, group_size: int, max_actions: int | None
) -> RolloutConfig:
    """The settings of a file, then each `section.key=value`; the environments are those of the one tag."""
    parsed = RolloutConfig.parse(read_config(file) if file else {})
    given = parsed.model_dump(exclude_unset=True)
    plain = tag_settings(name, parsed.custom_envs, parsed.preset).model_dump()
    own = [override for override in overrides if override.startswith("env.")]
    others = [override for override in overrides if not override.startswith("env.")]
    if any(override.startswith("es_manager.train") for override in others):
        raise ConfigError("es_manager.train follows from TAG_OR_ENV, --episodes and --group-size: leave it out.")
    tags = {**given.get("custom_envs", {}), name: plain}
    values = apply_overrides({**given, "custom_envs": tags}, others, lambda: RolloutConfig)
    tag = TagConfig.parse(values["custom_envs"][name]).model_dump()
    tag["env_config"] = apply_overrides({"env": tag["env_config"]}, own)["env"]
    if max_actions is not None:
        tag["max_actions_per_traj"] = max_actions
    tag["env_instruction"] = tag["env_instruction"] or find_kind(tag["env_type"]).instruction or None  # for config.yaml
    values["custom_envs"][name] = tag
    resets = -(-groups // max(1, AT_ONCE // group_size))
    at_once = -(-groups // resets)
    train = {"env_groups": at_once, "group_size": group_size, "env_configs": {"tags": [name], "n_groups": [at_once]}}
    values["es_manager"] = {**values.get("es_manager", {}), "train": train}
    return RolloutConfig.parse(values, foreign=False)


def _try_to_make(tag: Tag) -> None:
    """Make one environment before the run folder is made: if that fails, there is nothing to keep."""
    try:
        env = tag.kind.env(tag.config)
    except AbreastError:
        raise
    except Exception as error:
        raise RolloutError(f"{tag.name} cannot be made: it raised {words(error, Path(__file__).parent)}.") from error
    if hasattr(env, "close"):
        env.close()


def _results(name: str, ended: Sequence[Played], group_size: int, turns_per_s: float) -> Table:
    """The results, one line per figure."""
    figures = summary_of_tag([Ended(played.num_actions, played.tally, ()) for played in ended])
    rows = {
        "episodes": f"{len(ended):,}",
        "success": f"{figures['success']:.1%}",
        **_pass_at(group_size, ended),
        "reward": f"{figures['reward']:.3f}",
        "invalid actions": f"{figures['invalid_rate']:.1%}",
        "actions per episode": f"{figures['num_actions']:.1f}",
        "latency p50": f"{figures['latency_p50_ms']:.3f} ms",
        "latency p95": f"{figures['latency_p95_ms']:.3f} ms",
        "turns per second": f"{turns_per_s:,.0f}",
        "timeouts": f"{figures['timeouts']:.0f}",
    }
    table = Table("", Column(name, justify="right"), box=None)
    for row in rows.items():
        table.add_row(*row)
    return table


def _pass_at(group_size: int, ended: Sequence[Played]) -> dict[str, str]:
    """The chance that at least one episode of a group succeeds, in the mean of the groups that are complete."""
    groups: dict[int, list[bool]] = {}
    for played in ended:
        groups.setdefault(played.group_id, []).append(played.tally.success)
    key = f"pass@{group_size}"
    chances = [pass_at_k(each)[key] for each in groups.values() if len(each) == group_size]
    return {key: f"{fmean(chances):.1%}"} if group_size > 1 and chances else {}


def _verified(turns: int) -> str:
    if turns:
        return f"{turns:,} turns of workers, starts included, were taken in the main process too, with equal results."
    return "No environment ran in a worker, so no turn was verified: use es_manager.use_multiprocessing=true."
