"""Steps that are only consistent together."""

from types import TracebackType


class Guard:
    """A context manager around such steps. If an exception (Ctrl-C, say) leaves it, it `is_broken`: the state is unknown."""

    def __init__(self) -> None:
        self._depth = 0

    @property
    def is_broken(self) -> bool:
        """Whether steps were begun and not completed. Asked outside of the guard."""
        return self._depth > 0

    def repair(self) -> None:
        """All state was made anew."""
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._depth -= 1
