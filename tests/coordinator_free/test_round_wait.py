"""When an agent in rounds goes on without a neighbour: decided from what arrived and a time that the test tells."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.inbox import CarriedPast, Complete, RoundInbox, RoundWait, Silent
from coordinator_free.release import Release

NEIGHBOURS = (1, 2, 3)
SILENT = 10.0


def release(sender: int, round_: int) -> Release:
    return Release(sender, round_, np.zeros(1), (), round=round_)


class Agent:
    """An inbox and a wait, and a clock that stands still unless the test moves it."""

    def __init__(self, on_silent: str) -> None:
        self.inbox = RoundInbox(NEIGHBOURS)
        self.wait = RoundWait(NEIGHBOURS, SILENT, on_silent)
        self.wait.begin(0.0)
        self.wait.begin_round(0.0)

    def receives(self, senders: tuple[int, ...], round_: int, now: float) -> None:
        for sender in senders:
            self.inbox.offer(release(sender, round_))
        self.wait.came_back(senders)
        self.wait.heard(senders, now)

    def decides(self, now: float) -> Complete | CarriedPast | Silent | None:
        return self.wait.decide(self.inbox, now)


@pytest.mark.parametrize("on_silent", ["wait", "stop", "carry-on"])
def test_a_complete_round_is_closed_at_once(on_silent: str) -> None:
    agent = Agent(on_silent)
    assert agent.decides(0.0) is None
    agent.receives(NEIGHBOURS, 0, 0.0)
    assert agent.decides(1e9) == Complete(frozenset())


def test_an_agent_that_waits_never_gives_a_neighbour_up() -> None:
    agent = Agent("wait")
    agent.receives((1, 2), 0, 0.0)
    assert agent.decides(1e9) is None


@pytest.mark.parametrize("on_silent", ["stop", "carry-on"])
def test_silence_is_measured_from_the_last_message_of_each_neighbour(on_silent: str) -> None:
    agent = Agent(on_silent)
    agent.receives((1, 2), 0, 0.0)
    agent.wait.heard([3], 5.0)  # a repeat
    assert agent.decides(14.9) is None
    assert agent.decides(15.0) == Silent((3,), alone=False)


def test_a_neighbour_that_was_given_up_is_not_waited_for_until_it_sends_something_new() -> None:
    agent = Agent("carry-on")
    agent.receives((1, 2), 0, 0.0)
    assert agent.decides(SILENT) == Silent((3,), alone=False)
    agent.wait.give_up([3])
    assert agent.decides(SILENT) == Complete(frozenset({3}))
    assert [m.sender for m in agent.inbox.take(without={3})] == [1, 2]
    agent.wait.begin_round(SILENT)
    agent.receives((1, 2), 1, SILENT)
    agent.wait.heard([3], SILENT)  # a repeat does not bring it back
    assert agent.decides(SILENT) == Complete(frozenset({3}))
    agent.inbox.take(without={3})
    agent.receives((3,), 2, SILENT)
    agent.receives((1,), 2, SILENT)
    assert agent.decides(SILENT) is None, "agents 1 and 3 are here, agent 2 is not silent yet"


def test_an_agent_that_hears_no_neighbour_waits_in_each_round_for_the_deadline() -> None:
    agent = Agent("carry-on")
    assert agent.decides(SILENT) == Silent(NEIGHBOURS, alone=False)
    agent.wait.give_up(NEIGHBOURS)
    assert agent.decides(SILENT) == Silent(NEIGHBOURS, alone=True)
    agent.inbox.take(without=NEIGHBOURS)
    agent.wait.begin_round(SILENT)
    assert agent.decides(2 * SILENT - 0.1) is None
    assert agent.decides(2 * SILENT) == Silent(NEIGHBOURS, alone=True)


def test_an_agent_that_was_carried_past_goes_on_with_the_newest_round() -> None:
    agent = Agent("carry-on")
    for round_ in (3, 4):
        agent.receives((1, 2), round_, 0.0)
    assert agent.decides(0.0) == CarriedPast(3)
    stays = Agent("stop")
    for round_ in (3, 4):
        stays.receives((1, 2), round_, 0.0)
    assert stays.decides(0.0) is None


def test_one_neighbour_that_names_far_rounds_does_not_carry_an_agent_past_its_own() -> None:
    """Two frames that name rounds 97 and 98, while the others are in round 0: the agent goes on with the others."""
    agent = Agent("carry-on")
    for round_ in (97, 98):
        agent.receives((1,), round_, 0.0)
    assert agent.decides(0.0) is None
    agent.receives((2, 3), 0, 0.0)
    for round_ in range(20):
        assert agent.decides(0.0) == Complete(frozenset({1}))
        assert [m.sender for m in agent.inbox.take(without={1})] == [2, 3]
        agent.receives((2, 3), round_ + 1, 0.0)
    assert agent.inbox.round == 20


def test_an_agent_is_carried_no_further_than_more_than_half_of_the_neighbours_have_sent() -> None:
    agent = Agent("carry-on")
    for round_ in (97, 98):
        agent.receives((1,), round_, 0.0)
    for round_ in (4, 5):
        agent.receives((2,), round_, 0.0)
    assert agent.decides(0.0) == CarriedPast(4)


def test_neighbours_that_were_given_up_do_not_hold_an_agent_back() -> None:
    agent = Agent("carry-on")
    for round_ in (3, 4):
        agent.receives((1,), round_, 5.0)
    assert agent.decides(5.0) is None
    assert agent.decides(SILENT) == Silent((2, 3), alone=False)
    agent.wait.give_up((2, 3))
    assert agent.decides(SILENT) == CarriedPast(3)


def test_an_agent_does_not_go_on_alone_where_all_that_it_hears_are_far_ahead() -> None:
    agent = Agent("carry-on")
    agent.receives((1,), 98, 0.0)
    agent.wait.give_up((2, 3))
    assert agent.decides(0.0) is None


def test_a_neighbour_has_ended_once_its_last_release_is_here_and_older_than_the_round() -> None:
    agent = Agent("wait")
    agent.receives((1, 2), 0, 0.0)
    assert agent.inbox.ended({}) == (), "nobody has said done"
    assert agent.inbox.ended({1: 0, 2: 0, 3: 0}) == (), "the release of agent 3 is on its way, and will be repeated"
    assert agent.inbox.ended({3: -1}) == (3,), "it has released nothing, and never will"
    agent.receives((3,), 0, 0.0)
    agent.inbox.take()
    agent.receives((2,), 1, 0.0)
    assert agent.inbox.ended({1: 0, 2: 1, 3: 4}) == (1,)
