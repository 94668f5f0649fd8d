"""What runs in a child, whatever it is: make the work, then obey orders until told to stop."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from abreast.errors import users_part
from abreast.processes.backend import STOP, ChildContext, Failed, Ready, Work
from abreast.processes.spans import span

NO_ORDER = object()
"""What is received when the time to wait is over."""


class Replaced(BaseException):
    """Raised in a child whose parent is gone, or has replaced it but cannot kill it. Not an Exception: users' code catches
    those.
    """


_parent: list[int] = []
"""The parent of this process, if it is a child."""


def parent_pid() -> int | None:
    """The number of the process that this one is a child of; None in the program itself."""
    return _parent[0] if _parent else None


def note_parent(pid: int) -> None:
    """Say that this process is a child."""
    _parent[:] = [pid]


Inbox = Callable[[float | None], Any]
"""Where a child's orders arrive: returns the next message, or NO_ORDER after so many seconds; None: waits for any time."""


def serve(
    context: ChildContext, receive: Inbox, send: Callable[[Any], None], make: Callable[..., Work], arguments: Any
) -> None:
    """The whole life of a child. What its work raises becomes its last message."""
    with suppress(Replaced):
        try:
            work = make(context, *arguments)
            context.beat()
            send(Ready())
            while True:
                wait_s = work.idle()
                with span("wait"):
                    message = receive(wait_s)
                if message is STOP:
                    break
                if message is not NO_ORDER:
                    work.obey(*message)
            work.close()
        except Exception as error:
            reason, *_ = str(error).strip().splitlines() or [""]  # those of CUDA come with advice
            stack = traceback.format_exception(type(error), error, users_part(error) or error.__traceback__)
            send(Failed(f"{type(error).__name__}: {reason}", "".join(stack)))
