"""A tree: partial sums go up to its root, and the sum comes down again. Two messages of each agent make one sum.

Rules that hold here:
- Every agent derives the same spanning tree from the public graph (`spanning`), and no agent chooses the root: it is a
  centre of the graph, so that the tree is as low as can be.
- An agent sends its partial sum once those of all its children are here, and the sum once its parent sent it. It waits
  for these alone, so a sum takes as many steps as the tree is high, up and down.
- Partial sums are added in agent order, so that they can be executed again to the last bit.
- A partial sum beside those of the children is the agent's own vector: a tree hides nothing (`Tree`), unless masks that
  cancel in the sum hide it (`coordinator_free.aggregation.masked_tree`).

What a tree rests on: each agent that has children adds honestly. Flooded vectors are compared where they arrive twice;
here a changed sum shows only to an observer that knows all messages, or executes the run again.

References
----------
Segall (1983), *Distributed network protocols*: propagation of information with feedback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.release import FloatArray

if TYPE_CHECKING:
    from topology.network import Network

UP, DOWN = 0, 1
"""The two steps of a sum."""
ROOT = -1
"""In the place of the root's parent."""


def spanning(network: Network) -> list[int]:
    """The parent of each agent in a spanning tree of least height; `ROOT` for the root.

    A parent is the lowest neighbour that is one hop nearer to the root.
    """
    from topology import distance  # with scipy, which settings do without

    hops = distance.depths(network.weights, distance.centre(network.weights))
    return [
        next((j for j in network.neighbours(i) if hops[j] < hops[i]), ROOT) if hops[i] else ROOT
        for i in range(network.agents)
    ]


@dataclass
class Place:
    """One agent's place in the tree, and what arrived there of the present sum."""

    agent: int
    parents: Sequence[int]
    children: tuple[int, ...] = field(init=False)
    parent: int = field(init=False)
    _parts: dict[int, FloatArray] = field(default_factory=dict)
    _sum: FloatArray | None = None

    def __post_init__(self) -> None:
        self.parent = self.parents[self.agent]
        self.children = tuple(j for j, parent in enumerate(self.parents) if parent == self.agent)

    def awaited(self, step: int) -> tuple[int, ...]:
        """The agents whose messages of a step this agent needs before it sends its own message of it."""
        return self.children if step == UP else () if self.parent == ROOT else (self.parent,)

    def receive(self, step: int, sender: int, vector: FloatArray) -> None:
        """Take the message of a step from an agent in `awaited`."""
        if step == UP:
            self._parts[sender] = vector
        else:
            self._sum = vector

    def is_here(self, step: int) -> bool:
        """Whether all messages in `awaited` are here."""
        return len(self._parts) == len(self.children) if step == UP else self._sum is not None

    def parts(self) -> list[FloatArray]:
        """The children's messages, in agent order; they are forgotten here."""
        found = [self._parts[j] for j in self.children]
        self._parts.clear()
        self._sum = None
        return found

    def total(self) -> FloatArray:
        """The message with the sum that the parent sent, or that the root made."""
        if self._sum is None:
            raise ValueError(f"agent {self.agent}: the sum is not here")
        return self._sum

    def added_up(self, total: FloatArray) -> None:
        """Keep the message with the sum, if this is the root's place."""
        if self.parent == ROOT:
            self._sum = total

    def snapshot(self) -> dict[str, FloatArray]:
        """The state after a message, for `restore`: the root keeps the sum that it is about to send."""
        return {} if self._sum is None else {"sum": self._sum.copy()}

    def restore(self, state: Mapping[str, FloatArray]) -> None:
        """Go on from a snapshot."""
        self._parts.clear()
        self._sum = np.array(state["sum"]) if "sum" in state else None


class Tree:
    """One agent's part in weighted sums of vectors of ``dimension`` numbers.

    A message holds two vectors: going up the agent's own and its partial sum, coming down zeros and the sum. So an
    observer finds in it what was charged, and can check the addition.
    """

    def __init__(self, agent: int, parents: Sequence[int], dimension: int) -> None:
        self.place = Place(agent, parents)
        self._dimension = dimension

    def send_up(self, share: float, vector: FloatArray) -> FloatArray:
        """The agent's own ``vector``, shape (p,), and the partial sum with ``share`` of it; shape (2p,)."""
        partial = share * vector
        for part in self.place.parts():
            partial = partial + part[self._dimension :]
        self.place.added_up(np.concatenate([np.zeros(self._dimension), partial]))
        return np.concatenate([vector, partial])

    def send_down(self) -> FloatArray:
        """The message with the sum, shape (2p,)."""
        return np.concatenate([np.zeros(self._dimension), self.average])

    @property
    def average(self) -> FloatArray:
        """The weighted sum of all agents' vectors, shape (p,), once it is here."""
        return self.place.total()[self._dimension :]

    def snapshot(self) -> dict[str, FloatArray]:
        """The state after a message, for `restore`."""
        return self.place.snapshot()

    def restore(self, state: Mapping[str, FloatArray]) -> None:
        """Go on from a snapshot."""
        self.place.restore(state)


def own(message: FloatArray) -> FloatArray:
    """The sender's own vector, shape (p,), in a message that goes up."""
    return message[: message.size // 2]
