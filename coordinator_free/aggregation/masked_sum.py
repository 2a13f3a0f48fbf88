"""Masked sums by flooding: all agents learn the sum of their vectors, and nothing else about them.

Three kinds of message, all of `width` numbers:

- once, the *key*: the agent's X25519 public key, and the weights and grid that it sums with;
- in each sum, the *masked* vector with the sealed shares of the agent's own seed, one for each neighbour;
- then the *reveal*: the agents that it takes to be present, namely those whose masked vectors it received, and for each
  neighbour its share of the own seed (present) or the pairwise seed (absent), never both.

Masked vectors and reveals are flooded, each with its origin; keys only reach neighbours.

Rules that hold here:
- Nothing is revealed where more than ``dropouts`` agents are absent: the noise of a sum is shared out for no more.
- A sum is that of one set of agents, rebuilt from the reveals that name exactly this set. An agent that has another set
  than the others, or too few reveals, or received a message in two forms, makes no sum. It stops only after it has
  revealed, so a neighbour that lies in the middle of a sum cannot make agents absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coordinator_free.aggregation import masking
from coordinator_free.aggregation.flood import Relay
from coordinator_free.aggregation.masking import MaskError
from coordinator_free.aggregation.pairing import KEY_HALVES, Pairing, are_whole, bytes_of, halves_of, words_of
from coordinator_free.release import FloatArray

SHARE_HALVES = masking.SEED_BYTES // 4


class MaskedSum:
    """One agent's part in sums of vectors of ``dimension`` numbers.

    ``steps`` are those of one flood; ``adjacent[i]`` are agent i's neighbours, ascending (the graph is public);
    ``agreement`` the public numbers that all must sum with; up to ``dropouts`` agents may be absent from a sum; ``run``
    is the run's id, None for runs that were dealt before masks belonged to a run and an edge.
    """

    def __init__(
        self,
        agent: int,
        steps: int,
        adjacent: Sequence[Sequence[int]],
        dimension: int,
        secret: bytes,
        agreement: Sequence[float],
        dropouts: int = 0,
        run: bytes | None = None,
    ) -> None:
        self._agent, self._adjacent, self._dimension, self._run = agent, adjacent, dimension, run
        self._secret = secret if run is None else masking.run_secret(secret, run, agent)
        self._neighbours = tuple(adjacent[agent])
        self._steps, self._dropouts = steps, dropouts
        self.width = width(dimension, adjacent, len(agreement))
        self._agreement = [float(number) for number in agreement]
        self._flood = Relay(agent, len(adjacent), self.width - 1)
        self._pairing = Pairing(agent, self._neighbours, self._secret, run)
        self.present: list[int] = []
        """The agents whose values are in the sum, ascending."""
        self._total = np.zeros(dimension, dtype=np.uint64)
        self._number = 0
        self._disputed: set[int] = set()
        """The agents whose masked vectors arrived in more than one form."""

    @property
    def rounds(self) -> int:
        """Messages of each agent in one sum."""
        return 2 * self._steps

    # -- keys, once -----------------------------------------------------------------------------------------------

    def send_key(self) -> FloatArray:
        """The message with this agent's public key, weights and grid, shape (width,)."""
        return np.append(0.0, self._padded(np.append(halves_of(self._pairing.public), self._agreement)))

    def receive_key(self, sender: int, message: FloatArray) -> None:
        """Agree with a neighbour; raises `MaskError` if it sums otherwise, or for a key that is not its own."""
        message = message[1:]
        theirs = message[KEY_HALVES : KEY_HALVES + len(self._agreement)]
        masking.check_agreement(self._agreement, theirs.tolist(), sender)
        self._pairing.agree(sender, bytes_of(message[:KEY_HALVES]))

    # -- one sum --------------------------------------------------------------------------------------------------

    def begin(self, number: int, values: FloatArray) -> None:
        """Start sum ``number``, from 0 up, each number once; ``values`` shape (dimension,)."""
        words = masking.to_words(values, len(self._adjacent))
        own = masking.own_seed(self._secret, number)
        pairs = self._pairing.seeds(number)
        hidden = masking.to_floats(masking.masked(words, self._agent, own, pairs))
        needed = masking.threshold(len(self._neighbours))
        parts = masking.shares(own, self._neighbours, needed, self._secret, number)
        boxes = [masking.sealed(parts[j], self._pairing.shared[j], self._agent, number) for j in self._neighbours]
        self._number, self.present, self._disputed = number, [], set()
        self._flood.begin(self._padded(np.concatenate([hidden, *map(halves_of, boxes)])))

    def send(self, step: int) -> FloatArray:
        """The message of ``step``; raises `MaskError` where too many are absent, before anything is revealed."""
        if step == self._steps:
            self._flood.begin(self._padded(self._reveal()))
        return self._flood.send()

    def receive(self, message: FloatArray) -> None:
        """Take a masked vector or a reveal that a neighbour passes on; one with other than 32-bit numbers is none."""
        if are_whole(message):
            self._flood.receive(message)

    def _add_up(self) -> None:
        self.present, self._disputed = self._flood.received, self._flood.disputed
        hidden = np.ascontiguousarray(self._flood.table[self.present, : 2 * self._dimension])
        self._total = masking.from_floats(hidden.reshape(-1)).reshape(len(hidden), -1).sum(axis=0, dtype=np.uint64)

    def _reveal(self) -> FloatArray:
        """Add up the received vectors, and reveal what takes the masks off exactly this sum."""
        self._add_up()
        agents = len(self._adjacent)
        if agents - len(self.present) > self._dropouts:
            raise MaskError(
                f"sum {self._number}: nothing from agents {sorted(set(range(agents)) - set(self.present))}, more than "
                f"privacy.dropouts = {self._dropouts}; nothing is revealed"
            )
        held, pairs = {}, {}
        for j in self._neighbours:
            if j in self.present:
                start = 2 * self._dimension + SHARE_HALVES * self._adjacent[j].index(self._agent)
                box = bytes_of(self._flood.table[j, start : start + SHARE_HALVES])
                held[j] = masking.sealed(box, self._pairing.shared[j], j, self._number)
            else:
                pairs[j] = masking.pair_seed(self._pairing.shared[j], self._number)
        holder = masking.Holder(held, pairs)
        seeds = [halves_of(holder.reveal(j, present=j in held)[1]) for j in self._neighbours]
        return np.concatenate([named(self.present, agents), *seeds])

    def result(self) -> FloatArray:
        """The sum of the values of all ``present``, on the grid, once all reveals are here; raises `MaskError`."""
        disputed = sorted(self._disputed | self._flood.disputed)
        if disputed:
            raise MaskError(
                f"sum {self._number}: messages of agents {disputed} came in more than one form; no sum is made"
            )
        own, dropped = self._opened()
        return masking.from_words(masking.unmasked(self._total, own.values(), dropped))

    def _opened(self) -> tuple[dict[int, bytes], dict[int, dict[int, bytes]]]:
        """The own seeds of those present, and the pairwise seeds of the others, as revealed for this set of agents."""
        flags = _flags(len(self._adjacent))
        mine = named(self.present, len(self._adjacent))
        table = self._flood.table
        agreeing = {j for j in self._flood.received if np.array_equal(table[j, :flags], mine)}
        revealed = words_of(table[:, flags : flags + SHARE_HALVES * max(map(len, self._adjacent))])
        own: dict[int, bytes] = {}
        dropped: dict[int, dict[int, bytes]] = {}
        for party, neighbours in enumerate(self._adjacent):
            seeds = {}
            for holder in neighbours:
                if holder in agreeing:
                    start = SHARE_HALVES * self._adjacent[holder].index(party)
                    seeds[holder] = revealed[holder, start : start + SHARE_HALVES].tobytes()
            if party in self.present:
                own[party] = masking.rebuilt(seeds, masking.threshold(len(neighbours)))
                continue
            silent = [holder for holder in neighbours if holder in self.present and holder not in seeds]
            if silent:
                raise MaskError(
                    f"sum {self._number}: agents {silent} did not reveal their masks with the absent agent {party}"
                )
            dropped[party] = {holder: seeds[holder] for holder in neighbours if holder in self.present}
        return own, dropped

    def overhear(
        self, masked: Iterable[tuple[int, FloatArray]], reveals: Iterable[tuple[int, FloatArray]]
    ) -> tuple[FloatArray, dict[int, FloatArray]]:
        """One sum, from all its (sender, message) pairs, for an observer without a key and without a part in it.

        The sum of all ``present``, and what is left of each one's vector, shape (dimension,), when every mask that was
        opened is taken off. Raises what `result` raises.
        """
        self._flood = Relay(self._agent, len(self._adjacent), self.width - 1)
        for _, message in masked:
            self.receive(message)
        self._add_up()
        hidden = np.ascontiguousarray(self._flood.table[:, : 2 * self._dimension])
        self._flood = Relay(self._agent, len(self._adjacent), self.width - 1)
        for _, message in reveals:
            self.receive(message)
        total = self.result()
        own, dropped = self._opened()
        left = {}
        for party in self.present:
            opened = {absent: {party: seeds[party]} for absent, seeds in dropped.items() if party in seeds}
            bare = masking.unmasked(masking.from_floats(hidden[party]), [own[party]], opened)
            left[party] = masking.from_words(bare)
        return total, left

    def _padded(self, message: FloatArray) -> FloatArray:
        padded = np.zeros(self.width - 1)
        padded[: message.size] = message
        return padded

    # -- state ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, FloatArray]:
        """The state after a message, for `restore`."""
        state = self._flood.snapshot() | {
            "total": masking.to_floats(self._total),
            "number": np.array([float(self._number)]),
            "present": np.array(self.present, dtype=np.float64),
            "disputed_masked": np.array(sorted(self._disputed), dtype=np.float64),
        }
        return state | self._pairing.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self._flood.restore(state)
        self._total = masking.from_floats(np.array(state["total"]))
        self._number = int(state["number"][0])
        self.present = [int(agent) for agent in state["present"]]
        self._disputed = {int(agent) for agent in state.get("disputed_masked", ())}
        self._pairing.restore(state)


def width(dimension: int, adjacent: Sequence[Sequence[int]], agreement: int) -> int:
    """Numbers in each message; the first is its origin."""
    shares = SHARE_HALVES * max(map(len, adjacent))
    return 1 + max(2 * dimension + shares, _flags(len(adjacent)) + shares, KEY_HALVES + agreement)


def _flags(agents: int) -> int:
    return -(-agents // 32)


def named(present: Sequence[int], agents: int) -> FloatArray:
    """A set of agents as 32-bit numbers, one bit for each agent."""
    words = np.zeros(_flags(agents))
    for agent in present:
        words[agent // 32] += 2.0 ** (agent % 32)
    return words
