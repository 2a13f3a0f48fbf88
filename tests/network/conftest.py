"""Every test here fails if it leaves a process or a socket behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.leaks import children, open_contexts


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before, contexts = children(), len(open_contexts())
    yield
    left = children() - before
    assert not left, f"processes left behind: {left}"
    assert len(open_contexts()) <= contexts, "ZeroMQ contexts left open"
