"""Arrays by name as bytes, without pickle.

An indexed archive is an ordinary npz file whose zip comment says where each array lies. Reading one by its index is a
dozen bytes of work, where opening a zip file and parsing array headers makes every forked agent copy a megabyte of the
interpreter's pages.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from coordinator_free.release import FloatArray

Arrays = dict[str, npt.NDArray[Any]]

_LENGTH = 8
"""Digits at the very end that say how long the index before them is."""
_LOCAL_HEADER = 30
"""Bytes of a zip member's local header before its name and extra field, whose lengths are the last four of them."""


def packed(arrays: Mapping[str, FloatArray]) -> bytes:
    """The bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpacked(data: bytes) -> dict[str, FloatArray]:
    """The arrays of an npz file; raises ValueError for anything else."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def packed_with_index(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The bytes of an indexed npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    data = buffer.getvalue()
    index = []
    with zipfile.ZipFile(buffer, "a") as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            array = arrays[name]
            start = member.header_offset
            names = data[start + _LOCAL_HEADER - 4 : start + _LOCAL_HEADER]
            start += _LOCAL_HEADER + int.from_bytes(names[:2], "little") + int.from_bytes(names[2:], "little")
            index.append([name, start + member.file_size - array.nbytes, array.dtype.str, list(array.shape)])
        text = json.dumps(index, allow_nan=False).encode()
        archive.comment = text + b"%0*d" % (_LENGTH, len(text))
    return buffer.getvalue()


def unpacked_by_index(data: bytes) -> Arrays:
    """The arrays of an npz file, by its index if it has one; raises ValueError for anything else."""
    if not data[-_LENGTH:].isdigit():
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    length = int(data[-_LENGTH:])
    arrays: Arrays = {}
    for name, start, dtype, shape in json.loads(data[len(data) - _LENGTH - length : -_LENGTH]):
        count = 1
        for side in shape:
            count *= side
        arrays[name] = np.frombuffer(data, dtype, count, start).reshape(shape)
    return arrays
