"""Arrays by name as bytes, without pickle, and files that appear whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from coordinator_free.release import FloatArray


def packed(arrays: Mapping[str, FloatArray]) -> bytes:
    """The bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpacked(data: bytes) -> dict[str, FloatArray]:
    """The arrays of an npz file; raises ValueError for anything else."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, mode 0600, so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    descriptor = os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    part.replace(path)
