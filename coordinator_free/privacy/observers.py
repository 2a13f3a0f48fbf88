"""Epsilon towards an observer that receives only the releases of its own neighbours: pairwise network privacy.

The promise holds against an observer of all releases. Where links have keys, an agent receives only what its
neighbours release, so the noise of the others hides an agent that is further away (Cyffers, Even, Bellet and Massoulie,
*Muffliato*, 2022). What is computed here is exact for a linear surrogate of the run: no promise about the run itself.

Rules that hold here:
- The surrogate: every agent wakes once a round. Its release is a linear map of the last releases
  (`Releasing.surrogate`) plus Gaussian noise plus, for the agent that is looked at, a shift as long as the sensitivity.
  The observer knows its own records and noise, the graph, and all records but one of the agent that it looks at.
- What it receives is then Gaussian, with the same covariance with and without the shift. Its mu is the length of the
  shift of the innovations of a Kalman filter, in their deviations; several rounds add up exactly.
- Two ways in which a replaced record may pull are looked at: always the same way, and the other way in each round. Two
  curvatures of the losses as well: none, and the public smoothness. A figure is the largest of the four.
- No colluding, and no agent reads the links of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import FloatArray
from topology.distance import depths
from topology.network import Network

ASSUMES: Final = (
    "each link is read by its two ends only, and only the operator reads the eavesdropper's log",
    "no agents pool what they received",
    "the update is linear: a loss without curvature (flat) or with the public smoothness everywhere (steep), unclipped",
    "every agent wakes once a round",
    "a replaced record pulls each gradient the same way (flat, steep), or the other way in each round (changing pull)",
)
"""What the figures rest on, in words."""
CURVATURES: Final = (0.0, 1.0)
"""Of the surrogate's losses, as shares of their smoothness."""
FARTHEST: Final = 4
"""Agents at this many hops and more are taken together."""
MOST_OBSERVERS: Final = 16
_WORK: Final = 1e9
"""Multiplications that the filters of all observers may take, about: large networks have fewer observers looked at."""
_SINGULAR: Final = 1e-12
"""Share of the largest variance below which an innovation has none: the observer knew it before."""


class Releasing(Protocol):
    """What is needed of an agent's code."""

    def charge(self, index: int) -> Mechanism | None:
        """What the release ``index`` is charged."""

    def surrogate(self, curvature: float) -> tuple[float, FloatArray] | None:
        """Weights of its own last release and of its neighbours' in the next one; None: its update is not linear."""


@dataclass(frozen=True)
class Distance:
    """Epsilon of agents at ``hops`` hops towards the observers that were looked at, over ``pairs`` of both.

    Ranges (least, largest) for a record that pulls always the same way where the losses are ``flat`` and where they are
    ``steep`` (`CURVATURES`), and for one that pulls the other way in each round (``changing``, the larger of both
    curvatures). ``epsilon`` is the largest of all.
    """

    hops: int
    pairs: int
    flat: tuple[float, float]
    steep: tuple[float, float]
    changing: tuple[float, float]
    epsilon: float


@dataclass(frozen=True)
class View:
    """Epsilon towards single observers: ``of`` has shape (observers, agents).

    NaN for the observer itself, and for agents that release nothing of their records.
    """

    observers: tuple[int, ...]
    of: FloatArray
    distances: tuple[Distance, ...]


class NoSurrogate(ValueError):
    """Why a run has no figure for such observers; one line."""


@dataclass(frozen=True, eq=False)
class Surrogate:
    """``update`` (n, n); ``scales`` and ``shifts`` (T, n) of each release, 0 where it has no noise."""

    update: sparse.csr_array
    scales: FloatArray
    shifts: FloatArray


def view(
    agents: Sequence[Releasing], releases: int, network: Network, delta: float, observers: Sequence[int] = ()
) -> View:
    """Epsilon of every agent towards single observers.

    Parameters
    ----------
    agents
        The code of each, in order.
    releases
        Of an agent; those that release less (an agent that opts out) release nothing.
    network
        The links: each agent receives the releases of its neighbours.
    delta
        Where epsilon is read off.
    observers
        Those to look at; none: up to `MOST_OBSERVERS`, fewer in a large network, from the least neighbours to the most.

    Raises
    ------
    NoSurrogate
        The algorithm's update is not linear, or its noise is not Gaussian.
    """
    chosen = tuple(observers) or _sample(network, releases)
    kinds = [surrogate_of(agents, releases, network, curvature) for curvature in CURVATURES]
    figures = np.full((len(chosen), 3, network.agents), np.nan)  # flat, steep, changing
    for place, observer in enumerate(chosen):
        flat, steep = (seen_by(observer, network.neighbours(observer), kind) for kind in kinds)
        mus = (flat[0], steep[0], np.maximum(flat[1], steep[1]))
        figures[place] = [[gaussian_epsilon(float(mu), delta) for mu in row] for row in mus]
        figures[place, :, observer] = np.nan
    figures[:, :, ~kinds[0].shifts.any(axis=0)] = np.nan  # nothing of their records is released
    hops = np.stack([np.minimum(depths(network.weights, observer), FARTHEST) for observer in chosen])
    return View(chosen, figures.max(axis=1), _distances(figures, hops))


def seen_by(observer: int, heard: Sequence[int], surrogate: Surrogate) -> FloatArray:
    """GDP mu of every agent towards one observer that receives the releases of ``heard``, shape (2, n).

    Of a record that pulls always the same way, and of one that pulls the other way in each round.
    """
    n = surrogate.update.shape[0]
    update, heard = surrogate.update, list(heard)
    covariance, squares = np.zeros((n, n)), np.zeros((2, n))
    responses = np.zeros((n, 2 * n))  # of the estimate's error to a steady and to a changing shift of each agent
    for k, (scale, shift) in enumerate(zip(surrogate.scales, surrogate.shifts, strict=True)):
        covariance = update @ (update @ covariance).T
        variance = np.square(scale)
        variance[observer] = 0.0  # it knows its own noise
        covariance[np.diag_indices(n)] += variance
        responses = update @ responses
        responses[np.arange(n), np.arange(n)] += shift
        responses[np.arange(n), np.arange(n) + n] += (-1.0) ** k * shift
        whiten = _whitening(covariance[np.ix_(heard, heard)])
        innovation = whiten @ responses[heard]
        squares += np.square(innovation).sum(axis=0).reshape(2, n)
        gain = covariance[:, heard] @ whiten.T
        responses -= gain @ innovation
        covariance -= gain @ gain.T
    return np.sqrt(squares)


def _whitening(covariance: FloatArray) -> FloatArray:
    """W with W C W^T = 1 on what has a variance, shape (rank, n)."""
    values, vectors = np.linalg.eigh(covariance)
    there = values > _SINGULAR * max(float(values[-1]), 0.0)
    return np.asarray((vectors[:, there] / np.sqrt(values[there])).T)


def surrogate_of(agents: Sequence[Releasing], releases: int, network: Network, curvature: float) -> Surrogate:
    """The linear map of a run; raises `NoSurrogate` where there is none."""
    n = network.agents
    scales, shifts = np.zeros((releases, n)), np.zeros((releases, n))
    rows, columns, weights = [], [], []
    for agent, code in enumerate(agents):
        linear = code.surrogate(curvature)
        if linear is None:
            raise NoSurrogate("its update has no linear surrogate; coordinate descent has one")
        charged = [code.charge(index) for index in range(releases)]
        if any(mechanism is not None and mechanism.name != "gaussian" for mechanism in charged):
            raise NoSurrogate("it is given for Gaussian noise only")
        scales[:, agent] = [0.0 if mechanism is None else mechanism.scale for mechanism in charged]
        shifts[:, agent] = [0.0 if mechanism is None else mechanism.sensitivity for mechanism in charged]
        own, others = linear
        neighbours = network.neighbours(agent)
        rows += [agent] * (1 + len(neighbours))
        columns += [agent, *neighbours]
        weights += [own, *others.tolist()]
    return Surrogate(sparse.csr_array((weights, (rows, columns)), shape=(n, n)), scales, shifts)


def _sample(network: Network, releases: int) -> tuple[int, ...]:
    """Some agents, from the fewest neighbours to the most."""
    n = network.agents
    each = 12.0 * n * n * releases * float(network.degree_counts.mean() + 1.0)
    many = int(min(n, MOST_OBSERVERS, max(2.0, _WORK * len(CURVATURES) / each)))
    order = np.argsort(network.degree_counts, kind="stable")
    return tuple(sorted(int(order[place]) for place in np.linspace(0, n - 1, many).round().astype(int)))


def _distances(figures: FloatArray, hops: npt.NDArray[np.integer]) -> tuple[Distance, ...]:
    found = []
    there = ~np.isnan(figures[:, 0])
    for hop in np.unique(hops[there]).tolist():
        flat, steep, changing = (figures[:, kind][there & (hops == hop)] for kind in range(3))
        found.append(
            Distance(
                hops=hop,
                pairs=flat.size,
                flat=_range(flat),
                steep=_range(steep),
                changing=_range(changing),
                epsilon=float(max(flat.max(), steep.max(), changing.max())),
            )
        )
    return tuple(found)


def _range(figures: FloatArray) -> tuple[float, float]:
    return float(figures.min()), float(figures.max())
