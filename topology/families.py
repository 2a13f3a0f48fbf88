"""Families of graphs, by name; those drawn at random are drawn again until connected.

Rules that hold here:
- A graph is a function of (kind, agents, seed, parameters); no global random state is read. All weights are 1.
- Attempt k draws from a stream of its own, so that a retry never depends on how much the one before consumed.
- A parameter that a kind does not take is an error, not ignored; None means not given.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from topology.errors import DisconnectedError, ParameterError, UnknownKindError
from topology.network import Network

ATTEMPTS = 100
"""How often a random family is drawn before `build` gives up."""


def build(kind: str, agents: int, seed: int, **parameters: Any) -> Network:
    """Make a connected network of ``agents`` agents.

    Parameters
    ----------
    kind
        One of `KINDS`, or ``package.module:function`` for a function of your own. It is called with
        (agents, seed, **parameters) and returns a `Network`.
    agents
        How many there are, at least 1.
    seed
        Decides the draws of random kinds, at least 0.
    **parameters
        Those of the kind (`PARAMETERS`); None means not given.

    Raises
    ------
    UnknownKindError
        There is no such kind, or the function cannot be imported or returns no network.
    ParameterError
        Names the setting, its value and what is accepted.
    DisconnectedError
        Describes the best of `ATTEMPTS` graphs.
    """
    _integer("agents", agents, 1, None)
    _integer("seed", seed, 0, None)
    given = {name: value for name, value in parameters.items() if value is not None}
    if ":" in kind:
        return _own(kind, agents, seed, given)
    family = _FAMILIES.get(kind)
    if family is None:
        raise UnknownKindError(_unknown(kind))
    _check_parameters(kind, family, given)
    if not family.random:
        return _network(family.make(agents, 0, **given))
    return _drawn(kind, family, agents, seed, given)


def _check_parameters(kind: str, family: _Family, given: dict[str, Any]) -> None:
    for name in family.needs:
        if name not in given:
            raise ParameterError(f"topology.{name} is missing: kind {kind!r} needs it")
    for name, value in given.items():
        if name not in family.parameters:
            takes = ", ".join(family.parameters) or "no parameter"
            raise ParameterError(f"topology.{name} = {value!r} has no meaning for kind {kind!r}, which takes {takes}")


def _drawn(kind: str, family: _Family, agents: int, seed: int, given: dict[str, Any]) -> Network:
    """The first connected graph of `ATTEMPTS`."""
    best: tuple[int, int] | None = None
    for attempt in range(ATTEMPTS):
        stream = int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0])
        weights = _matrix(family.make(agents, stream, **given))
        count, labels = csgraph.connected_components(weights, directed=False)
        if count == 1:
            return Network(weights)
        largest = int(np.bincount(labels).max())
        if best is None or count < best[0]:
            best = (count, largest)
    assert best is not None
    settings = ", ".join(f"{name} = {value}" for name, value in given.items())
    raise DisconnectedError(
        f"none of {ATTEMPTS} graphs of kind {kind!r} with agents = {agents}, {settings} was connected: the best had "
        f"{best[0]} components, the largest of {best[1]} agents; {family.advice(agents)}"
    )


def _own(kind: str, agents: int, seed: int, given: dict[str, Any]) -> Network:
    module, _, name = kind.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownKindError(f"topology.kind = {kind!r} cannot be imported: {error}") from error
    network = function(agents, seed, **given)
    if not isinstance(network, Network):
        raise UnknownKindError(f"topology.kind = {kind!r} returned a {type(network).__name__}, not a Network")
    if network.agents != agents:
        raise UnknownKindError(
            f"topology.kind = {kind!r} returned {network.agents} agents where {agents} were asked for"
        )
    return network


def _unknown(kind: str) -> str:
    near = difflib.get_close_matches(kind, KINDS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"topology.kind = {kind!r} is not a family: known are {', '.join(KINDS)}{hint}"


def _matrix(graph: nx.Graph) -> sparse.csr_array:
    return nx.to_scipy_sparse_array(graph, nodelist=range(graph.number_of_nodes()), dtype=np.float64, format="csr")


def _network(graph: nx.Graph) -> Network:
    return Network(_matrix(graph))


# Parameters ----------------------------------------------------------------------------------------------------------


def _integer(name: str, value: Any, low: int, high: int | None, why: str = "") -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        accepted = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
        raise ParameterError(f"topology.{name} = {value!r}: must be {accepted}{why}")
    return int(value)


def _probability(value: Any, *, zero: bool) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1 or (value == 0 and not zero):
        raise ParameterError(f"topology.probability = {value!r}: must be {'from 0' if zero else 'above 0 and up'} to 1")
    return float(value)


# The families --------------------------------------------------------------------------------------------------------


def _path(agents: int, _: int) -> nx.Graph:
    return nx.path_graph(agents)


def _ring(agents: int, _: int) -> nx.Graph:
    _integer("agents", agents, 3, None, " (kind 'ring')")
    return nx.cycle_graph(agents)


def _complete(agents: int, _: int) -> nx.Graph:
    return nx.complete_graph(agents)


def _star(agents: int, _: int) -> nx.Graph:
    """Agent 0 is the centre."""
    return nx.star_graph(agents - 1)


def _torus(agents: int, _: int, rows: Any = None, columns: Any = None) -> nx.Graph:
    """Agent r * columns + c at row r, column c; the most square one if neither is given."""
    if rows is None and columns is None:
        rows = max((r for r in range(3, math.isqrt(agents) + 1) if agents % r == 0), default=None)
        if rows is None:
            raise ParameterError(
                f"topology.agents = {agents}: kind 'torus' needs rows * columns agents, both at least 3"
            )
    for name, value in (("rows", rows), ("columns", columns)):
        if value is not None:
            _integer(name, value, 3, None)
            if agents % value:
                raise ParameterError(f"topology.{name} = {value}: must divide the number of agents, {agents}")
    rows = agents // columns if rows is None else rows
    columns = agents // rows if columns is None else columns
    if rows * columns != agents or min(rows, columns) < 3:
        raise ParameterError(
            f"topology.rows = {rows}, topology.columns = {columns}: must both be at least 3, and their product {agents}"
        )
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns, periodic=True), ordering="sorted")


def _random_regular(agents: int, seed: int, degree: Any) -> nx.Graph:
    _integer("degree", degree, 1, agents - 1, f" (kind 'random-regular' needs degree < agents = {agents})")
    if agents * degree % 2:
        raise ParameterError(
            f"topology.degree = {degree}: kind 'random-regular' needs agents * degree even, and {agents} * {degree} is "
            f"odd; take degree {degree - 1 or degree + 1} or one agent more"
        )
    if 2 * degree < agents:
        return nx.random_regular_graph(degree, agents, seed=seed)
    # The generator pairs stubs at random until none clash, which hardly ever ends for dense graphs; their complements
    # are regular and sparse.
    return nx.complement(nx.random_regular_graph(agents - 1 - degree, agents, seed=seed))


def _erdos_renyi(agents: int, seed: int, probability: Any) -> nx.Graph:
    return nx.fast_gnp_random_graph(agents, _probability(probability, zero=False), seed=seed)


def _watts_strogatz(agents: int, seed: int, degree: Any, probability: Any) -> nx.Graph:
    _integer("degree", degree, 2, agents - 1, f" (kind 'watts-strogatz' needs degree < agents = {agents})")
    if degree % 2:
        raise ParameterError(f"topology.degree = {degree}: must be even for kind 'watts-strogatz' (half on each side)")
    return nx.watts_strogatz_graph(agents, degree, _probability(probability, zero=True), seed=seed)


def _barabasi_albert(agents: int, seed: int, degree: Any) -> nx.Graph:
    """``degree`` is the number of edges that each new agent brings."""
    _integer("degree", degree, 1, agents - 1, f" (kind 'barabasi-albert' needs degree < agents = {agents})")
    return nx.barabasi_albert_graph(agents, degree, seed=seed)


def _random_geometric(agents: int, seed: int, radius: Any) -> nx.Graph:
    """Agents at random places of the unit square, neighbours where at most ``radius`` apart."""
    number = isinstance(radius, int | float) and not isinstance(radius, bool)
    if not number or not 0 < radius < math.inf:
        raise ParameterError(f"topology.radius = {radius!r}: must be above 0, in units of the square's side")
    return nx.random_geometric_graph(agents, radius, seed=seed)


def _more_degree(_: int) -> str:
    return "raise topology.degree"


def _more_probability(agents: int) -> str:
    likely = math.log(agents) / agents
    return f"raise topology.probability (connected graphs are likely above ln(agents)/agents = {likely:.3g})"


def _more_radius(agents: int) -> str:
    likely = math.sqrt(math.log(agents) / (math.pi * agents))
    return f"raise topology.radius (connected graphs are likely above sqrt(ln(agents)/(pi agents)) = {likely:.3g})"


@dataclass(frozen=True)
class _Family:
    make: Callable[..., nx.Graph]
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    advice: Callable[[int], str] = _more_degree
    random: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.needs + self.may


_FAMILIES = {
    "path": _Family(_path),
    "ring": _Family(_ring),
    "torus": _Family(_torus, may=("rows", "columns")),
    "complete": _Family(_complete),
    "star": _Family(_star),
    "random-regular": _Family(_random_regular, needs=("degree",), random=True),
    "erdos-renyi": _Family(_erdos_renyi, needs=("probability",), advice=_more_probability, random=True),
    "watts-strogatz": _Family(_watts_strogatz, needs=("degree", "probability"), random=True),
    "barabasi-albert": _Family(_barabasi_albert, needs=("degree",), random=True),
    "random-geometric": _Family(_random_geometric, needs=("radius",), advice=_more_radius, random=True),
}

KINDS = tuple(_FAMILIES)
"""The names that `build` knows."""

PARAMETERS = {kind: family.parameters for kind, family in _FAMILIES.items()}
"""What each kind takes; rows and columns of a torus may be left out, all others are needed."""
