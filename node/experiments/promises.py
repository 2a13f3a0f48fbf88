"""Whether private configurations promise the same, so that they can be compared at equal privacy.

Rules that hold here:
- A promise is an epsilon and a delta for each agent, against an observer. Two with other budgets for some agents, or
  against other observers, are not equal.
- An epsilon that the releases do not keep is no promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from node.configuration.refusals import shown
from node.configuration.sections import Configuration


def unequal(one: str, other: str, configurations: Mapping[str, Configuration]) -> str | None:
    """How the promises of two private configurations, by name, differ, in one line; None if they are equal."""
    first, second = (_promise(configurations[name]) for name in (one, other))
    different = [key for key, mine, theirs in zip(_Promise._fields, first, second, strict=True) if mine != theirs]
    if not different:
        return None
    mine, theirs = (configurations[name].privacy for name in (other, one))
    if different[0] in ("epsilon", "delta"):
        return (
            f"{other}: privacy.epsilon = {mine.epsilon or 0.0:g}, delta = {mine.delta or 0.0:g}, but {one} has "
            f"{theirs.epsilon or 0.0:g}, {theirs.delta or 0.0:g}; accepted: one total for all, as "
            f"--set privacy.epsilon={theirs.epsilon or 0.0:g}"
        )
    key = different[0]
    return (
        f"{other}: privacy.{key} = {_shown(getattr(mine, key))}, but {one} has {_shown(getattr(theirs, key))}; "
        f"accepted: the same promise to each agent in all, and so the same privacy.{key}"
    )


def false_promise(name: str, configuration: Configuration) -> str | None:
    """Why a private configuration's epsilon is not what its releases cost, in one line; None if it is."""
    if configuration.data.as_published:
        return (
            f"{name}: data.as_published = true computes public numbers from all records, which no epsilon covers: it "
            "cannot be compared at equal privacy; accepted is false"
        )
    if configuration.privacy.observer != "as_published":
        return None
    return (
        f'{name}: privacy.observer = "as_published" claims an epsilon that its releases do not keep, so it cannot be '
        'compared at equal privacy; accepted are "releases" and "sum"'
    )


class _Promise(NamedTuple):
    """What is promised to each agent, by the numbers or the file that they come from, and against which observer."""

    levels: list[list[float]] | None
    budgets: bytes | None
    epsilon: float | None
    delta: float
    observer: str
    colluders: int


def _promise(configuration: Configuration) -> _Promise:
    privacy = configuration.privacy
    return _Promise(
        levels=privacy.levels,
        budgets=None if privacy.budgets is None else _content(Path(privacy.budgets)),
        # Levels give every agent its epsilon, so that the total of the section is no agent's.
        epsilon=None if privacy.levels else privacy.epsilon,
        delta=privacy.delta or 0.0,
        observer=privacy.observer,
        colluders=privacy.colluders if privacy.observer == "sum" else 0,
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # dealing says what is wrong with it
        return bytes(path)


def _shown(value: Any) -> str:
    return "none" if value is None else shown(value)
