"""The time line of a replay, by its arithmetic alone: no sleep and no clock."""

from __future__ import annotations

import pytest

from node.traffic.pacer import Pacer
from node.traffic.terminal import KeyPress


def test_a_frame_is_due_at_its_offset_divided_by_the_rate() -> None:
    pacer = Pacer(4.0, 100.0)
    pacer.expect(10.0)
    assert pacer.due == 102.5
    assert pacer.wait(100.0) == 2.5
    assert pacer.wait(103.0) == 0
    assert pacer.lateness(103.0) == 0.5


def test_an_earlier_time_does_not_move_a_frame_before_the_one_in_front_of_it() -> None:
    pacer = Pacer(1.0, 0.0)
    pacer.expect(5.0)
    pacer.expect(3.0)
    assert pacer.due == 5.0


def test_a_pause_moves_the_time_line_by_its_length() -> None:
    pacer = Pacer(1.0, 0.0)
    pacer.expect(5.0)
    assert not pacer.press(KeyPress.PAUSE, 2.0)
    assert pacer.paused
    assert pacer.wait(9.0) is None
    assert pacer.lateness(9.0) is None
    assert not pacer.press(KeyPress.PAUSE, 12.0)
    assert pacer.wait(12.0) == 3.0
    pacer.expect(6.0)
    assert pacer.due == 16.0


def test_a_step_counts_only_while_paused() -> None:
    pacer = Pacer(1.0, 0.0)
    assert not pacer.press(KeyPress.STEP, 1.0)
    assert not pacer.press(None, 1.0)
    pacer.press(KeyPress.PAUSE, 1.0)
    assert pacer.press(KeyPress.STEP, 2.0)
    assert pacer.paused


def test_as_fast_as_possible_has_no_due_time() -> None:
    pacer = Pacer(None, 7.0)
    pacer.expect(1000.0)
    assert pacer.wait(7.0) == 0
    assert pacer.lateness(7.0) is None


def test_a_loop_begins_where_the_last_frame_was_due() -> None:
    pacer = Pacer(2.0, 10.0)
    pacer.expect(4.0)
    pacer.begin_loop()
    pacer.expect(1.0)
    assert pacer.due == pytest.approx(12.5)
