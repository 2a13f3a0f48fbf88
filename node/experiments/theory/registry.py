"""Every bound of every paper. A function of the list returns [] where its theorem does not speak about the subject."""

from __future__ import annotations

from collections.abc import Callable

from node.experiments.theory import paper000, paper001, paper003, paper004
from node.experiments.theory.bound import Bound
from node.experiments.theory.subject import Subject

BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = (
    *paper000.BOUNDS,
    *paper001.BOUNDS,
    *paper003.BOUNDS,
    *paper004.BOUNDS,
)


def bounds(subject: Subject, tell: Callable[[str], None] = lambda _: None) -> list[Bound]:
    """What every theorem says about ``subject``; ``tell`` is given the progress."""
    found: list[Bound] = []
    for number, of in enumerate(BOUNDS, 1):
        tell(f"theorem {number} of {len(BOUNDS)}")
        found += of(subject)
    return found
