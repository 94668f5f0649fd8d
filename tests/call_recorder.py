"""Records how functions of abreast are reached, in the processes of one program: the calls of each stack, in order.

RECORDED_CALLS says, in JSON, what `record` is given. The program calls `start` when it has imported what it needs. The fork
server calls `start_in_forks` in its `sitecustomize` (test_walks.py), so that its own imports are not slowed down.

Passed over: frames of other packages, generators (so context managers, too), comprehensions and lambdas.
"""

import inspect
import json
import os
import sys
import threading
from pathlib import Path


def calls_of(frame, source):
    """The functions of abreast in a stack, the outermost first, as `file.py: Class.method`."""
    names = []
    while frame is not None:
        code = frame.f_code
        is_listed = not code.co_flags & inspect.CO_GENERATOR and not code.co_name.startswith("<")
        if is_listed and code.co_filename.startswith(source):
            names.append(f"{code.co_filename.removeprefix(source)}: {code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def record(output, source, functions):
    """From now on, append to `output` each new stack in which one of these functions is called."""
    names, seen = frozenset(functions), set()

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name in names and code.co_filename.startswith(source):
            place = f"{os.getpid()}.{threading.get_ident()}"
            line = json.dumps([place, calls_of(frame, source)])
            if line not in seen:
                seen.add(line)
                with Path(output).open("a") as file:  # at once: children end without cleaning up
                    file.write(line + "\n")

    threading.setprofile(profile)
    sys.setprofile(profile)


def start():
    """Record, if the environment says what."""
    if "RECORDED_CALLS" in os.environ:
        record(**json.loads(os.environ["RECORDED_CALLS"]))


def start_in_forks():
    """Start in each process that this one forks."""
    os.register_at_fork(after_in_child=start)
