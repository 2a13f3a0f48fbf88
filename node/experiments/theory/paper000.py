"""The bounds of paper 000 (Zhang and Zhu, dynamic privacy over a network) and of paper 002, its AISec 2016 form."""

from __future__ import annotations

from collections.abc import Callable

from node.experiments.theory.bound import Bound
from node.experiments.theory.subject import Subject

BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = ()
