"""The bounds of paper 003: Kang, Liu and Wang, *Weighted Distributed Differential Privacy ERM*."""

from __future__ import annotations

from collections.abc import Callable

from node.experiments.theory.bound import Bound
from node.experiments.theory.subject import Subject

BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = ()
