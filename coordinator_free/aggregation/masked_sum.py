"""Masked sums by flooding: everybody learns the sum of all agents' vectors, and nobody anything else of them.

Three kinds of message, all of `width` numbers:

- once, the *key*: the agent's X25519 public key, and the weights and grid that it sums with;
- in each sum, the *masked* vector with the sealed shares of the agent's own seed, one for each neighbour;
- then the *reveal*: the agent's shares of its neighbours' own seeds, all of whom it heard.

Masked vectors and reveals are flooded; keys only reach neighbours. A round is complete when all of it was heard, so
here nobody is ever absent; `coordinator_free.masking` says what is revealed of one who is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coordinator_free import masking
from coordinator_free.aggregation.flood import Flood
from coordinator_free.masking import MaskError
from coordinator_free.release import FloatArray

KEY_HALVES = 8
SHARE_HALVES = masking.SEED_BYTES // 4


class MaskedSum:
    """One agent's part in sums of vectors of ``dimension`` numbers.

    ``steps`` is the flooding schedule; ``adjacent[i]`` are agent i's neighbours, ascending (the graph is public);
    ``agreement`` the public numbers that all must sum with.
    """

    def __init__(
        self,
        agent: int,
        steps: Sequence[Sequence[int]],
        adjacent: Sequence[Sequence[int]],
        dimension: int,
        secret: bytes,
        agreement: Sequence[float],
    ) -> None:
        self._agent, self._adjacent, self._dimension, self._secret = agent, adjacent, dimension, secret
        self._neighbours = tuple(adjacent[agent])
        self.width = width(dimension, max(map(len, adjacent)), len(agreement))
        self._agreement = [float(number) for number in agreement]
        self._flood = Flood(agent, steps, self.width)
        self._private = masking.derived(secret, "x25519")
        self._shared: dict[int, bytes] = {}
        self._sealed: dict[int, bytes] = {}
        self._total = np.zeros(dimension, dtype=np.uint64)
        self._number = 0

    @property
    def rounds(self) -> int:
        """Messages of each agent in one sum."""
        return 2 * self._flood.rounds

    # -- keys, once -----------------------------------------------------------------------------------------------

    def say_key(self) -> FloatArray:
        key = masking.public_key(self._private)
        return self._padded(np.append(np.frombuffer(key, dtype="<u4").astype(np.float64), self._agreement))

    def hear_key(self, sender: int, message: FloatArray) -> None:
        """Agree with a neighbour; raises `MaskError` if it sums otherwise."""
        theirs = message[KEY_HALVES : KEY_HALVES + len(self._agreement)]
        masking.check_agreement(self._agreement, theirs.tolist(), sender)
        key = message[:KEY_HALVES].astype("<u4").tobytes()
        self._shared[sender] = masking.agreed(self._private, key)

    # -- one sum --------------------------------------------------------------------------------------------------

    def begin(self, number: int, values: FloatArray) -> None:
        """Start sum ``number``, from 0 up, each number once; ``values`` shape (dimension,)."""
        words = masking.to_words(values, len(self._adjacent))
        own = masking.own_seed(self._secret, number)
        pairs = {j: masking.pair_seed(self._shared[j], number) for j in self._neighbours}
        hidden = masking.to_floats(masking.masked(words, self._agent, own, pairs))
        needed = masking.threshold(len(self._neighbours))
        parts = masking.shares(own, self._neighbours, needed, self._secret, number)
        boxes = [masking.sealed(parts[j], self._shared[j], self._agent, number) for j in self._neighbours]
        self._number, self._sealed = number, {}
        self._flood.begin(self._padded(np.concatenate([hidden, *map(_halves, boxes)])))

    def say(self, step: int) -> FloatArray:
        if step == self._flood.rounds:
            self._add_up()
            self._flood.begin(self._padded(self._reveal()))
        return self._flood.say(step % self._flood.rounds)

    def hear(self, step: int, sender: int, message: FloatArray) -> None:
        self._flood.hear(step % self._flood.rounds, sender, message)

    def _add_up(self) -> None:
        hidden = np.ascontiguousarray(self._flood.table[:, : 2 * self._dimension])
        self._total = masking.from_floats(hidden.reshape(-1)).reshape(len(hidden), -1).sum(axis=0, dtype=np.uint64)
        for j in self._neighbours:
            place = self._adjacent[j].index(self._agent)
            start = 2 * self._dimension + SHARE_HALVES * place
            self._sealed[j] = _bytes(self._flood.table[j, start : start + SHARE_HALVES])

    def _reveal(self) -> FloatArray:
        held = {j: masking.sealed(box, self._shared[j], j, self._number) for j, box in self._sealed.items()}
        holder = masking.Holder(held, {})
        return np.concatenate([_halves(holder.reveal(j, present=True)[1]) for j in self._neighbours])

    def result(self) -> FloatArray:
        """The sum of everybody's values, on the grid, once all was heard."""
        boxes = _words(self._flood.table[:, : SHARE_HALVES * max(map(len, self._adjacent))])
        seeds = []
        for party, neighbours in enumerate(self._adjacent):
            held = {}
            for holder in neighbours:
                start = SHARE_HALVES * self._adjacent[holder].index(party)
                held[holder] = boxes[holder, start : start + SHARE_HALVES].tobytes()
            seeds.append(masking.rebuilt(held, masking.threshold(len(neighbours))))
        return masking.from_words(masking.unmasked(self._total, seeds, {}))

    def _padded(self, message: FloatArray) -> FloatArray:
        padded = np.zeros(self.width)
        padded[: message.size] = message
        return padded

    # -- state ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, FloatArray]:
        state = self._flood.snapshot() | {
            "total": masking.to_floats(self._total),
            "number": np.array([float(self._number)]),
        }
        if self._shared:
            state["shared"] = np.concatenate([_halves(self._shared[j]) for j in self._neighbours])
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        self._flood.restore(state)
        self._total = masking.from_floats(np.array(state["total"]))
        self._number = int(state["number"][0])
        self._shared, self._sealed = {}, {}
        if "shared" in state:
            keys = np.array(state["shared"]).reshape(len(self._neighbours), -1)
            self._shared = {j: _bytes(keys[k]) for k, j in enumerate(self._neighbours)}


def width(dimension: int, most_neighbours: int, agreement: int) -> int:
    """Numbers in each message."""
    return max(2 * dimension + SHARE_HALVES * most_neighbours, KEY_HALVES + agreement)


def _halves(data: bytes) -> FloatArray:
    return np.frombuffer(data, dtype="<u4").astype(np.float64)


def _bytes(halves: FloatArray) -> bytes:
    return _words(halves).tobytes()


def _words(halves: FloatArray) -> npt.NDArray[np.uint32]:
    whole = (halves >= 0) & (halves < 2.0**32) & (halves == np.floor(halves))
    if not whole.all():
        raise MaskError("a share or a key holds something that is not a 32-bit number")
    return halves.astype("<u4")
