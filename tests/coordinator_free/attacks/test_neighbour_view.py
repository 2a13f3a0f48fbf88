"""The attack of one agent with a part of the releases, against the surrogate's figures."""

from __future__ import annotations

import pytest

from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.neighbour_view import Step, in_order


def step(agent: int, index: int, parent: int | None, *sources: tuple[int, int]) -> Step:
    return Step((agent, index), None if parent is None else (agent, parent), tuple((0.5, key) for key in sources), None)


def test_steps_are_made_in_the_recorded_order_but_after_all_that_they_need() -> None:
    steps = [step(0, 0, None), step(0, 1, 0, (1, 0)), step(1, 0, None, (0, 0)), step(1, 1, 0)]
    first = {(0, 0): 5, (1, 0): 9, (0, 1): 7, (1, 1): 10}  # the log received release 1 of agent 0 too early
    assert [one.key for one in in_order(steps, first)] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_releases_that_need_each_other_have_no_order() -> None:
    with pytest.raises(InversionError, match="order"):
        in_order([step(0, 0, None, (1, 0)), step(1, 0, None, (0, 0))], {})
