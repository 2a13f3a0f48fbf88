"""What spreads vectors, for each value of ``learning.aggregation``, and what an agent in a tree waits for."""

from __future__ import annotations

import math

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.averages.arrangement import MASKS, AggregatingNumbers, AggregationError
from coordinator_free.aggregation import masking
from coordinator_free.aggregation.flood import Flood
from coordinator_free.aggregation.masked_sum import MaskedSum
from coordinator_free.aggregation.masked_tree import MaskedTree
from coordinator_free.aggregation.push_sum import PushSum
from coordinator_free.aggregation.tree import Tree
from coordinator_free.release import FloatArray, Release

Aggregator = Flood | PushSum | Tree | MaskedSum | MaskedTree
LARGEST = 2.0**31
"""No number of a masked average without noise is larger; where masks do not cancel, nearly all are."""
TAIL = 64.0
"""No noise is longer, in deviations of the sum's noise."""


def aggregator_of(
    setting: Setting, kind: str, numbers: AggregatingNumbers, shares: FloatArray, dropouts: int
) -> Aggregator:
    """A fresh part of one agent in sums of ``kind``, with the agents' ``shares``, shape (n,)."""
    agent, dimension = setting.agent, setting.dimension
    if kind == "push-sum":
        return PushSum(setting.neighbours, dimension)
    if kind == "flood":
        return Flood(agent, numbers.schedule, dimension)
    if kind == "tree":
        return Tree(agent, numbers.parents, dimension)
    if not setting.secret:
        raise AggregationError("a masked sum needs each agent's secret")
    agreement, secret = [math.log2(masking.GRID), *shares.tolist()], setting.secret_of(0)
    if kind == "masked-tree":
        return MaskedTree(agent, setting.neighbours, numbers.parents, dimension, secret, setting.run, agreement)
    run = setting.run if numbers.masks >= MASKS else None
    steps = numbers.stage_rounds // 2
    return MaskedSum(agent, steps, numbers.adjacent, dimension, secret, agreement, dropouts, run)


def absorb(aggregator: PushSum, agents: int) -> None:
    """Take in shares; raises `AggregationError` for a weight that shares of honest agents cannot add up to.

    Among agents without records a weight stays zero until shares of the others arrive.
    """
    aggregator.absorb()
    weight = float(aggregator.held[-1])
    if not (np.isfinite(aggregator.held).all() and 0.0 <= weight <= agents * (1.0 + 1e-6)):
        raise AggregationError(
            f"push-sum has a weight of {weight:g}, accepted are 0 to {agents}: a neighbour's sums are not those of "
            "shares; no average is made"
        )


def bounded(stage: int, average: FloatArray, bound: float) -> FloatArray:
    """The average of a masked sum; raises `AggregationError` where a number is above ``bound``."""
    if not (np.abs(average) <= bound).all():
        raise AggregationError(
            f"average {stage} has a number above {bound:g}, more than honest agents can make: masks do not fit, or "
            "a neighbour changed a vector; the average is not used"
        )
    return average


class Gathering:
    """The rounds of an agent in a tree: two of each sum, after one for keys where sums are masked.

    An agent sends its message of a round once the messages of the *same* round that it waits for are here. The round of
    keys is the exception: each agent sends its key first, and then waits for those of all neighbours.
    """

    def __init__(self, aggregator: Tree | MaskedTree, neighbours: tuple[int, ...]) -> None:
        self._aggregator, self._neighbours = aggregator, neighbours
        self._first = int(isinstance(aggregator, MaskedTree))

    def awaited(self, round_: int) -> tuple[int, ...]:
        """The neighbours whose releases of a round the agent waits for."""
        if round_ < self._first:
            return self._neighbours
        return self._aggregator.place.awaited((round_ - self._first) % 2)

    def receive(self, release: Release, following: int) -> bool:
        """Take a release, where ``following`` is the agent's next round; False: it is not waited for."""
        aggregator, round_ = self._aggregator, release.round
        keys = isinstance(aggregator, MaskedTree) and round_ == 0 and following == 1
        if (not keys and round_ != following) or release.sender not in self.awaited(round_ or 0):
            return False
        if isinstance(aggregator, MaskedTree) and round_ == 0:
            aggregator.receive_key(release.sender, release.vector)
        else:
            aggregator.place.receive((following - self._first) % 2, release.sender, release.vector)
        return True

    def is_complete(self, round_: int) -> bool:
        """Whether the agent can send its message of a round."""
        aggregator = self._aggregator
        if isinstance(aggregator, MaskedTree) and not aggregator.has_keys:
            return False
        return aggregator.place.is_here((round_ - self._first) % 2)
