"""Frozen values become plain JSON."""

from __future__ import annotations

from node.folder.manifest import Metric
from node.folder.plain import plain


def test_values_of_values_are_plain() -> None:
    made = plain({"metrics": (Metric("rmse", larger_is_better=False),), "number": 1.5, "none": None})
    assert made == {"metrics": [{"name": "rmse", "larger_is_better": False}], "number": 1.5, "none": None}
