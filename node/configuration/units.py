"""Quantities as people write them: "20 ms", "10 Mbit/s", "64 kB", "2 / min"; a bare number is in s, B/s, B or 1/s."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

TIMES: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
SIZES: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
RATES: Final = {
    "bit/s": 0.125,
    "kbit/s": 125.0,
    "Mbit/s": 125e3,
    "Gbit/s": 125e6,
    **{f"{unit}/s": size for unit, size in SIZES.items()},
}
FREQUENCIES: Final = {f"/{unit}": 1.0 / length for unit, length in TIMES.items()}

_WRITTEN = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z/]+)\s*")


def _quantity(value: object, units: Mapping[str, float], example: str) -> object:
    """``value`` as a number where it is written with a unit; raises ValueError with what would be accepted."""
    if not isinstance(value, str):
        return value
    written = _WRITTEN.fullmatch(value)
    if written is None or written[2] not in units:
        raise ValueError(f'should be a number with a unit, such as "{example}" (units: {", ".join(units)})')
    return float(written[1]) * units[written[2]]


def seconds(value: object) -> object:
    """A duration with its unit in seconds; a number stays as it is."""
    return _quantity(value, TIMES, "20 ms")


def size(value: object) -> object:
    """A size with its unit in bytes; a number stays as it is."""
    return _quantity(value, SIZES, "64 kB")


def rate(value: object) -> object:
    """A bandwidth with its unit in bytes per second; a number stays as it is."""
    return _quantity(value, RATES, "10 Mbit/s")


def frequency(value: object) -> object:
    """A frequency with its unit in events per second; a number stays as it is."""
    return _quantity(value.replace(" ", "") if isinstance(value, str) else value, FREQUENCIES, "2 / min")


Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0)]
PositiveSeconds = Annotated[float, BeforeValidator(seconds), Field(gt=0)]
Bytes = Annotated[float, BeforeValidator(size), Field(gt=0)]
BytesPerSecond = Annotated[float, BeforeValidator(rate), Field(gt=0)]
PerSecond = Annotated[float, BeforeValidator(frequency), Field(gt=0)]
