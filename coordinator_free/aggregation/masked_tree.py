"""Masked sums over a tree: each vector is hidden by masks that cancel in the sum, and nothing has to be opened.

Once each agent sends its *key* to its neighbours (as in `coordinator_free.aggregation.masked_sum`); then two messages
make one sum (`coordinator_free.aggregation.tree`): words modulo 2^64, as pairs of 32-bit numbers.

Rules that hold here:
- Every mask belongs to an edge of the graph, not only of the tree: both ends expand it from a seed of that sum alone,
  and one adds what the other subtracts. No seed is ever revealed, so no agent needs a mask of its own.
- So no agent may be absent: without one vector the masks of its edges stay in the sum, and nothing can be learned.
- What an observer has of an agent, its partial sum without those of its children, is uniform and independent of the
  agent's vector, as long as agents that pool what they know do not cut the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coordinator_free.aggregation import masking
from coordinator_free.aggregation.masking import MaskError, Words
from coordinator_free.aggregation.pairing import KEY_HALVES, Pairing, bytes_of, halves_of
from coordinator_free.aggregation.tree import ROOT, Place
from coordinator_free.release import FloatArray


class MaskedTree:
    """One agent's part in sums of vectors of ``dimension`` numbers.

    Parameters
    ----------
    agent, neighbours
        This agent, and its neighbours in the graph.
    parents
        The parent of each agent in the tree.
    dimension
        p.
    secret, run
        The agent's secret of this start, and the run's id.
    agreement
        The public numbers that all must sum with.
    """

    def __init__(
        self,
        agent: int,
        neighbours: Sequence[int],
        parents: Sequence[int],
        dimension: int,
        secret: bytes,
        run: bytes,
        agreement: Sequence[float],
    ) -> None:
        self.place = Place(agent, parents)
        self.width = width(dimension)
        self._agent, self._agents, self._dimension = agent, len(parents), dimension
        self._pairing = Pairing(agent, neighbours, masking.run_secret(secret, run, agent), run)
        self._agreement = halves_of(hashlib.sha256(np.array(agreement, dtype="<f8").tobytes()).digest())

    # -- keys, once -----------------------------------------------------------------------------------------------

    def send_key(self) -> FloatArray:
        """The message with this agent's public key, and the digest of its weights and grid, shape (width,)."""
        return self._padded(np.concatenate([halves_of(self._pairing.public), self._agreement]))

    def receive_key(self, sender: int, message: FloatArray) -> None:
        """Agree with a neighbour; raises `MaskError` if it sums otherwise, or for a key that is not its own."""
        if not np.array_equal(message[KEY_HALVES : 2 * KEY_HALVES], self._agreement):
            raise MaskError(f"agent {sender} sums with other weights or another grid than this agent; no sum is made")
        self._pairing.agree(sender, bytes_of(message[:KEY_HALVES]))

    @property
    def has_keys(self) -> bool:
        """Whether the keys of all neighbours are here."""
        return self._pairing.is_complete

    # -- one sum --------------------------------------------------------------------------------------------------

    def send_up(self, number: int, values: FloatArray) -> FloatArray:
        """The masked partial sum of sum ``number``, each number once; ``values`` shape (p,), the message (width,)."""
        words = masking.to_words(values, self._agents)
        total = masking.masked(words, self._agent, None, self._pairing.seeds(number))
        for part in self.place.parts():
            total = total + self._words(part)
        message = self._padded(masking.to_floats(total))
        self.place.added_up(message)
        return message

    def send_down(self) -> FloatArray:
        """The message with the sum, shape (width,)."""
        return self.place.total()

    @property
    def sum(self) -> FloatArray:
        """The sum of all agents' values, shape (p,), on the grid, once it is here."""
        return masking.from_words(self._words(self.place.total()))

    def _words(self, message: FloatArray) -> Words:
        return masking.from_floats(message[: 2 * self._dimension])

    def overhear(self, up: Mapping[int, FloatArray]) -> tuple[FloatArray, dict[int, FloatArray]]:
        """One sum, from all messages that go up, for an observer without a key.

        The sum, and what is left of each agent's vector, shape (p,), when its children's partial sums are taken off.
        Raises `MaskError` where a message is missing.
        """
        missing = sorted(set(range(self._agents)) - set(up))
        if missing:
            raise MaskError(f"nothing from agents {missing}")
        words = {agent: self._words(message) for agent, message in up.items()}
        root = self.place.parents.index(ROOT)
        total = masking.from_words(words[root])
        alone = dict(words)
        for agent, parent in enumerate(self.place.parents):
            if parent != ROOT:
                alone[parent] = alone[parent] - words[agent]
        return total, {agent: masking.from_words(left) for agent, left in alone.items()}

    def _padded(self, message: FloatArray) -> FloatArray:
        return np.append(message, np.zeros(self.width - message.size))

    # -- state ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, FloatArray]:
        """The state after a message, for `restore`."""
        return self.place.snapshot() | self._pairing.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self.place.restore(state)
        self._pairing.restore(state)


def width(dimension: int) -> int:
    """Numbers in each message."""
    return max(2 * dimension, 2 * KEY_HALVES)
