"""RAGEN's keys and rules, in one place: what each of its keys is here, and what `preset: ragen` selects.

Its sections are our own, but for `agent_proxy`, whose keys are those of our section `context`, or stand for `max_turns`.
A key that has no equal is refused with the reason, unless its value asks for what happens anyway.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from abreast.settings import SeveralFaults


class Refused(NamedTuple):
    """A setting of another project that does not exist here."""

    why: str
    """Completes the sentence "KEY is VALUE: ..."."""
    unless: tuple[Any, ...] = (None,)
    """Values that ask for what happens anyway: with one of them, the key is left out."""
    file_key: str | None = None
    """The setting here that the key stands for, if its value is the name of a data file."""


_SCORE = Refused("what an unknown action costs is the same in all environments; set es_manager.format_penalty.")
_NUMBER = Refused("an unknown action has no number here, the manager drops it; leave it out.", (None, 0))
_FILES = (".json", ".jsonl", ".parquet")
Keys = Mapping[str, str | Refused]

KEYS: Mapping[str, Keys] = MappingProxyType(
    {
        "agent_proxy": {
            "enable_think": "enable_think",
            "action_sep": "action_sep",
            "max_actions_per_turn": "max_actions_per_turn",
            "max_context_window": "history_window",
        },
        "es_manager": {
            "step_penalty": Refused(
                "the score is lowered by format_penalty only; give a step its price in the reward of the environment.",
                (None, 0, 0.0),
            ),
            "think_quality_penalty": Refused(
                "answers are not judged by how long their thoughts are; leave it out.", (None, 0, 0.0)
            ),
        },
        "custom_envs": {
            "max_instances": Refused(
                "it is no key of a tag; environments that choose from so many tasks have it in env_config."
            )
        },
        "sokoban": {
            "distance_reward_coeff": Refused(
                "rewards for boxes that come nearer to a target do not exist here; leave it out and add them to the rewards"
                " in your training loop.",
                (None, 0, 0.0),
            ),
            "invalid_act": _NUMBER,
            "invalid_act_score": _SCORE,
        },
        "frozen_lake": {
            "map_seed": Refused(
                "the seed of an episode makes its lake (RAGEN's reset overwrites this key with it too); leave it out, and"
                " give seeds to reset."
            ),
            "action_map": Refused(
                "the four moves have the numbers 1 to 4 here; leave it out, and change their names with action_lookup.",
                (None, {1: 0, 2: 1, 3: 2, 4: 3}),
            ),
            "map_lookup": Refused("it numbers letters of the code elsewhere; leave it out, and set grid_lookup."),
            "invalid_act": _NUMBER,
            "invalid_act_score": _SCORE,
        },
        "bandit": {
            "lo_arm_score": "lo_reward",
            "hi_arm_hiscore": "hi_reward",
            "hi_arm_loscore": "hi_reward_else",
            "hi_arm_hiscore_prob": "hi_probability",
        },
        "countdown": {
            "train_path": "data_path",
            "solvable_filter": "plus_minus_only",
            "invalid_act": Refused(
                "a text that is no expression is told from others by reading it; leave it out, and see unreadable_ends.",
                (None, ""),
            ),
            "invalid_act_score": _SCORE,
            "max_steps": Refused(
                "one expression ends the episode; leave it out, and limit other answers with max_actions_per_traj.",
                (None, 1),
            ),
        },
        "metamathqa": {
            "dataset_path": Refused(
                "data sets are not downloaded here; download it, and set data_path to its .json, .jsonl or .parquet file.",
                file_key="data_path",
            ),
            "cache_dir": Refused(
                "nothing is downloaded here, so nothing is kept; leave it out, and set data_path to a file."
            ),
        },
        "webshop": {
            "file_path": "data",
            "server": Refused(
                "there is no server here, every environment reads the same catalogue file; leave it out."
            ),
            "filter_goals": Refused(
                "goals are not chosen by a function here; leave it out, and set data to files with the goals you want."
            ),
            "show_attrs": Refused(
                "attributes are on a page of their own, click[attributes]; leave it out.", (None, False)
            ),
        },
    }
)
"""By section, or by type for `env_config`: the name that a key has here, or why there is none."""

CONTEXT: Mapping[str, Any] = MappingProxyType(
    {
        "answer_format": "blocks",
        "answers": "normalised",
        "show_rewards": True,
        "prefill": True,
        "texts": {
            "instruction": "{task}\n\n{legend}\n\n{actions}\n\n{count}",
            "turn": "{reward}{no_action}Turn {turn}:\nState:\n{state}{available}{actions_left} {form}",
            "reward": "Reward:\n{reward}\n\n",
            "no_action": "",
            "actions_left": "\nThere are {actions_left} actions left.",
            "form": "Write exactly {example} and nothing beside it.{length}",
            "call": "Act by calling a tool.{length}",
            "think": "<think> [what you think] </think> ",
            "answer": "<answer> [what you answer] </answer>",
            "action": "<answer> [what you do] </answer>",
            "several": "<answer> [what you do] </answer>",
            "count": "One answer may hold up to {most} actions, with {separator} between them.",
            "length": " Your reply may have {max_words} words at most.",
        },
    }
)
"""What the preset selects of our section `context`: RAGEN's way to ask and to read, in words of our own."""

DATA_SETS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "countdown": ("data_path", "its file of countdown tasks", "generated tasks"),
        "metamathqa": ("data_path", "meta-math/MetaMathQA", "the questions that ship"),
        "webshop": ("data", "the public product files", "products of the generated catalogue"),
    }
)
"""By type: the setting that names a data set, what RAGEN loads, and what stands in where nothing is named."""


def unsupported(section: str) -> Mapping[str, str]:
    """The keys of a section that are refused, and why."""
    return {key: refused.why for key, refused in KEYS[section].items() if isinstance(refused, Refused)}


def own_keys(values: Any, known: Keys) -> Any:
    """`values` under the names of this project; ValueError with a sentence for each key that is refused.

    An empty value under another name counts as not given.
    """
    if not isinstance(values, Mapping) or not known.keys() & values.keys():
        return values
    faults, kept = [], {}
    for key, value in values.items():
        own = known.get(key, key)
        if isinstance(own, Refused) and own.file_key and Path(str(value)).suffix in _FILES:
            own = own.file_key
        if isinstance(own, Refused):
            if repr(value) not in map(repr, own.unless):  # of an array, == would be no truth value
                faults.append(f"{key} is {value!r:.80}: {own.why}")
        elif own == key or value is not None:
            if own != key and own in values:
                faults.append(f"{key} is another name of {own}, and both are given: leave one of them out.")
            kept[own] = value
    if faults:
        raise SeveralFaults(faults)
    return kept


def context_of(proxy: Mapping[str, Any]) -> dict[str, Any]:
    """What a section `agent_proxy` says, in the words of our section `context`; its other keys are about training."""
    named = own_keys({key: proxy[key] for key in KEYS["agent_proxy"] if key in proxy}, KEYS["agent_proxy"])
    said = {key: value for key, value in named.items() if value is not None}
    said |= {"history_window": 1} if proxy.get("without_history") else {}
    window = said.get("history_window")
    if isinstance(window, int) and window <= 0:  # -1: all
        del said["history_window"]
    return said


def with_turns(tags: Any, turns: Any) -> Any:
    """Tags that take as many turns as `agent_proxy.max_turn` says, where they do not say so themselves."""
    if turns is None or not isinstance(tags, Mapping):
        return tags
    return {
        name: {"max_turns": turns, **settings} if isinstance(settings, Mapping) else settings
        for name, settings in tags.items()
    }
