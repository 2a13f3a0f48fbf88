"""The order of the tests, and what no test may leave behind."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.helpers.leaks import nothing_left_behind  # noqa: F401

settings.register_profile("no-deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no-deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of slow tests first: several workers then end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
