"""The records that agents learn from, as their source has them: by them, runs on the same data find each other.

Rules that hold here:
- A digest is of one record alone, before split, scaling, bounds and dropped columns. No setting of a run changes it.
- A digest has a key. Without the key it confirms no guess of a record.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from node.data.columns import Cells

Digests = npt.NDArray[np.uint64]
"""One keyed digest a record, 64 bits each."""


class Digested(NamedTuple):
    """Digests of ``everyone``, in the order of the rows, and of each agent's ``training`` records."""

    everyone: Digests
    training: list[Digests]


_DIGEST_BYTES = 8
_TEXT = b"\x7f\xf8text"
"""Stands before a cell of words: no finite number is written so."""


@dataclass(frozen=True, eq=False)
class Sources:
    """A source's columns, all of them, and each agent's training rows in them (held-out rows enter no release)."""

    columns: Mapping[str, Cells]
    training: tuple[npt.NDArray[np.intp], ...]

    def digests(self, key: bytes) -> Digested:
        """The digests of all records under ``key`` (at most 64 bytes), and those of each agent's training records."""
        made = np.fromiter(
            (
                int.from_bytes(hashlib.blake2b(record, digest_size=_DIGEST_BYTES, key=key).digest(), "little")
                for record in _contents(self.columns)
            ),
            dtype=np.uint64,
        )
        return Digested(made, [made[rows] for rows in self.training])


def _contents(columns: Mapping[str, Cells]) -> Iterator[bytes]:
    """The bytes of each record: its cells by the names of their columns, in order. A number is the same as its text."""
    blocks: list[Sequence[bytes]] = []
    numeric: list[npt.NDArray[np.float64]] = []
    for name in sorted(columns):
        values = _numbers(columns[name])
        if values is not None:
            numeric.append(values)
            continue
        blocks += _rows(numeric)
        numeric = []
        cells = [cell if isinstance(cell, str | float) else str(cell) for cell in columns[name]]
        known = {cell: _cell(cell) for cell in set(cells)}
        blocks.append([known[cell] for cell in cells])
    blocks += _rows(numeric)
    return map(b"".join, zip(*blocks, strict=True))


def _numbers(cells: Cells) -> npt.NDArray[np.float64] | None:
    """A column of finite numbers; None if another cell is among them."""
    try:
        values = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values if bool(np.isfinite(values).all()) else None


def _rows(numeric: list[npt.NDArray[np.float64]]) -> list[Sequence[bytes]]:
    if not numeric:
        return []
    matrix = np.ascontiguousarray(np.column_stack(numeric) + 0.0, dtype="<f8")  # + 0.0: no -0.0
    data, width = matrix.tobytes(), 8 * len(numeric)
    return [[data[at : at + width] for at in range(0, len(data), width)]]


def _cell(cell: str | float) -> bytes:
    try:
        number = float(cell)
    except (TypeError, ValueError):
        number = math.nan
    if math.isfinite(number):
        return struct.pack("<d", number + 0.0)
    text = str(cell).encode()
    return _TEXT + struct.pack("<q", len(text)) + text
