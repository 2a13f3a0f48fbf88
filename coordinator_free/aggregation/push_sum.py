"""Push-sum: the weighted average of all agents by ratios (Kempe, Dobra and Gehrke 2003), with loss detected.

Each agent holds (s, w), at first (weight * value, weight). In a step it splits both into degree + 1 equal shares, keeps
one and gives one to each neighbour; s/w tends to the weighted average.

Rules that hold here:
- A message holds the *cumulative sum* of the shares that its sender has given away so far to each neighbour, not the
  last share. A lost message is then made good by the next one that arrives, and no mass is ever lost, only late.
- The first message holds the agent's own vector, scaled by public numbers: push-sum hides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from coordinator_free.privacy.mechanism import GRID
from coordinator_free.release import FloatArray

if TYPE_CHECKING:
    from scipy import sparse

    from topology.network import Network

TOLERANCE: Final = 0.01
"""An average in which each vector counts within this part of its due is taken for right."""
_SOURCES: Final = 64
_MOST_ROUNDS: Final = 10_000


class PushSum:
    """One agent's part. ``neighbours`` ascending; vectors of ``dimension`` numbers."""

    def __init__(self, neighbours: Sequence[int], dimension: int) -> None:
        self._place = {j: k for k, j in enumerate(neighbours)}
        self._parts = len(neighbours) + 1
        self._dimension = dimension
        self.begin(np.zeros(dimension), 1.0)

    def begin(self, total: FloatArray, weight: float) -> None:
        """Start from s = ``total``, w = ``weight``."""
        self._held = np.append(total, weight)
        self._given = np.zeros(self._dimension + 1)
        self._counted = np.zeros((len(self._place), self._dimension + 1))
        self._newest = np.array(self._counted)

    def send(self) -> FloatArray:
        """Give the shares of one step; the message is all that was given so far, shape (dimension + 1,)."""
        share = self._held / self._parts
        self._held = share
        self._given = self._given + share
        return np.array(self._given)

    def receive(self, sender: int, given: FloatArray) -> None:
        """Take a neighbour's cumulative sum, shape (dimension + 1,); never one older than its newest."""
        self._newest[self._place[sender]] = given

    def absorb(self) -> None:
        """Take in what came since the last step, in agent order."""
        self._held = self._held + (self._newest - self._counted).sum(axis=0)
        self._counted[:] = self._newest

    @property
    def held(self) -> FloatArray:
        """(s, w), shape (dimension + 1,)."""
        return self._held

    @property
    def ratio(self) -> FloatArray:
        """The agent's estimate of the weighted average, shape (dimension,)."""
        ratio: FloatArray = self._held[:-1] / self._held[-1]
        return ratio

    def snapshot(self) -> dict[str, FloatArray]:
        """The state after a message, for `restore`."""
        return {
            "held": self._held.copy(),
            "given": self._given.copy(),
            "counted": self._counted.copy(),
            "newest": self._newest.copy(),
        }

    def restore(self, state: Mapping[str, FloatArray]) -> None:
        """Go on from a snapshot."""
        self._held, self._given = np.array(state["held"]), np.array(state["given"])
        self._counted = np.array(state["counted"]).reshape(self._counted.shape)
        self._newest = np.array(state["newest"]).reshape(self._counted.shape)


def opened(message: FloatArray) -> FloatArray:
    """The vector that a stage's first message, shape (dimension + 1,), holds a share of, back on the public grid."""
    vector: FloatArray = np.rint(message[:-1] / message[-1] / GRID) * GRID + 0.0
    return vector


def counts(network: Network, rounds: int) -> tuple[float, float, int | None]:
    """How unevenly the vectors count in the agents' averages after ``rounds`` without losses.

    All agents have the same weight. In graphs of more than 64 agents the vectors of 64 of them are followed.

    Returns
    -------
    tuple
        The least and the most that an agent's vector counts in another agent's average, where 1 is its due; and the
        number of rounds after which all are within `TOLERANCE` of it, None if that is over 10,000.
    """
    n = network.agents
    sources = np.unique(np.linspace(0, n - 1, min(n, _SOURCES)).astype(np.intp))
    # The last column is the weight; divided by n, so that the due of each vector is 1.
    held = np.hstack([np.eye(n)[:, sources], np.full((n, 1), 1.0 / n)])
    step = _step(network)
    for taken in range(rounds):
        held = step @ held
        # Each average is a mixture of those before it, so none moves away from its due again.
        if taken % 64 == 0 and _off(held) <= TOLERANCE:
            break
    counted = held[:, :-1] / held[:, -1:]
    least, most, enough = float(counted.min()), float(counted.max()), rounds
    held = held[:, [int(np.abs(counted - 1.0).max(axis=0).argmax()), -1]]
    while _off(held) > TOLERANCE:
        if enough >= _MOST_ROUNDS:
            return least, most, None
        held, enough = step @ held, enough + 1
    return least, most, enough


def _off(held: FloatArray) -> float:
    return float(np.abs(held[:, :-1] / held[:, -1:] - 1.0).max())


def _step(network: Network) -> sparse.csr_array:
    """What is held after one step by what is held before, shape (n, n): each keeps one share, and gives the others."""
    from scipy import sparse

    linked = network.weights.astype(bool).astype(np.float64) + sparse.eye_array(network.agents)
    return sparse.csr_array(linked @ sparse.diags_array(1.0 / (network.degree_counts + 1.0)))
