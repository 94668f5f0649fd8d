"""Sessions: each has one episode at a time, and outlives the connection of its client for a while.

    open ──a connection──▶ attached ──it is lost──▶ detached ──the client comes back──▶ attached
                              │ close, idle for too long    │ `grace` is over, or its place is wanted
                              └────────────▶ ended ◀────────┘

A turn belongs to the session, not to the connection: it is finished though the client is gone, and its answer is kept, so
that an action that is sent again (the same `request_id`) gets that answer and has no second effect.
"""

import asyncio
import time
import uuid
from collections import Counter
from typing import Any

from abreast.errors import RolloutError, log
from abreast.integrations.openenv.messages import Action, Refusal, ResetRequest, State, observed, parse
from abreast.rollouts.episodes.single import AsyncEpisode
from abreast.rollouts.manager import EnvStateManager

NAME_LENGTH = 255
"""Characters of a name that a client gives to its session, at most."""


class Session:
    """A client's episodes, one after the other."""

    def __init__(self, manager: EnvStateManager, tag: str, name: str | None) -> None:
        self._manager, self.tag = manager, tag
        self.id, self.is_named = name or uuid.uuid4().hex, name is not None
        self.lock = asyncio.Lock()
        """Held during a request: one at a time."""
        self.connection: object = None
        """The newest connection of its client; None: it is detached."""
        self.used_at = time.monotonic()
        self.is_ended = False
        self._episode: AsyncEpisode | None = None
        self._wants = ResetRequest()
        self._steps = 0
        self._answered: tuple[str, dict[str, Any]] | None = None
        """The last action that had a `request_id`, and what came of it."""

    async def obey(self, kind: str, data: Any) -> dict[str, Any]:
        """Fulfil a request; returns the data of the answer."""
        async with self.lock:
            if self.is_ended:
                raise Refusal("SESSION_ERROR", f"the session {self.id} has ended: connect again.")
            self.used_at = time.monotonic()
            try:
                if kind == "reset":
                    return await self._reset(parse(ResetRequest, data))
                return self._state() if kind == "state" else await self._step(parse(Action, data))
            except RolloutError as error:
                raise Refusal("EXECUTION_ERROR", str(error)) from error
            finally:
                self.used_at = time.monotonic()

    def leave(self, connection: object) -> None:
        """A connection is gone; if it was the newest, the session waits for another."""
        if self.connection is connection:
            self.connection, self.used_at = None, time.monotonic()

    def end(self) -> None:
        """Give its environment back."""
        self.is_ended = True
        if self._episode is not None:
            self._episode.close()

    async def _reset(self, wants: ResetRequest) -> dict[str, Any]:
        if self._episode is not None:
            self._episode.close()
        self._episode, self._answered, self._steps, self._wants = None, None, 0, wants
        self._episode = await self._manager.episode(self.tag, seed=wants.seed).begin_async()
        if self.is_ended:  # meanwhile
            self._episode.close()
            raise Refusal("SESSION_ERROR", f"the session {self.id} has ended: connect again.")
        return self._observed(None, 0.0)

    async def _step(self, action: Action) -> dict[str, Any]:
        episode, request = self._episode, str(action.metadata.get("request_id", ""))
        if request and self._answered is not None and self._answered[0] == request:
            return self._answered[1]
        if episode is None or episode.done:
            raise Refusal("EXECUTION_ERROR", "no episode is under way: reset begins one.")
        before = episode.penalty
        step = await episode.step(action.message if action.message is not None else [action.action or ""])
        self._steps += 1
        answer = self._observed(step, episode.penalty - before)
        self._answered = (request, answer)
        return answer

    def _observed(self, step: Any, penalty: float) -> dict[str, Any]:
        assert self._episode is not None
        told = {"session_id": self.id, "episode_id": self._wants.episode_id}
        return observed(self._episode, step, penalty, told, self._wants.messages)

    def _state(self) -> dict[str, Any]:
        episode = self._episode
        known = {} if episode is None else {"seed": episode.seed, "done": episode.done, "score": episode.score}
        return State(
            episode_id=self._wants.episode_id, step_count=self._steps, session_id=self.id, tag=self.tag, **known
        ).model_dump()


class Sessions:
    """All sessions of a server; `most` at a time, of all tags together."""

    def __init__(self, manager: EnvStateManager, most: int, idle_timeout: float, grace: float) -> None:
        self._manager, self._most, self._idle_timeout, self._grace = manager, most, idle_timeout, grace
        self._open: dict[str, Session] = {}
        self.counts = Counter[str]()
        """Sessions that were begun, came back or ended, by how."""

    def __len__(self) -> int:
        return len(self._open)

    def take(self, tag: str, wanted: str | None, name: str | None) -> Session:
        """The session that a client comes back to (`wanted`), or under the name it has chosen, or a new one."""
        known = self._open.get(wanted or name or "")
        if known is not None and known.tag == tag:
            self.counts["came back"] += 1
            return known
        if wanted is not None or known is not None:
            raise Refusal("SESSION_ERROR", f"there is no session {str(wanted or name)[:NAME_LENGTH]!r} of {tag}.")
        if name is not None and not (name.isprintable() and 0 < len(name) <= NAME_LENGTH):
            raise Refusal("SESSION_ERROR", f"the name of a session has 1 to {NAME_LENGTH} printable characters.")
        if len(self._open) >= self._most and not self._make_room():
            raise Refusal(
                "CAPACITY_REACHED",
                f"all {self._most} sessions of this server are in use: try again later, or raise --max-sessions.",
                active_sessions=len(self._open),
                max_sessions=self._most,
            )
        session = Session(self._manager, tag, name)
        self._open[session.id] = session
        self.counts["begun"] += 1
        return session

    def end(self, session: Session, how: str) -> None:
        """Forget a session, and give its environment back."""
        if self._open.pop(session.id, None) is not None:
            session.end()
            self.counts[how] += 1

    def reap(self) -> list[object]:
        """End sessions that are idle for too long, or lost for too long; returns their connections."""
        now, ended = time.monotonic(), list[object]()
        for session in [each for each in self._open.values() if not each.lock.locked()]:
            limit, how = (self._idle_timeout, "idle") if session.connection else (self._grace, "lost")
            if now - session.used_at > limit:
                ended.append(session.connection)
                log.info("a session of %s was ended: its client was %s for %g s", session.tag, how, limit)
                self.end(session, how)
        return [connection for connection in ended if connection is not None]

    def end_all(self) -> None:
        """The server stops."""
        for session in list(self._open.values()):
            self.end(session, "stopped")

    def _make_room(self) -> bool:
        """End the session that has been detached for longest, of a client that did not name it, so may not come back."""
        lost = [
            each
            for each in self._open.values()
            if each.connection is None and not each.is_named and not each.lock.locked()
        ]
        if lost:
            self.end(min(lost, key=lambda each: each.used_at), "lost")
        return bool(lost)
