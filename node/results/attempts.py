"""Parts of a run's results that may fail and leave the rest as it is: baselines, gaps, pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Part = TypeVar("Part")


class Attempts:
    """Makes parts one by one; ``notes`` says of each that failed what it was and why."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def make(self, what: str, part: Callable[[], Part]) -> Part | None:
        """Return the part; None where there is none, or where making it failed."""
        try:
            return part()
        # A finished run has spent its budget: whatever fails in a part, people get the table.
        except Exception as error:
            self.notes.append(f"{what}: not made, {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            return None
