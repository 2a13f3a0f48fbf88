"""The bounds of paper 004: Bellet, Guerraoui, Taziki and Tommasi (AISTATS 2018)."""

from __future__ import annotations

from collections.abc import Callable

from node.experiments.theory.bound import Bound
from node.experiments.theory.subject import Subject

BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = ()
