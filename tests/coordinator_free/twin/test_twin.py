"""The twin: inboxes, delays, losses, rounds, and executing a record again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from coordinator_free.agent import Activation, Agent
from coordinator_free.clocks import waits
from coordinator_free.inbox import NewestInbox, RoundInbox, used
from coordinator_free.problem.losses import SQUARED
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.reexecution import reexecute
from coordinator_free.twin.run import Stalled, run_asynchronous, run_rounds


def say(sender: int, index: int, round: int | None = None) -> Release:
    return Release(sender, index, np.array([float(index)]), round=round)


class Averager(Agent):
    """A tiny agent in rounds: says its value, then the mean of what it hears."""

    name: ClassVar[str] = "averager"
    activation: ClassVar[Activation] = Activation.ROUNDS
    newest_only: ClassVar[bool] = False
    addressed: ClassVar[bool] = False

    def __init__(self, agent: int, rounds: int, silent: bool = False) -> None:
        self.agent, self.rounds, self.silent = agent, rounds, silent
        self.value = np.array([float(agent)])
        self.heard: list[Release] = []
        self.next = 0

    def _say(self) -> Release:
        own = None if self.next == 0 else self.next - 1
        release = Release(self.agent, self.next, self.value, used(self.heard, self.agent, own), round=self.next)
        self.heard, self.next = [], self.next + 1
        return release

    def start(self) -> Release | None:
        return None if self.silent else self._say()

    def receive(self, release: Release) -> None:
        self.heard.append(release)

    def wake(self) -> Release | None:
        self.value = np.mean([release.vector for release in self.heard], axis=0)
        return self._say()

    @property
    def finished(self) -> bool:
        return self.silent or self.next >= self.rounds

    @property
    def model(self) -> FloatArray:
        return self.value

    def finish(self) -> FloatArray | None:
        return np.array([float(len(self.heard))])

    def charge(self, index: int) -> None:
        return None

    def snapshot(self) -> dict[str, FloatArray]:
        return {"value": self.value}

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        raise NotImplementedError


def test_only_the_newest_counts() -> None:
    inbox = NewestInbox(newest_only=True)
    for release in (say(2, 0), say(1, 4), say(2, 1), say(1, 3)):
        inbox.offer(release)
    assert [(r.sender, r.index) for r in inbox.take()] == [(1, 4), (2, 1)]
    assert inbox.take() == []
    inbox.offer(say(1, 4))
    inbox.offer(say(1, 2))
    assert inbox.take() == []


def test_every_release_counts() -> None:
    inbox = NewestInbox(newest_only=False)
    for release in (say(2, 0), say(1, 4), say(2, 1)):
        inbox.offer(release)
    assert [(r.sender, r.index) for r in inbox.take()] == [(1, 4), (2, 0), (2, 1)]


def test_rounds_wait_for_everybody() -> None:
    inbox = RoundInbox([5, 2])
    inbox.offer(say(5, 0, 0))
    inbox.offer(say(5, 1, 1))
    assert inbox.missing == (2,)
    with pytest.raises(ValueError, match="not complete"):
        inbox.take()
    inbox.offer(say(2, 0, 0))
    assert [r.sender for r in inbox.take()] == [2, 5]
    assert inbox.missing == (2,)
    inbox.offer(say(2, 0, 0))
    assert inbox.missing == (2,)


def test_clocks_are_functions_of_seed_and_agent() -> None:
    def first(seed: int, agent: int, count: int = 200) -> list[float]:
        clock = waits(seed, agent, 2.0)
        return [next(clock) for _ in range(count)]

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(1, 1) != first(2, 1)
    # The mean of 20,000 waits has a standard error of 0.5 / sqrt(20,000); 6 errors.
    assert np.mean(first(3, 3, 20_000)) == pytest.approx(0.5, abs=6 * 0.5 / np.sqrt(20_000))
    with pytest.raises(ValueError, match=r"clock\.rate = 0"):
        next(waits(1, 0, 0))


def test_rounds_do_not_depend_on_the_order_of_service(regular) -> None:
    network = regular(9, 4)
    agents = [Averager(i, 6) for i in range(9)]
    transcript = run_rounds(agents, network)
    values = np.arange(9.0)
    for _ in range(5):
        values = np.array([np.mean([values[j] for j in network.neighbours(i)]) for i in range(9)])
    assert [agent.model[0] for agent in agents] == pytest.approx(values.tolist())
    assert len(transcript.releases) == 54
    # The last round is heard too.
    assert [int(finish[0]) for finish in transcript.finishes] == [4] * 9


def test_a_stalled_run_names_who_is_missing(regular) -> None:
    network = regular(6, 3)
    agents = [Averager(i, 3, silent=i == 2) for i in range(6)]
    with pytest.raises(Stalled, match=r"\[2\]"):
        run_rounds(agents, network)


def descent(regular, problems, team, **others):
    network = regular(8, 3)
    made = problems(8, 3, SQUARED)
    learning = {"mu": 1.0, "smoothness": 2.0}
    return network, team("coordinate-descent", network, made, updates=25, learning=learning, **others)


def test_every_release_is_charged_before_it_is_heard(regular, problems, team) -> None:
    network, agents = descent(regular, problems, team, mechanism="gaussian", multipliers=np.full(25, 2.0), clip=1.0)
    charged: list[tuple[int, int]] = []

    def charge(release: Release, mechanism) -> None:
        assert mechanism is not None
        charged.append((release.sender, release.index))

    def listen(_: float, release: Release) -> None:
        assert charged[-1] == (release.sender, release.index)

    transcript = run_asynchronous(agents, network, rate=1.0, seed=0, ledger=charge, on_release=listen)
    assert len(charged) == len(transcript.releases) == 200


def test_a_ledger_that_refuses_stops_the_release(regular, problems, team) -> None:
    network, agents = descent(regular, problems, team)
    heard: list[Release] = []

    def refuse(release: Release, mechanism) -> None:
        if release.index == 3:
            raise ValueError("spent")

    with pytest.raises(ValueError, match="spent"):
        run_asynchronous(agents, network, rate=1.0, seed=0, ledger=refuse, on_release=lambda _, r: heard.append(r))
    assert all(release.index < 3 for release in heard)


def test_delays_and_losses_change_what_is_used_but_the_last_word_is_heard(regular, problems, team) -> None:
    random = np.random.default_rng(0)
    network, agents = descent(regular, problems, team)

    def delay(release: Release, recipient: int) -> float | None:
        return None if random.random() < 0.3 else float(random.exponential(0.5))

    received: dict[tuple[int, int], list[int]] = {}
    for agent in agents:
        inner = agent.receive

        def receive(release: Release, agent=agent, inner=inner) -> None:
            received.setdefault((release.sender, agent._setting.agent), []).append(release.index)
            inner(release)

        agent.receive = receive
    run_asynchronous(agents, network, rate=1.0, seed=0, delay=delay)
    assert len(received) == 24
    for indices in received.values():
        assert indices == sorted(set(indices))
        assert indices[-1] == 24


def recorded(network, agents, **conditions):
    said = run_asynchronous(agents, network, rate=1.0, seed=5, **conditions).releases
    return {(r.sender, r.index): r for r in said}, [[r for r in said if r.sender == i] for i in range(len(agents))]


def test_a_run_is_executed_again_bit_for_bit(regular, problems, team) -> None:
    private = {"mechanism": "gaussian", "multipliers": np.full(25, 2.0), "clip": 1.0}
    network, agents = descent(regular, problems, team, **private)
    random = np.random.default_rng(1)
    everything, by_agent = recorded(network, agents, delay=lambda r, j: float(random.exponential(0.3)))
    _, fresh = descent(regular, problems, team, **private)
    for agent, said in zip(fresh, by_agent, strict=True):
        assert reexecute(agent, everything, said) is None


def test_one_changed_bit_is_found(regular, problems, team) -> None:
    network, agents = descent(regular, problems, team)
    everything, by_agent = recorded(network, agents)
    changed = by_agent[3][10].vector.copy()
    changed[1] = np.nextafter(changed[1], np.inf)
    said = [*by_agent[3][:10], replace(by_agent[3][10], vector=changed), *by_agent[3][11:]]
    _, fresh = descent(regular, problems, team)
    difference = reexecute(fresh[3], everything, said)
    assert difference is not None
    assert difference.index == 10
    assert "vector differs" in difference.reason


def test_a_missing_release_is_named(regular, problems, team) -> None:
    network, agents = descent(regular, problems, team)
    everything, by_agent = recorded(network, agents)
    key = next(pair for release in by_agent[3][5:] for pair in release.used if pair[0] != 3)
    del everything[key]
    _, fresh = descent(regular, problems, team)
    difference = reexecute(fresh[3], everything, by_agent[3])
    assert difference is not None
    assert f"release {key[1]} of agent {key[0]}" in difference.reason


def test_a_restarted_agent_is_executed_again(regular, problems, team) -> None:
    """Agent 3 dies after its release 9, of which release 7 is the last it can go on from, and skips 10 and 11."""
    private = {"mechanism": "gaussian", "multipliers": np.full(25, 2.0), "clip": 1.0}
    network, agents = descent(regular, problems, team, **private)
    everything, by_agent = recorded(network, agents)
    said = by_agent[3][:10]
    _, fresh = descent(regular, problems, team, **private)
    _, again = descent(regular, problems, team, **private)
    fresh[3].restore({"model": said[7].vector, "index": np.array([7.0])}, 12)
    for j in network.neighbours(3):
        fresh[3].receive(everything[j, 20])
    for _ in range(3):
        said.append(fresh[3].wake())
    assert said[10].index == 12
    assert said[10].used[-1] == (3, 7)
    assert reexecute(again[3], everything, said) is None


def test_a_restart_that_skips_nothing_is_executed_again(regular, problems, team) -> None:
    """Agent 3 dies after its release 9 and goes on with 10, having forgotten its neighbours' models."""
    network, agents = descent(regular, problems, team)
    everything, by_agent = recorded(network, agents)
    said = by_agent[3][:10]
    _, fresh = descent(regular, problems, team)
    _, again = descent(regular, problems, team)
    fresh[3].restore({"model": said[9].vector, "index": np.array([9.0])}, 10)
    fresh[3].receive(everything[network.neighbours(3)[0], 20])
    said += [fresh[3].wake(), fresh[3].wake()]
    assert reexecute(again[3], everything, said) is None
