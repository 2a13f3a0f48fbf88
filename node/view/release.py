"""One release as the page shows it: header, what it used, its vector and its raw bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from node.wire import Refused, decode, decode_header

_NUMBERS: Final = 2000
"""Numbers of a vector that are shown."""
_BYTES: Final = 4096
"""Bytes of a part that are shown."""


def release_shown(parts: Sequence[bytes]) -> dict[str, Any]:
    """A frame as a document: ``refused`` (why it is no message, or None), ``header``, ``vector``, ``norm``, ``parts``.

    Long vectors and parts are cut, and their lengths are given. Numbers that JSON lacks are None.
    """
    shown: dict[str, Any] = {
        "parts": [{"bytes": len(part), "hex": part[:_BYTES].hex()} for part in parts],
        "refused": None,
        "header": None,
        "vector": None,
    }
    try:
        decode(parts)
        header = decode_header(parts[1])
    except Refused as refused:
        return {**shown, "refused": refused.reason}
    shown["header"] = {key: value.hex() if isinstance(value, bytes) else value for key, value in header.items()}
    if header["kind"] == "release":
        vector = np.frombuffer(parts[2], dtype="<f8")
        with np.errstate(all="ignore"):
            norm = float(np.linalg.norm(vector))
        shown["vector"] = [_finite(value) for value in vector[:_NUMBERS].tolist()]
        shown["length"], shown["norm"] = len(vector), _finite(norm)
    elif header["kind"] == "hello":
        shown["header"] = _printable(shown["header"])
    return shown


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _printable(value: Any) -> Any:
    """A header's values with all bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
