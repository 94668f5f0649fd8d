"""What must be done as a whole or not at all."""

from types import TracebackType


class Whole:
    """Surrounds steps that belong together. Once they were interrupted, it `is_torn`: what is known cannot be trusted."""

    def __init__(self) -> None:
        self._begun = 0

    @property
    def is_torn(self) -> bool:
        """Whether something was begun and not ended."""
        return self._begun > 0

    def mend(self) -> None:
        """All that was half done is undone."""
        self._begun = 0

    def __enter__(self) -> None:
        self._begun += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._begun -= 1
