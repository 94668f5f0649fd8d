"""Threads that share the arithmetic of one update."""

import queue
import threading
from collections.abc import Callable, Sequence

import torch

Task = Callable[[], None]


class Crew:
    """Carries out tasks that do not depend on each other: with one thread in order, here; else side by side.

    What a task computes must not depend on where it is carried out, so results do not depend on the number of threads.
    """

    def __init__(self, threads: int = 1, compute_threads: int = 1) -> None:
        """`compute_threads`: of torch, in each thread of the crew."""
        self.threads = threads
        if threads > 1:  # a crew of one holds nothing that could not be copied or sent
            self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
            self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
            for _ in range(threads - 1):
                threading.Thread(target=self._work, args=(compute_threads,), name="crew", daemon=True).start()

    def run(self, tasks: Sequence[Task]) -> None:
        """Carry out all of them; an exception of one is raised here, when the others are done."""
        if self.threads == 1:
            for task in tasks:
                task()
            return
        for task in tasks[1:]:
            self._tasks.put(task)
        errors = [_error_of(tasks[0])]
        while len(errors) < len(tasks):
            try:
                left = self._tasks.get_nowait()
            except queue.Empty:
                errors.append(self._done.get())
            else:
                assert left is not None
                errors.append(_error_of(left))
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """End the threads."""
        for _ in range(self.threads - 1):
            self._tasks.put(None)

    def _work(self, compute_threads: int) -> None:
        torch.set_num_threads(compute_threads)
        with torch.no_grad():
            while (task := self._tasks.get()) is not None:
                self._done.put(_error_of(task))


def _error_of(task: Task) -> BaseException | None:
    try:
        task()
    except BaseException as error:
        return error
    return None


ALONE = Crew()
"""No other thread."""
