"""The error of everything that loads or deals data."""

from __future__ import annotations


class DataError(ValueError):
    """Bad data, or a setting that does not fit the data: one line with setting, value and what would do."""
