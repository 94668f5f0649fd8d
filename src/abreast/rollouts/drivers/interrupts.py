"""Signals that end a run of asyncio: its tasks are cancelled first, so that they give back what they hold.

`asyncio.run` does this for Ctrl-C. A program that handles SIGTERM by an exception (the command line does) would have it come
out of whichever task happens to run.
"""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run_until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`. SIGTERM, if it is handled at all, cancels the work before its handler is called; twice: at once."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return asyncio.run(work)
    taken = list[int]()

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel(number: int, frame: FrameType | None) -> None:
            taken.append(number)
            if len(taken) > 1:
                handler(number, frame)
            loop.call_soon_threadsafe(task.cancel)

        signal.signal(signal.SIGTERM, cancel)
        try:
            return await work
        finally:
            signal.signal(signal.SIGTERM, handler)

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if taken:
            handler(signal.SIGTERM, None)
        raise
