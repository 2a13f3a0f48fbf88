"""What a run of averaging agents looks like, from public numbers alone: settings, shares, rounds, refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coordinator_free.agent import Halt, Setting
from coordinator_free.aggregation import flood, masked_sum, masked_tree, masking, tree
from coordinator_free.aggregation.push_sum import TOLERANCE, counts
from coordinator_free.privacy.observer import shared_deviation
from coordinator_free.release import FloatArray
from coordinator_free.settings import Count, NonNegative, Positive, SettingError, Settings, StepNumbers

if TYPE_CHECKING:
    from topology.network import Network

MASKED = ("masked-sum", "masked-tree")
"""Values of ``learning.aggregation`` that hide each agent's vector in the sum."""
MASKS = 2
"""How masks are derived in runs that are dealt now; 1, in older runs: without the run's id and both agents' keys."""


class AggregationError(SettingError, Halt):
    """Aggregation that cannot be run as asked, or cannot go on."""


@dataclass(frozen=True, kw_only=True)
class AggregatingSettings(Settings):
    """Of all algorithms that average without a server."""

    aggregation: Literal["flood", "push-sum", "tree", "masked-sum", "masked-tree"] = "flood"
    """How averages spread."""
    weighting: Literal["size", "equal"] = "size"
    """Of an average: by records, or equal."""
    step: Positive
    """Learning rate h; at most 2/L."""
    push_rounds: Count | None = None
    """Rounds of a push-sum, which needs them."""
    kappa: NonNegative | None = None
    """Weighs the free finish around the average. Default: evidence of the agent's own records weighs it."""

    def idle(self) -> Mapping[str, str]:
        if self.aggregation == "push-sum":
            return {}
        return {"push_rounds": 'only learning.aggregation = "push-sum" has them'}


@dataclass(frozen=True, kw_only=True)
class Observation(Settings):
    """For which observer epsilon holds, as ``[privacy]`` states."""

    observer: Literal["releases", "sum", "as_published"] = "releases"
    colluders: int = 0
    """Agents that share all that they know with an observer."""
    dropouts: int = 0
    """Agents that a masked sum may lose."""

    @property
    def missing(self) -> int:
        """Parts of a masked sum's noise that may be missing, or known to an observer."""
        return self.colluders + self.dropouts


@dataclass(frozen=True, kw_only=True)
class AggregatingNumbers(Observation, StepNumbers):
    """What `arranged` gives every agent besides."""

    sizes: Sequence[int]
    """Records of each agent."""
    schedule: Sequence[Any] = ()
    """Of a flood: which vectors each agent passes on in each round."""
    adjacent: Sequence[Sequence[int]] = ()
    """The neighbours of each agent; empty where sums go over a tree."""
    parents: Sequence[int] = ()
    """The parent of each agent, where sums go over a tree."""
    stage_rounds: int
    """Rounds that spread one average."""
    masks: int = 1
    """See `MASKS`."""

    @property
    def noisy(self) -> int:
        """Agents with a part in the noise of a sum."""
        return sum(size > 0 for size in self.sizes)

    def checked_step(self, step: float) -> float:
        """The step h; raises `AggregationError` where steps of that size can diverge."""
        if step * self.smoothness > 2.0:
            raise AggregationError(
                f"learning.step = {step}: needs a number above 0 and up to 2/L = {2.0 / self.smoothness:g}"
            )
        return step


def weights(sizes: Sequence[int], weighting: str) -> FloatArray:
    """The agents' shares in an average, shape (n,), adding up to 1: n_j/n, or equal among those with records."""
    counts = np.asarray(sizes, dtype=np.float64)
    if weighting == "equal":
        counts = (counts > 0).astype(np.float64)
    if not counts.sum() > 0:
        raise AggregationError("no agent has any records: there is nothing to average")
    shares: FloatArray = counts / counts.sum()
    return shares


def arranged(
    network: Network, sizes: Sequence[int], dimension: int, stages: int, learning: Mapping[str, Any]
) -> dict[str, Any]:
    """As `coordinator_free.algorithm.Algorithm.arranged`, for so many averages.

    Raises
    ------
    AggregationError, MaskError
        It cannot be run.
    """
    own = AggregatingSettings.of(learning)
    if own.aggregation in ("tree", "masked-tree"):
        return _over_a_tree(network, sizes, dimension, stages, own.aggregation, Observation.of(learning))
    adjacent = [[int(j) for j in network.neighbours(i)] for i in range(network.agents)]
    schedule, width, first, masks = [], dimension, 0, {}
    if own.aggregation == "push-sum":
        if own.push_rounds is None:
            raise AggregationError("learning.push_rounds is missing: push-sum needs 1 or more")
        rounds, width = own.push_rounds, dimension + 1
    elif own.aggregation == "flood":
        schedule = flood.schedule(network)
        rounds = len(schedule)
    else:
        rounds = 2 * _way_of_masks(network, adjacent, Observation.of(learning))
        width, first, masks = masked_sum.width(dimension, adjacent, 1 + network.agents), 1, {"masks": MASKS}
    return {
        "releases": first + stages * rounds,
        "release_dimension": width,
        "learning": {
            "sizes": [int(size) for size in sizes],
            "schedule": schedule,
            "adjacent": adjacent,
            "stage_rounds": rounds,
            **masks,
        },
    }


def _over_a_tree(
    network: Network, sizes: Sequence[int], dimension: int, stages: int, kind: str, asked: Observation
) -> dict[str, Any]:
    masked = kind == "masked-tree"
    if masked:
        masking.check_hidden(network.agents, _connectivity(network, asked.colluders + 1), asked.colluders)
    return {
        "releases": int(masked) + 2 * stages,
        "release_dimension": masked_tree.width(dimension) if masked else 2 * dimension,
        "learning": {
            "sizes": [int(size) for size in sizes],
            "parents": tree.spanning(network),
            "stage_rounds": 2,
            **({"masks": MASKS} if masked else {}),
        },
    }


def _connectivity(network: Network, enough: int) -> int:
    """How many agents must be removed to cut the graph; where they are at least ``enough``, 2 or more may be said as 2.

    The exact number takes a flow between many pairs of agents, so it is only worked out where it matters.
    """
    import networkx as nx

    if network.agents < 2:
        return 0
    graph = nx.Graph((i, j) for i, j, _ in network.edges)
    if not nx.is_biconnected(graph):
        return 1
    return 2 if enough <= 2 else int(nx.node_connectivity(graph))


def _way_of_masks(network: Network, adjacent: list[list[int]], asked: Observation) -> int:
    """Rounds in which everything of a masked sum gets everywhere, without those that it may lose."""
    import networkx as nx

    graph = nx.Graph([(i, j) for i, near in enumerate(adjacent) for j in near])
    connectivity = nx.node_connectivity(graph) if network.agents > 1 else 0
    degrees = [len(near) for near in adjacent]
    masking.check_graph(network.agents, degrees, connectivity, asked.colluders, asked.dropouts)
    return flood.enough(network.agents, connectivity, asked.missing) if asked.dropouts else len(flood.schedule(network))


def unequal(network: Network, own: AggregatingSettings) -> tuple[str, ...]:
    """The warning of a push-sum with too few rounds."""
    if own.aggregation != "push-sum" or own.push_rounds is None:
        return ()
    least, most, enough = counts(network, own.push_rounds)
    if max(1.0 - least, most - 1.0) <= TOLERANCE:
        return ()
    needed = f"{enough} rounds" if enough is not None else "a graph with more edges"
    return (
        f"learning.push_rounds = {own.push_rounds}: agents end with different averages, in which one agent's vector "
        f"counts {least:.2g} to {most:.2g} times as much as it should; {needed} would bring this within "
        f"{TOLERANCE:.0%}",
    )


def refuse(setting: Setting, kind: str, numbers: AggregatingNumbers) -> None:
    """Raise `AggregationError` or `ObserverError` for noise that the aggregation does not protect as asked."""
    if numbers.finish and not setting.problem.loss.convex:
        raise AggregationError(
            f'learning.finish = true: needs an exact minimiser, and learning.loss = "{setting.problem.loss.name}" is '
            "not convex"
        )
    if setting.mechanism == "none":
        return
    if numbers.observer == "sum" and kind not in MASKED:
        raise AggregationError(
            f'privacy.observer = "sum": with learning.aggregation = "{kind}" every release is seen; '
            'use "masked-sum" or "masked-tree", or observer = "releases"'
        )
    if kind not in MASKED:
        return
    if kind == "masked-tree" and numbers.dropouts:
        raise AggregationError(
            f"privacy.dropouts = {numbers.dropouts}: a sum over a tree needs all agents; accepted is 0, or "
            'learning.aggregation = "masked-sum"'
        )
    if numbers.observer != "sum":
        raise AggregationError(
            f'privacy.observer = "{numbers.observer}": a masked sum shows its sum alone; use observer = "sum"'
        )
    if setting.mechanism != "gaussian":
        raise AggregationError(f'privacy.mechanism = "{setting.mechanism}": the noise of a sum is "gaussian"')
    shared_deviation(1.0, numbers.noisy, numbers.missing)
