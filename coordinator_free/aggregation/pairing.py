"""What two neighbours agree on once, before masked sums: the secret from which their edge's seeds are derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coordinator_free.aggregation import masking
from coordinator_free.aggregation.masking import MaskError
from coordinator_free.release import FloatArray

KEY_HALVES = 8
"""Numbers of 32 bits in a public key."""


class Pairing:
    """One agent's key pair, and what it agrees on with each neighbour.

    Parameters
    ----------
    agent, neighbours
        This agent, and its neighbours in the graph.
    secret
        What its private key is derived from.
    run
        The run's id; None for runs that were dealt before masks belonged to a run and an edge.
    """

    def __init__(self, agent: int, neighbours: Sequence[int], secret: bytes, run: bytes | None) -> None:
        self._agent, self._neighbours, self._run = agent, tuple(neighbours), run
        self._private = masking.derived(secret, "x25519")
        self._public = b""
        self._keys: dict[int, bytes] = {}
        """The neighbours' public keys, while the round of keys lasts."""
        self.shared: dict[int, bytes] = {}
        """What the seeds of each edge are derived from, by neighbour."""

    @property
    def public(self) -> bytes:
        """The agent's public key."""
        self._public = self._public or masking.public_key(self._private)
        return self._public

    def agree(self, sender: int, key: bytes) -> None:
        """Agree with a neighbour on its public key; raises `MaskError` for one that is not its own."""
        masking.check_key(key, sender, {self._agent: self.public, **self._keys})
        shared = masking.agreed(self._private, key)
        self._keys[sender] = key
        if self._run is not None:
            shared = masking.edge_secret(shared, self._run, {self._agent: self.public, sender: key})
        self.shared[sender] = shared

    @property
    def is_complete(self) -> bool:
        """Whether the keys of all neighbours are here."""
        return len(self.shared) == len(self._neighbours)

    def seeds(self, number: int) -> dict[int, bytes]:
        """The seed of each edge in sum ``number``, by neighbour."""
        return {j: masking.pair_seed(self.shared[j], number) for j in self._neighbours}

    def snapshot(self) -> dict[str, FloatArray]:
        """What was agreed on, for `restore`; empty before."""
        if not self.shared:
            return {}
        return {"shared": np.concatenate([halves_of(self.shared[j]) for j in self._neighbours])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self._keys, self.shared = {}, {}
        if "shared" in state:
            keys = np.array(state["shared"]).reshape(len(self._neighbours), -1)
            self.shared = {j: bytes_of(keys[k]) for k, j in enumerate(self._neighbours)}


def halves_of(data: bytes) -> FloatArray:
    """Bytes as numbers of 32 bits, which a release's body can carry."""
    return np.frombuffer(data, dtype="<u4").astype(np.float64)


def bytes_of(halves: FloatArray) -> bytes:
    """Reads `halves_of` back; raises `MaskError` for anything else."""
    return words_of(halves).tobytes()


def words_of(halves: FloatArray) -> npt.NDArray[np.uint32]:
    """The same, as numbers of 32 bits."""
    if not are_whole(halves):
        raise MaskError("a share or a key holds something that is not a 32-bit number")
    return halves.astype("<u4")


def are_whole(halves: FloatArray) -> bool:
    """Whether all are numbers of 32 bits."""
    return bool(((halves >= 0) & (halves < 2.0**32) & (halves == np.floor(halves))).all())
