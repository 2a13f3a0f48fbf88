"""The weights of an agent's neighbours while some of them have not joined yet.

Until a neighbour that joins later has released, its edge is not in the objective: with P the neighbours in the run,
D_ii = sum_{j in P} W_ij, and the mixture is sum_{j in P} W_ij / D_ii Theta_j.

Rules that hold here:
- Which neighbours are present follows from the announced joins (public) and from the consumed releases alone. So a
  reader of what a release used knows its weights.
- Nothing that a charge rests on depends on which neighbours are present: the step a = 1 / (1 + mu c_i L) has no D_ii.
- Once all agents are present the weights are those of a network that was whole from the start, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coordinator_free.release import FloatArray


class Present:
    """The neighbours of one agent, by their place in ``neighbours``; ``absent`` are those that have yet to join.

    ``mixing`` (neighbours,) is W_ij / D_ii, 0 for an absent one; all 0 while none is present.
    """

    def __init__(self, weights: FloatArray, neighbours: Iterable[int], absent: Iterable[int]) -> None:
        self._weights = weights
        expected = set(absent)
        self._absent = frozenset(place for place, j in enumerate(neighbours) if j in expected)
        self.restart()

    def restart(self) -> None:
        """Nothing was received yet."""
        self._missing = set(self._absent)
        self._weigh()

    def arrived(self, place: int) -> None:
        """A release of the neighbour at ``place`` was consumed: from here on it is present."""
        if place in self._missing:
            self._missing.discard(place)
            self._weigh()

    def _weigh(self) -> None:
        weights = self._weights
        if self._missing:
            weights = np.array(weights)
            weights[list(self._missing)] = 0.0
        total = weights.sum()
        self.mixing: FloatArray = weights / total if total > 0 else np.zeros(len(weights))
