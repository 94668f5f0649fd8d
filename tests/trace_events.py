"""A strict check of the trace-event format (Chrome's JSON object format), as far as timelines use it."""

import json
from pathlib import Path

EXACT = {
    "M": {"ph", "name", "pid", "tid", "args"},
    "X": {"ph", "name", "cat", "ts", "dur", "pid", "tid"},
    "b": {"ph", "name", "cat", "ts", "id", "pid", "tid"},
    "e": {"ph", "name", "cat", "ts", "id", "pid", "tid"},
}
"""Keys by phase: all of them, and no others."""


def checked(path: Path) -> dict:
    """The content of a file that keeps to the format."""
    found = json.loads(path.read_text(), parse_constant=lambda name: name)  # NaN is no JSON
    assert found.keys() == {"traceEvents", "displayTimeUnit", "abreast"} and found["displayTimeUnit"] == "ms"
    named, open_ends, calls = set(), {}, {}
    for event in sorted(found["traceEvents"], key=lambda each: (each.get("ts", -1.0), -each.get("dur", 0.0))):
        assert event.keys() == EXACT[event["ph"]], event
        assert isinstance(event["name"], str) and event["name"], event
        assert all(isinstance(event[key], int) for key in ("pid", "tid", "id") if key in event), event
        place = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            named.add(place)
            continue
        assert place in named and isinstance(event["ts"], int | float) and event["ts"] >= 0, event
        if event["ph"] == "X":
            assert event["cat"] in ("work", "wait") and event["dur"] >= 0, event
            ends = open_ends.setdefault(place, [])
            while ends and ends[-1] <= event["ts"] + 1e-4:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-4, f"{event} crosses the span around it"
            ends.append(event["ts"] + event["dur"])
        else:
            key = event["cat"], event["id"], event["pid"]
            assert (key in calls) == (event["ph"] == "e"), f"{event} has no partner"
            calls[key] = calls.get(key, 0) + 1
    assert all(count == 2 for count in calls.values())
    assert {(each["pid"], each["tid"]) for each in found["abreast"]["processes"]} == named
    return found


def spans(found: dict, process: str) -> list[tuple[str, float, float]]:
    """Name, start and end, in seconds, of the spans of a process."""
    pid = next(each["pid"] for each in found["abreast"]["processes"] if each["name"] == process)
    own = [each for each in found["traceEvents"] if each["ph"] == "X" and each["pid"] == pid]
    return [(each["name"], each["ts"] / 1e6, (each["ts"] + each["dur"]) / 1e6) for each in own]


def totals(found: dict, process: str) -> dict:
    return next(each["totals"] for each in found["abreast"]["processes"] if each["name"] == process)
