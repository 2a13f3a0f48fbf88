"""A network from edges between named agents, as graph files hold them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from topology.errors import (
    AsymmetricError,
    DisconnectedError,
    GraphFileError,
    NegativeWeightError,
    NonFiniteWeightError,
    SelfLoopError,
)
from topology.network import Network, describe_components

Name = str | int
Numbering = Callable[[Sequence[str]], Sequence[int]]
"""The agent's number of each of a file's names, which are all different; raises an error for names that do not fit."""


@dataclass(frozen=True, eq=False)
class NamedEdges:
    """What a graph file holds: the agents' names in the file's order, and edges (name, name, weight)."""

    names: Iterable[Name]
    edges: Iterable[tuple[Name, Name, Any]]
    directed: bool = False


def by_themselves(names: Sequence[str]) -> list[int]:
    """The `Numbering` by the names alone: whole numbers are 0..n-1 and stay, others are in natural order."""
    if all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in names):
        numbers = [int(name) for name in names]
        missing = set(range(len(names))) - set(numbers)
        if missing:
            raise GraphFileError(
                f"{len(names)} agents that are numbers must be 0 to {len(names) - 1}: there is a "
                f"{max(numbers, key=abs)} but no {min(missing)}"
            )
        return numbers
    place = {name: agent for agent, name in enumerate(sorted(names, key=_natural))}
    return [place[name] for name in names]


def network_of(found: NamedEdges, numbering: Numbering) -> Network:
    """The network of named edges; an undirected edge that is there twice must have one weight."""
    weights = _weights(found)
    for (a, b), weight in weights.items():
        back = weights.get((b, a), 0.0)
        if back != weight:
            raise AsymmetricError(
                f"edge {a}-{b} has weight {weight:g} from {a} to {b} and {back:g} back: both must be equal"
            )
    agents = _number(found.names, numbering)
    rows = [agents[a] for a, _ in weights]
    columns = [agents[b] for _, b in weights]
    shape = (len(agents), len(agents))
    matrix = sparse.csr_array((np.array(list(weights.values()), dtype=np.float64), (rows, columns)), shape=shape)
    # Checked here as well, where the file's own names for the agents are known.
    count, labels = csgraph.connected_components(matrix, directed=False)
    if count > 1:
        raise DisconnectedError(f"the graph is not connected: {describe_components(count, labels, list(agents))}")
    return Network(matrix)


def _number(names: Iterable[Name], numbering: Numbering) -> Mapping[Name, int]:
    """Each name's agent, in the agents' order."""
    listed = list(names)
    if not listed:
        raise GraphFileError("the file holds no agents")
    for name in listed:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise GraphFileError(f"agent {name!r} is named by a {type(name).__name__}: names are text or whole numbers")
    numbers = numbering([str(name) for name in listed])
    if sorted(numbers) != list(range(len(listed))):
        raise GraphFileError(f"the file's names stand for the agents {sorted(numbers)}: each must be there once")
    return dict(sorted(zip(listed, numbers, strict=True), key=lambda pair: pair[1]))


def _weights(found: NamedEdges) -> dict[tuple[Name, Name], float]:
    weights: dict[tuple[Name, Name], float] = {}
    for a, b, value in found.edges:
        weight = _weight(a, b, value)
        if a == b:
            raise SelfLoopError(f"agent {a} is its own neighbour: self-loops are not accepted")
        for pair in [(a, b)] if found.directed else [(a, b), (b, a)]:
            if weights.setdefault(pair, weight) != weight:
                raise GraphFileError(f"edge {a}-{b} is there twice, with weights {weights[pair]:g} and {weight:g}")
    return weights


def _weight(a: Name, b: Name, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        weight = float(value)
    except (TypeError, ValueError):
        raise GraphFileError(f"edge {a}-{b} has weight {value!r}: weights are numbers") from None
    if not math.isfinite(weight):
        raise NonFiniteWeightError(f"edge {a}-{b} has weight {weight:g}: weights must be finite")
    if weight < 0:
        raise NegativeWeightError(f"edge {a}-{b} has weight {weight:g}: weights must not be negative")
    return weight


def _natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Text compares as text and digits as numbers; digits by length first, so that no number is too long."""
    pieces = re.split(r"([0-9]+)", name)
    key: list[str | tuple[int, str]] = []
    for place, piece in enumerate(pieces):
        digits = piece.lstrip("0")
        key.append(piece if place % 2 == 0 else (len(digits), digits))
    return key, name
