"""An environment behind an OpenEnv server, played with texts."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gymnasium.spaces import Text

from abreast.errors import RolloutError
from abreast.rollouts.adapters.observations import text_of
from abreast.rollouts.envs.base import Taken, TextEnv, info_of
from abreast.rollouts.envs.openenv.config import RemoteConfig
from abreast.rollouts.envs.openenv.connection import Connection

ACTION_KEYS = ("action", "message", "text", "command", "code")
TEXT_KEYS = ("text", "message", "observation", "output", "prompt", "echoed_message")


class AnyText(Text):
    """Texts of any characters: a server may show what it likes."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class RemoteEnv(TextEnv[str]):
    """One session of the server. What is not told (success, validity, effect) follows from reward, end and text."""

    def __init__(self, config: RemoteConfig | Mapping[str, Any] | None = None) -> None:
        self._config = settings = RemoteConfig.parse({} if config is None else config)
        self.replayable = settings.replayable
        self._connection = Connection(settings.base_url, settings.timeout, settings.reconnect)
        self._key = settings.action_key or self._find_key(self._connection.schema()["action"])
        self.action_space = AnyText(40)
        self.observation_space = AnyText(2**24)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        wants = {**self._config.reset, **({} if seed is None else {"seed": seed})}
        answer = self._connection.ask({"type": "reset", "data": wants})
        self._connection.is_resumable = "session_id" in self._metadata(answer)
        self._text = self._shown(answer)
        told = self._metadata(answer).get("info")
        return {**info_of(), **(told if isinstance(told, dict) else {})}

    def _take(self, action: Any) -> Taken:
        data: dict[str, Any] = {**self._config.action, self._key: str(action)}
        if self._connection.is_resumable:
            data["metadata"] = {**data.get("metadata", {}), "request_id": uuid.uuid4().hex}
        answer = self._connection.ask({"type": "step", "data": data})
        metadata, before, reward, done = self._metadata(answer), self._text, answer.get("reward"), answer.get("done")
        if metadata.get("error"):
            raise RolloutError(f"the server could not go on with the episode: {metadata['error']}")
        self._text, reward, done = self._shown(answer), float(reward or 0.0), bool(done)
        told = metadata.get("info")
        info = info_of(success=done and reward > 0, valid=True, effective=done or self._text != before)
        info |= told if isinstance(told, dict) else {}
        if metadata.get("invalid"):
            info["action_is_valid"] = False
        if metadata.get("success") is not None:
            info["success"] = bool(metadata["success"])
        was_cut = done and bool(metadata.get("truncated"))
        return reward, done and not was_cut, was_cut, info

    def close(self) -> None:
        """End the session."""
        with suppress(RolloutError):
            self._connection.close()

    # ---- inside

    def _find_key(self, schema: Mapping[str, Any]) -> str:
        properties = schema.get("properties")
        texts = [key for key, value in (properties or {}).items() if "string" in _types(value) and key != "metadata"]
        required = [key for key in texts if key in schema.get("required", ())]
        for known in ([key for key in ACTION_KEYS if key in texts], required, texts):
            if known and (len(known) == 1 or known[0] in ACTION_KEYS):
                return known[0]
        raise RolloutError(
            f"actions of {self._config.base_url} have the keys {', '.join(properties or {}) or 'none'}: say with action_key"
            " which of them is the text."
        )

    def _shown(self, answer: Mapping[str, Any]) -> str:
        """The text of an observation; never empty, since a state is shown."""
        seen, wanted = answer["observation"], self._config.text_key
        if wanted is not None and wanted not in seen:
            raise RolloutError(f"text_key is {wanted!r}, but observations have {', '.join(seen)}: take one of these.")
        found = next((key for key in TEXT_KEYS if isinstance(seen.get(key), str)), None) if wanted is None else wanted
        shown = text_of(
            {key: value for key, value in seen.items() if key != "metadata"} if found is None else seen[found]
        )
        return shown or "(nothing)"

    @staticmethod
    def _metadata(answer: Mapping[str, Any]) -> dict[str, Any]:
        told = answer.get("metadata") or answer["observation"].get("metadata")
        return told if isinstance(told, dict) else {}


def _types(schema: Any) -> list[Any]:
    """Types that a property may have."""
    if not isinstance(schema, Mapping):
        return []
    return [schema.get("type"), *(each.get("type") for each in schema.get("anyOf", ()) if isinstance(each, Mapping))]
