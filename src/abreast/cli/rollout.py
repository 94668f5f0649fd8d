"""What `abreast rollout` does: from what was typed to a run folder."""

import asyncio
import json
import shlex
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.table import Column, Table

from abreast import __version__
from abreast.cli.app import as_typed, complain, counted, held_back, out, show, waiting
from abreast.control import Requests
from abreast.errors import AbreastError, ConfigError, FailedEpisodesError, RolloutError, words
from abreast.files import make_run_folder
from abreast.processes.timeline import Timeline
from abreast.rollouts import EnvStateManager, RolloutConfig, TagConfig, find_kind, find_tag
from abreast.rollouts.config import ManagerConfig, shipped_tags
from abreast.rollouts.drivers.client import OpenAIPolicy
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.descriptors import check_descriptors
from abreast.rollouts.drivers.display import RolloutDisplay
from abreast.rollouts.drivers.lines import find_file
from abreast.rollouts.drivers.play import Order, Wait, play_episodes
from abreast.rollouts.drivers.policies.base import Played, Policy
from abreast.rollouts.drivers.policies.make import make_policy
from abreast.rollouts.drivers.policies.replay import ReplayPolicy
from abreast.rollouts.drivers.results import Results, usage
from abreast.rollouts.drivers.trajectories import Trajectories, read_run
from abreast.rollouts.episodes.episode import ENDS, Episode, is_of_signal
from abreast.rollouts.episodes.summary import SILENT
from abreast.rollouts.files import read_config
from abreast.rollouts.loading import load_config
from abreast.rollouts.registry import Tag, tag_settings, text_settings
from abreast.settings import apply_overrides, merge

DEBUG = (
    "debug is on: everything runs in one thread, slower and with the same results; every turn is taken twice, and states,"
    " rewards, infos and random streams are compared."
)
TAG_OPTIONS = {"max_actions_per_traj": "--max-actions", "max_turns": "--max-turns", "env_instruction": "--instruction"}
"""Settings of a tag that have an option of the command line."""
TAG_KEYS = TagConfig.model_fields.keys() - ManagerConfig.model_fields.keys()
"""Settings of tags alone: without a section, no other can be meant."""
UNUSED = ("es_manager.train", "es_manager.val", "es_manager.episodes.max", "seed.val")
"""Settings that a rollout does not use: its options decide what is played."""
AT_ONCE = 256
"""Episodes that are played at the same time, unless something else is asked for."""
PAUSE_S = 1.0
"""Seconds after which each of their places looks again whether the run is still paused."""


class Asked(NamedTuple):
    """What was typed."""

    name: str | None
    overrides: list[str]
    config: Path | None
    tag: dict[str, Any]
    """Settings of every tag that is played, by their keys in TagConfig."""
    seed: int | None
    output: Path | None
    play: dict[str, Any]
    """Keys of PlayConfig."""


class Prepared(NamedTuple):
    """A rollout that can begin."""

    config: RolloutConfig
    play: PlayConfig
    tags: list[Tag]
    policy: Policy
    begun: int = 0
    """Episodes that the run was to have, if it is resumed."""


def prepare(asked: Asked) -> Prepared:
    """A new rollout."""
    asked = _with_replay(asked)
    if asked.name is None:
        raise ConfigError("Missing argument 'TAG_OR_ENV': name what is played, or give --resume RUN.")
    changes = [
        *(text for text in asked.overrides if "=" in text),
        *([] if asked.seed is None else [f"seed.train={asked.seed}"]),
    ]
    sampling = [override for override in changes if override.startswith("sampling.")]
    others = [override for override in changes if not override.startswith("sampling.")]
    given = {"server": apply_overrides({"sampling": {}}, sampling)}
    names = {"tag": asked.name, "more_tags": [text for text in asked.overrides if "=" not in text]}
    play = PlayConfig.parse({**merge(asked.play, given), **names})
    if play.policy != "openai" and (
        sent := [*(f"--{key.replace('_', '-')}" for key in asked.play["server"]), *sampling]
    ):
        raise ConfigError(f"{sent[0]} has no effect with the policy {play.policy}: use --policy openai, or remove it.")
    if len(set(play.tags)) < len(play.tags):
        raise ConfigError(f"the tags are {', '.join(play.tags)}: give each once.")
    return _ready(configure(play.tags, asked.config, others, asked.tag), play)


def prepare_again(asked: Asked, run: Path) -> Prepared:
    """A rollout that was begun before."""
    fixed = {"TAG_OR_ENV": asked.name, "--config": asked.config,
             **{TAG_OPTIONS[key]: value for key, value in asked.tag.items()}, "--seed": asked.seed, "--output": asked.output,
             "--policy": asked.play.get("policy"), "--group-size": asked.play.get("group_size")}  # fmt: skip
    refused = [*(key for key, value in fixed.items() if value is not None), *asked.overrides]
    if refused:
        raise ConfigError(f"--resume goes on with what the run was begun with: leave out {', '.join(refused)}.")
    config, begun, _ = read_run(run)
    return _ready(config, PlayConfig.parse(merge(begun.model_dump(), asked.play)))._replace(begun=begun.episodes)


def run_rollout(
    prepared: Prepared, output: Path | None, resumed: Path | None, verify: bool, retry_failed: bool, debug: bool = False
) -> None:
    """Play, show and keep the episodes."""
    chosen, play, tags, policy, begun = prepared
    check_descriptors(chosen.es_manager, _slots(play), connections=_slots(play) if play.policy == "openai" else 0)
    with waiting(f"Trying {', '.join(play.tags)}"):
        for tag in tags:
            _try_to_make(tag)
        asyncio.run(_try_to_start(policy))
    play = _with_model(play, policy)
    manager = EnvStateManager(_with_room(chosen, play), verify=verify, tags=play.tags, debug=debug)
    made = make_run_folder("-".join(play.tags), output) if resumed is None else None
    folder = made.path if made is not None else Path(resumed or "")
    stopped, code = None, 0
    kept = Trajectories(folder, chosen, play, shlex.join(_command(folder, play)), __version__, retry_failed)
    results = kept.results
    for fault in kept.faults:
        complain(f"{fault} It is played again.")
    display = RolloutDisplay(play.episodes, results, policy.counts, manager, is_silent=play.policy == "human")
    timeline = Timeline(folder / "timeline.json", "main process") if chosen.es_manager.timeline else nullcontext()
    try:
        with manager, kept, timeline, display, Requests(folder) as requests:
            if debug:
                display.tell(DEBUG)

            def note(played: Played) -> None:
                with held_back(signal.SIGINT, signal.SIGTERM):
                    kept.add(played)
                display.ended(results.episodes, play.episodes)

            orders = _as_asked(_orders(prepared, kept.numbers), requests, display, folder)
            stopped = play_episodes(
                manager, policy, note, orders, slots=_slots(play), time_limit=play.time_limit, on_turn=display.turn
            )
            stopped = "by request" if requests.is_stopped else stopped
    except KeyboardInterrupt:
        stopped, code = "interrupted", 130
    except SystemExit as end:  # SIGTERM: see `main`
        stopped, code = "terminated", int(end.code or 0)
    except (AbreastError, OSError, MemoryError):
        if made is not None and not results.tallies:
            made.take_back()
        else:
            _say_stopped(results, "an error", folder)
        raise
    if stopped is not None:
        _say_stopped(results, stopped, folder)
    elif results.before and not results.tallies:
        out.print(f"nothing is missing: all {counted(results.before, 'episode')} are there")
    rows = results.rows(play.group_size, display.turns_per_s) if results.episodes else {}
    if policy.counts is not None:
        rows |= usage(policy.counts, results, play, is_resumed=resumed is not None, was_whole=results.before >= begun)
    table = Table("", Column(", ".join(play.tags), justify="right"), box=None)
    for row in rows.items():
        table.add_row(*row)
    if rows:
        show(table)
    for name in results.silent:
        complain(SILENT.format(tag=name))
    if verify or debug:
        told = "No environment ran in a worker, so no turn was verified: use es_manager.use_multiprocessing=true."
        if turns := manager.verified_turns:
            whose = "turns" if debug else "turns of workers"
            told = f"{turns:,} {whose}, starts included, were taken in the main process too, with equal results."
        out.print(told)
    out.print(f"The run folder is {folder}")
    if code:
        raise typer.Exit(code)
    _check(policy, results, folder)


# ---- before


def _with_replay(asked: Asked) -> Asked:
    """`--policy replay RUN`: the trajectories are named after the tag, or alone, with the tag that the run has."""
    if asked.play.get("policy") != "replay":
        return asked
    named = [text for text in (asked.name, *asked.overrides) if text is not None and "=" not in text]
    if not named or len(named) > 2:
        raise ConfigError("the policy replay needs trajectories: give `--policy replay RUN`, a run folder or its file.")
    run = Path(named[-1])
    folder = find_file(run).parent
    overrides = [override for override in asked.overrides if "=" in override]
    config = folder / "config.yaml" if asked.config is None and (folder / "config.yaml").is_file() else asked.config
    name = named[0] if len(named) == 2 else read_run(folder)[1].tag
    return asked._replace(name=name, overrides=overrides, config=config, play={**asked.play, "replay": str(run)})


def _ready(chosen: RolloutConfig, play: PlayConfig) -> Prepared:
    tags = [find_tag(name, chosen.custom_envs, preset=chosen.preset, context=chosen.context) for name in play.tags]
    settings, sampling = tag_settings(play.tag, chosen.custom_envs, chosen.preset), play.server.sampling
    is_limit = settings.max_tokens is not None and settings.preset_under(chosen.preset) != "ragen"
    if is_limit and not {"max_tokens", "max_completion_tokens"} & sampling.keys():
        sampling = {**sampling, "max_tokens": settings.max_tokens}
        play = play.model_copy(update={"server": play.server.model_copy(update={"sampling": sampling})})
    if "seed" in sampling and play.group_size > 1:
        complain(
            f"sampling.seed is {sampling['seed']} in all requests, so the {play.group_size} episodes of a group may get the"
            " same answers: leave it out."
        )
    policy, *_ = [make_policy(play, tag, chosen.seed.train) for tag in tags]  # a solver is needed for each
    if isinstance(policy, ReplayPolicy):  # what is played is what was recorded
        wanted = play.episodes if "episodes" in play.model_fields_set else len(policy.lines)
        play = play.model_copy(update={"episodes": min(wanted, len(policy.lines))})
        for fault in policy.faults:
            complain(fault)
    return Prepared(chosen, play, tags, policy)


def configure(
    names: Sequence[str], file: Path | None, overrides: Sequence[str], options: Mapping[str, Any] | None = None
) -> RolloutConfig:
    """Return the settings of a file for the tags of these names, with each `section.key=value` and the options over them.

    Overrides of the section env are settings of the environment of the only tag. A tag that no file has is defined by its
    override of env_type. `options` are settings of each of the tags.
    """
    loaded = read_config(file) if file else {}
    try:
        parsed = RolloutConfig.parse(loaded)
    except ConfigError:
        load_config(loaded, "train", names)  # its error names the faults of the tag's env_config, too
        raise
    given = parsed.model_dump(exclude_unset=True)
    own = [override for override in overrides if override.startswith("env.")]
    others = [override for override in overrides if not override.startswith("env.")]
    if unused := next((override for override in others if override.startswith(UNUSED)), None):
        raise ConfigError(f"{unused} has no effect: the tags and the options of this command decide it. Remove it.")
    if bare := next((override for override in others if override.partition("=")[0] in TAG_KEYS), None):
        raise ConfigError(
            f"the override {bare!r} is not of the form section.key=value: use {', '.join(TAG_OPTIONS.values())} or"
            f" 'custom_envs.{names[0]}.{bare}'."
        )
    if own and len(names) > 1:
        raise ConfigError(
            f"{own[0]} is for one tag, but {len(names)} are played: give it as custom_envs.TAG.env_config.KEY=VALUE."
        )
    of_tags = [override for override in others if override.startswith("custom_envs.")]
    typed = apply_overrides({"custom_envs": {}}, of_tags)["custom_envs"]
    if unplayed := next((name for name in typed if name not in names), None):
        raise ConfigError(
            f"custom_envs.{unplayed} is set, but the tag {unplayed} is not played, only {', '.join(names)}: add {unplayed}"
            " to the tags, or remove its settings."
        )
    unknown = typed.keys() - {*shipped_tags(parsed.preset), *parsed.custom_envs}
    new = {name for name in unknown if isinstance(typed[name], dict) and "env_type" in typed[name]}
    tags = given.setdefault("custom_envs", {})
    for name in names:
        tags[name] = {} if name in new else tag_settings(name, parsed.custom_envs, parsed.preset).model_dump()
    values = apply_overrides(given, others, lambda: RolloutConfig)
    for name in names:
        tag = {**TagConfig.parse(values["custom_envs"][name], f"custom_envs.{name}").model_dump(), **(options or {})}
        kind, place = find_kind(tag["env_type"]), f"custom_envs.{name}.env_config."
        mine = [*(f"env.{each.removeprefix(place)}" for each in of_tags if each.startswith(place)), *own]
        tag["env_config"] = apply_overrides({"env": tag["env_config"]}, mine, texts=text_settings(kind))["env"]
        values["custom_envs"][name] = {**tag, "env_instruction": tag["env_instruction"] or kind.instruction or None}
        whole = RolloutConfig.parse(values, foreign=False)
        # config.yaml keeps every default of the prompts as it is now, those of a preset among them
        context = find_tag(name, whole.custom_envs, preset=whole.preset, context=whole.context).context
        values["custom_envs"][name]["context"] = context.model_dump()
    return RolloutConfig.parse(values, foreign=False)


def _with_room(config: RolloutConfig, play: PlayConfig) -> RolloutConfig:
    """With an environment for each episode that is played at the same time."""
    episodes = config.es_manager.episodes.model_copy(update={"max": _slots(play)})
    return config.model_copy(update={"es_manager": config.es_manager.model_copy(update={"episodes": episodes})})


def _slots(play: PlayConfig) -> int:
    """Episodes that are played at the same time."""
    usual = {"openai": play.server.in_flight, "human": 1}.get(play.policy, AT_ONCE)
    return min(play.episodes, play.slots or usual)


def _orders(prepared: Prepared, done: Collection[int]) -> Iterator[Order]:
    """The episodes that are still to be played; of several tags, groups take turns."""
    play, first = prepared.play, prepared.config.seed.train
    if isinstance(prepared.policy, ReplayPolicy):
        lines = sorted(prepared.policy.lines.values(), key=lambda line: int(line["episode"]))[: play.episodes]
        planned = (  # each with its own tag, or the one that was named instead
            Order(
                line["episode"], line["tag"] if line["tag"] in play.tags else play.tag, line["seed"], line["group_id"]
            )
            for line in lines
        )
    else:
        planned = (
            Order(number, play.tags[group % len(play.tags)], first + group, group)
            for number in range(play.episodes)
            for group in (number // play.group_size,)
        )
    return (order for order in planned if order.number not in done)


def _as_asked(
    orders: Iterator[Order], requests: Requests, display: RolloutDisplay, folder: Path
) -> Iterator[Order | Wait]:
    """The episodes, as long as the run is not asked to stop; and none while it is paused."""
    for order in orders:
        requests.look()
        if requests.is_paused:
            again = shlex.join(["abreast", "watch", str(folder), "--ask", "go_on"])
            display.tell(as_typed(f"Paused as asked, when the episodes that have begun are over. To go on: {again}"))
        while requests.is_paused and not requests.is_stopped:
            yield Wait(PAUSE_S)
            requests.look()
        if requests.is_stopped:
            display.tell("Stops as asked, when the episodes that have begun are over.")
            return
        yield order


def _try_to_make(tag: Tag) -> None:
    """Make one environment before the run folder is made: if that fails, there is nothing to keep."""
    episode = Episode(tag.kind.env, tag.config)
    try:
        episode.make()
    except AbreastError:
        raise
    except ENDS as error:
        if is_of_signal(error):
            raise
        raise RolloutError(f"{tag.name} cannot be made: it raised {words(error, Path(__file__).parent)}.") from error
    episode.close()


async def _try_to_start(policy: Policy) -> None:
    """Look whether a server is there before the run folder is made."""
    await policy.start()
    await policy.close()


def _with_model(play: PlayConfig, policy: Policy) -> PlayConfig:
    """With the name of the model that the server has, if none was given: for rollout.yaml."""
    if not isinstance(policy, OpenAIPolicy) or play.server.model is not None:
        return play
    return play.model_copy(update={"server": play.server.model_copy(update={"model": policy.model})})


def _command(folder: Path, play: PlayConfig) -> list[str]:
    """The command that plays the same episodes again."""
    command = ["abreast", "rollout", *play.tags, "--config", str(folder / "config.yaml"), "--policy", play.policy]
    if play.replay is not None:
        return [*command, play.replay]
    command += ["--episodes", str(play.episodes), "--group-size", str(play.group_size)]
    for key, value in play.server.model_dump(exclude_defaults=True).items():
        if key == "sampling":
            command += [f"sampling.{name}={json.dumps(each)}" for name, each in value.items()]
        else:
            command += [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
    return command


# ---- after


def _say_stopped(results: Results, reason: str, folder: Path) -> None:
    again = shlex.join(["abreast", "rollout", "--resume", str(folder)])
    kept = f"all {results.episodes:,} of the run are kept" if results.before else "these are kept"
    count = counted(len(results.tallies), "more episode" if results.before else "episode")
    out.print(as_typed(f"Stopped after {count} ({reason}); {kept}. To go on: {again}"))


def _check(policy: Policy, results: Results, folder: Path) -> None:
    """Raise if episodes could not go on, or came out otherwise than recorded."""
    if isinstance(policy, ReplayPolicy):
        if policy.differences:
            raise FailedEpisodesError(
                f"{len(policy.differences)} of {counted(results.episodes, 'episode')} differ from the record;"
                f" {policy.differences[min(policy.differences)]}"
            )
        out.print(f"All {counted(results.episodes, 'episode')} came out as recorded.")
        return
    if results.errors:
        raise FailedEpisodesError(
            f"{len(results.errors)} of {counted(results.episodes, 'episode')} could not go on; the first:"
            f" {results.errors[0].rstrip('.')} (see {folder}/log.txt)."
        )
