"""Rounds that are closed without a neighbour: both ends of an edge leave the same dual steps out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.inbox import RoundInbox
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.reexecution import reexecute
from tests.helpers.admm_networks import models, records, ring, settings

AGENTS = 4
NETWORK = ring(AGENTS)
PROBLEMS = records(AGENTS, 15, 3, seed=2)
LEARNING = {"capacity": 15.0, "rho": 0.3, "penalty": 0.7}
ROUNDS = 300


class Air:
    """Agents in rounds over links that can be cut; an agent that is cut off is carried past as over processes."""

    def __init__(self) -> None:
        self.agents = [Admm(s) for s in settings(NETWORK, PROBLEMS, LEARNING, ROUNDS)]
        self.inboxes = [RoundInbox(NETWORK.neighbours(i), late=Admm.carries_on) for i in range(AGENTS)]
        self.said: list[list[Release]] = [[] for _ in range(AGENTS)]
        for agent in self.agents:
            self.say(agent.start(), lambda *_: True)

    def say(self, release: Release | None, hears: Callable[[int, int], bool]) -> None:
        assert release is not None
        self.said[release.sender].append(release)
        for j in NETWORK.neighbours(release.sender):
            if hears(release.sender, j):
                self.inboxes[j].offer(release)

    def step(self, i: int, hears: Callable[[int, int], bool] = lambda *_: True, without: tuple[int, ...] = ()) -> None:
        agent, inbox = self.agents[i], self.inboxes[i]
        if agent.finished:
            return
        past = inbox.carried_past(without)
        if past is not None:
            taken = inbox.take_past(past)
        elif set(inbox.missing) <= set(without):
            taken = inbox.take(without=without)
        else:
            return
        for release in taken:
            agent.receive(release)
        self.say(agent.wake(), hears)

    def repeat(self, i: int) -> None:
        """The last two releases again, which is all that who was cut off can hear of the past."""
        for release in self.said[i][-2:]:
            for j in NETWORK.neighbours(i):
                self.inboxes[j].offer(release)

    def settle(self) -> FloatArray:
        for _ in range(3 * ROUNDS):
            for i in range(AGENTS):
                self.step(i)
        assert all(agent.finished for agent in self.agents)
        return models(self.agents)


@pytest.fixture(scope="module")
def optimum() -> FloatArray:
    return Air().settle()[0]


def test_an_agent_that_was_silent_goes_on_with_the_newest_round_and_all_reach_the_optimum(optimum: FloatArray) -> None:
    air = Air()
    cut = 2

    def hears(sender: int, receiver: int) -> bool:
        return cut not in (sender, receiver)

    for _ in range(3):
        for i in range(AGENTS):
            air.step(i)
    silent_at = air.said[cut][-1].round
    for _ in range(6):
        for i in range(AGENTS):
            if i != cut:
                air.step(i, hears, without=(cut,))
    for i in range(AGENTS):
        air.repeat(i)
    air.step(cut)
    back = air.said[cut][-1]
    assert silent_at is not None
    assert back.round is not None
    assert back.round >= silent_at + 4, "it jumps"
    assert back.index == len(air.said[cut]) - 1, "an index is never left out"
    assert len({r.round for r in air.said[cut]}) == len(air.said[cut])
    np.testing.assert_allclose(air.settle(), np.tile(optimum, (AGENTS, 1)), atol=1e-9)


def test_a_release_that_came_too_late_is_left_out_at_both_ends(optimum: FloatArray) -> None:
    air = Air()
    for i in range(AGENTS):
        air.step(i)
    # Agent 1 hears nothing of agent 0's next release and goes on; agent 0 hears everything.
    air.step(0, hears=lambda sender, receiver: (sender, receiver) != (0, 1))
    for i in (1, 2, 3):
        air.step(i)
    assert air.inboxes[1].missing == (0,)
    air.step(1, without=(0,))
    late, lacking = air.said[0][-1], air.said[1][-1]
    assert (late.round, lacking.round) == (2, 3)
    assert (0, late.index) not in lacking.used
    np.testing.assert_allclose(air.settle(), np.tile(optimum, (AGENTS, 1)), atol=1e-9)


def carried_past_twice(air: Air) -> FloatArray:
    """Agent 2 is cut off when its neighbours have its last release and it has not theirs.

    Its first release after that comes when they have closed that round: only it tells them which step agent 2 left out.
    """
    cut = 2
    others = [i for i in range(AGENTS) if i != cut]
    for _ in range(3):
        for i in range(AGENTS):
            air.step(i)
    for i in range(AGENTS):
        air.step(i, hears=lambda _, receiver: receiver != cut)
    for i in others * 6:
        air.step(i, lambda sender, receiver: cut not in (sender, receiver), without=(cut,))
    for i in others:
        air.repeat(i)
    for i in others * 2:
        air.step(i, lambda sender, receiver: cut not in (sender, receiver), without=(cut,))
    air.step(cut)
    first = air.said[cut][-1]
    assert first.round is not None
    assert all(first.round < air.inboxes[j].round for j in NETWORK.neighbours(cut)), "it comes late"
    for i in others:
        air.repeat(i)
    return air.settle()


def test_a_release_that_comes_late_still_tells_which_step_its_agent_left_out(optimum: FloatArray) -> None:
    np.testing.assert_allclose(carried_past_twice(Air()), np.tile(optimum, (AGENTS, 1)), atol=1e-9)


def test_were_late_releases_ignored_the_optimum_would_be_missed(optimum: FloatArray) -> None:
    air = Air()
    air.inboxes = [RoundInbox(NETWORK.neighbours(i)) for i in range(AGENTS)]
    for release in [said[0] for said in air.said]:
        for j in NETWORK.neighbours(release.sender):
            air.inboxes[j].offer(release)
    with pytest.raises(AssertionError, match="Not equal"):
        np.testing.assert_allclose(carried_past_twice(air), np.tile(optimum, (AGENTS, 1)), atol=1e-9)


def test_without_taking_the_step_back_the_optimum_is_missed(
    optimum: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admm, "_take_back", lambda *_: None)
    with pytest.raises(AssertionError, match="Not equal"):
        test_a_release_that_came_too_late_is_left_out_at_both_ends(optimum)


def test_what_was_carried_on_is_executed_again_bit_for_bit() -> None:
    air = Air()
    for _ in range(5):
        for i in (0, 1, 3):
            air.step(i, lambda sender, receiver: 2 not in (sender, receiver), without=(2,))
    for i in range(AGENTS):
        air.repeat(i)
    air.settle()
    heard = {(r.sender, r.index): r for said in air.said for r in said}
    for i, fresh in enumerate(Admm(s) for s in settings(NETWORK, PROBLEMS, LEARNING, ROUNDS)):
        assert reexecute(fresh, heard, air.said[i]) is None


def test_the_optimum_here_is_that_of_all_records_together(optimum: FloatArray) -> None:
    gradient = sum(
        (LEARNING["capacity"] * p.gradient(optimum) + LEARNING["rho"] * optimum for p in PROBLEMS), np.zeros(3)
    )
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)


def test_a_round_that_a_neighbour_jumped_over_is_not_waited_for() -> None:
    inbox = RoundInbox([1, 2])
    vector = np.zeros(3)
    for _ in range(5):
        for j in (1, 2):
            inbox.offer(Release(sender=j, index=inbox.round, vector=vector, round=inbox.round))
        inbox.take()
    inbox.offer(Release(sender=2, index=5, vector=vector, round=5))
    inbox.offer(Release(sender=1, index=6, vector=vector, round=6))
    assert inbox.passed_over == frozenset(), "its release of round 5 may only be late"
    inbox.offer(Release(sender=1, index=5, vector=vector, round=5))
    assert [release.sender for release in inbox.take()] == [1, 2]
    inbox.offer(Release(sender=2, index=6, vector=vector, round=6))
    inbox.take()
    inbox.offer(Release(sender=1, index=7, vector=vector, round=9))
    assert inbox.passed_over == frozenset({1})
    inbox.offer(Release(sender=2, index=7, vector=vector, round=7))
    assert [release.sender for release in inbox.take(without=inbox.passed_over)] == [2]
