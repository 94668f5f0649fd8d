"""What a model is told about the states and the actions of an environment of Gymnasium."""

from gymnasium.envs.registration import load_env_creator

from abreast.rollouts.envs.gymnasium.config import GymnasiumConfig

_COLOURS = "A coloured part of the state is written with its colour: <red:S> is a red S."
_PICTURE = "The state is a picture."
_ACTIONS = (
    "An action is its name or its number; one of several parts is its numbers with blanks between them, such as 1 0 2."
)
OBSERVATION = "observation"


def legend(config: GymnasiumConfig) -> str:
    """How states and actions are written."""
    mode = shown_mode(config)
    state = {"ansi": _COLOURS, "rgb_array": _PICTURE}.get(mode or OBSERVATION, "")
    return " ".join(part for part in (state, "" if config.action_lookup else _ACTIONS) if part)


def shown_mode(config: GymnasiumConfig) -> str | None:
    """The render mode for `gymnasium.make`; None: the observation is shown."""
    if config.render_mode != "auto":
        return None if config.render_mode == OBSERVATION else config.render_mode
    return "ansi" if "ansi" in (render_modes(config) or ()) else None


def render_modes(config: GymnasiumConfig) -> list[str] | None:
    """The render modes of the environment's class; None if it does not say."""
    entry = config.spec.entry_point
    metadata = getattr(load_env_creator(entry) if isinstance(entry, str) else entry, "metadata", None)
    return None if metadata is None else list(metadata.get("render_modes", []))
