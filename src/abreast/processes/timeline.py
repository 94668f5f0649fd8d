"""The timeline of a run: the tracks of all its processes and threads (spans.py), merged into one file of trace events.

    child: its track ──┐
    child: its track ──┼──▶ Timeline ──▶ timeline.json (Chrome trace events)
    this thread's    ──┘

Workers write on while it is made: of each ring at most half is read, which they do not reach meanwhile.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.errors import log
from abreast.files import write_whole
from abreast.processes.backend import ChildContext, ChildSpec, Work
from abreast.processes.cores import cores
from abreast.processes.memory import SharedBlock
from abreast.processes.shares import RowsShare
from abreast.processes.spans import (
    CALLS,
    NUMBERS,
    PREFIX,
    ROWS,
    SAMPLED,
    SPANS,
    WAITS,
    Recorder,
    clock,
    here,
    make_track,
    newest,
    wall_ahead,
)

MOST_TRACKS = 64
"""Further workers are not recorded: there may be a thread for each of hundreds of environments."""
MOST_EVENTS = 40_000
"""Spans in the file, about, of all tracks together: 4 MB. Of each, those of eight names have the room."""


def make_recorded(context: ChildContext, *arguments: Any) -> Work:
    """In a child: make its work, and record what it does. The last arguments: what makes it; its track, the totals in it,
    and since when nobody has written there; `wall_ahead` where it is read.
    """
    *others, make, track, totals, since, ahead_there = arguments
    ahead = ahead_there - wall_ahead()
    recorder = here.recorder = Recorder(track, totals, ahead)
    work: Work = make(context, *others)
    recorder.add(NUMBERS["restart" if totals else "start"], since + ahead, clock())
    return work


class Timeline:
    """The tracks of a run, as a context: the thread that enters it has the first, and workers that it starts have others.

    `write` writes the file. What goes wrong with a timeline is logged, and never ends a run.
    """

    def __init__(self, path: Path, name: str) -> None:
        """`name`: of the thread that enters it."""
        self._path, self._name, self._started = path, name, clock()
        self._tracks: dict[str, tuple[SharedBlock, int]] = {}
        """By name of the process, or thread, whichever of its incarnations; with the moment of its first start."""

    def __enter__(self) -> "Timeline":
        self._before, here.timeline = (here.recorder, here.timeline), self
        if (found := self._track(self._name)) is not None:
            here.recorder = Recorder(found[0])
        return self

    def __exit__(self, *error: object) -> None:
        here.recorder, here.timeline = self._before
        self.write()

    def _track(self, name: str) -> tuple[SharedBlock, int] | None:
        if name not in self._tracks and len(self._tracks) < MOST_TRACKS:
            try:
                self._tracks[name] = make_track(), clock()
            except OSError as error:  # no memory, no descriptors
                log.warning("the timeline is without %s: %s", name, error.strerror or error)
        return self._tracks.get(name)

    def recorded(self, spec: ChildSpec) -> ChildSpec:
        """What to start instead, so that the worker records what it does."""
        if (found := self._track(spec.name)) is None:
            return spec
        track, started = found
        last = newest(track, 1)
        since = max([started, *(end for rows in last for _, end, *_ in rows)])
        totals = [rows[0][2:] if rows else [0, 0, 0] for rows in last] if any(last) else None
        return replace(
            spec,
            make=make_recorded,
            arguments=(*spec.arguments, spec.make, track, totals, since, wall_ahead()),
            writes=(*spec.writes, RowsShare(PREFIX, range(len(SPANS)))),
        )

    def write(self) -> None:
        """Write the file, as far as the run is."""
        try:
            write_whole(self._path, json.dumps(self.as_json(), separators=(",", ":")).encode())
        except Exception as error:
            log.error("the timeline was not written: %s", error)

    def as_json(self) -> dict[str, Any]:
        """The file's content: trace events, and what they do not say."""
        events, processes = list[dict[str, Any]](), []
        most = min(MOST_EVENTS // (8 * max(len(self._tracks), 1)), ROWS // 2)
        for pid, (name, (track, started)) in enumerate(list(self._tracks.items()), 1):
            found, place = newest(track, most), {"pid": pid, "tid": 1}
            spans = [(number, start, end) for number, rows in enumerate(found) for start, end, *_ in rows]
            ended = clock() if name == self._name else max([started, *(end for _, _, end in spans)])
            about = {
                "started": self._micro(started) / 1e6,
                "ended": self._micro(ended) / 1e6,
                "totals": _totals(found),
                "dropped": int(track.part(PREFIX)["written"].sum()) - len(spans),
            }
            processes.append({"name": name, **place, **about})
            named = {"ph": "M", **place, "args": {"name": name}}
            events += [{**named, "name": "process_name"}, {**named, "name": "thread_name"}]
            events += self._events([span for span in spans if span[1] >= self._started], place)
        told = {"seconds": self._micro(clock()) / 1e6, "cores": cores(), "processes": processes}
        return {"traceEvents": events, "displayTimeUnit": "ms", "abreast": told}

    def _events(self, spans: list[tuple[int, int, int]], place: dict[str, int]) -> list[dict[str, Any]]:
        """One that crosses the span before it begins when that ends: clocks of nodes are not quite that of this one."""
        events, ends = list[dict[str, Any]](), [sys.maxsize]
        for number, start, end in sorted(spans, key=lambda span: (span[1], -span[2])):
            event = {"name": SPANS[number], **place}
            if SPANS[number] in CALLS:
                event |= {"cat": "call", "id": len(events)}
                events += [{**event, "ph": "b", "ts": self._micro(start)}, {**event, "ph": "e", "ts": self._micro(end)}]
                continue
            while ends[-1] < end:
                start = max(start, ends.pop())
            ends.append(end)
            event |= {"cat": "wait" if SPANS[number] in WAITS else "work", "ts": self._micro(start)}
            events.append({**event, "ph": "X", "dur": (end - start) / 1e3})
        return events

    def _micro(self, moment: int) -> float:
        return (moment - self._started) / 1e3


def _totals(found: list[list[list[int]]]) -> dict[str, Any]:
    """Of the names that were recorded. `own_seconds`: without those of spans inside; of all names together they are the time
    that was recorded.
    """
    totals = {name: rows[-1][2:] for name, rows in zip(SPANS, found, strict=True) if rows}
    most_of = min([1.0, *(whole / inside for _, whole, inside in totals.values() if inside)])
    told = {}
    for name, (count, whole, inside) in totals.items():
        took = whole * (most_of if name in SAMPLED else 1.0)  # estimates, which are inside others
        told[name] = {
            "count": count,
            "seconds": took / 1e9,
            "own_seconds": max(0.0, took - inside) / 1e9,
            "is_wait": name in WAITS,
            "is_sampled": name in SAMPLED,
            "is_async": name in CALLS,
        }
    return told
