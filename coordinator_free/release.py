"""A release: one thing an agent makes public.

Rules that hold here:
- Releases of one sender are numbered 0, 1, 2, ...; an index is never drawn twice, but may be skipped.
- ``used`` lists, in order, every (agent, index) that the sender consumed since its previous release, and last its own
  previous index if its state still comes from it. With that, the release can be computed
  again from the other releases and the sender's shard.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

Used = tuple[tuple[int, int], ...]
"""(agent, index) pairs, in the order in which they were consumed."""


@dataclass(slots=True, eq=False)
class Release:
    """What ``sender`` sends to ``recipient`` (``None``: to all neighbours).

    ``vector`` has shape (d,), float64; a release that a mechanism made sits on the public grid. ``round`` is None for
    asynchronous algorithms. A release is never changed; it is not frozen because making a frozen one costs an agent
    three times as much, for each of its neighbours' releases.
    """

    sender: int
    index: int
    vector: FloatArray
    used: Used = ()
    round: int | None = None
    recipient: int | None = None

    @property
    def finite(self) -> bool:
        """Whether every number in it is one."""
        # The sum of the squares is no finite number beside an infinite one or a NaN; where only it is too large, look.
        vector = self.vector
        return math.isfinite(np.vdot(vector, vector)) or bool(np.isfinite(vector).all())

    def same_as(self, other: Release) -> bool:
        """Whether both are equal bit for bit, header and vector."""
        return (
            self.sender == other.sender
            and self.index == other.index
            and self.used == other.used
            and self.round == other.round
            and self.recipient == other.recipient
            and self.vector.tobytes() == other.vector.tobytes()
        )
