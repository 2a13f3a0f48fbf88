"""The bounds of paper 001: Zhang, Khalili and Liu (ICML 2018)."""

from __future__ import annotations

from collections.abc import Callable

from node.experiments.theory.bound import Bound
from node.experiments.theory.subject import Subject

BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = ()
