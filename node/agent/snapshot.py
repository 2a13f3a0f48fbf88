"""An agent's state as bytes, for the record that it writes before each release in rounds.

It is written in every round, between the minimiser and the socket: a zip archive would take a fifth of the solver's
time.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgpack
import numpy as np

from coordinator_free.release import FloatArray


def packed_snapshot(state: Mapping[str, FloatArray]) -> bytes:
    """The arrays by name, each as its shape and its little-endian float64 values."""
    arrays = {name: (array.shape, array.astype("<f8", copy=False).tobytes()) for name, array in state.items()}
    data: bytes = msgpack.packb(arrays)
    return data


def unpacked_snapshot(data: bytes) -> dict[str, FloatArray]:
    """What `packed_snapshot` was given; raises ValueError for anything else."""
    arrays = msgpack.unpackb(data)
    return {name: np.frombuffer(values, "<f8").reshape(shape) for name, (shape, values) in arrays.items()}
