"""Records that arrive during a run: what each update uses, how far a record moves it, and what that is charged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.arriving import Arriving, windows_of
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import Release
from coordinator_free.settings import SettingError

UPDATES, RECORDS, CLIP = 12, 6, 0.7
ARRIVALS = [0, 0, 0, 3, 5, 9]


def problem(records: int = RECORDS, regularisation: float = 1.0 / RECORDS) -> LocalProblem:
    random = np.random.default_rng(4)
    return LocalProblem(
        random.normal(size=(records, 3)), np.sign(random.normal(size=records)), LOGISTIC, regularisation
    )


def setting(learning: dict[str, object] | None = None, *, row_bound: float | None = None, **changes: object) -> Setting:
    made = Setting(
        agent=0,
        neighbours=(1,),
        weights=np.ones(1),
        problem=problem(),
        dimension=3,
        updates=UPDATES,
        learning={"mu": 2.0, "smoothness": 3.0, **(learning or {})},
        confidence=0.5,
        mechanism="gaussian",
        multipliers=np.full(UPDATES, 1.5),
        clip=CLIP,
        row_bound=row_bound,
        secret=b"s" * 32,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def releases(made: Setting) -> list[Release]:
    agent = CoordinateDescent(made)
    found = []
    for index in range(made.updates):
        agent.receive(Release(sender=1, index=index, vector=np.full(3, 0.1 * index), used=()))
        release = agent.wake()
        assert release is not None
        found.append(release)
    return found


def with_record(made: Setting, record: int) -> Setting:
    """The same with another value of one record."""
    x = made.problem.x.copy()
    x[record] *= -5.0
    return replace(made, problem=replace(made.problem, x=x))


@pytest.mark.parametrize("record", [0, 3, 5])
def test_a_record_moves_the_releases_of_its_window_and_no_other(record: int) -> None:
    """With the same noise and public state all other releases are the same bit for bit."""
    learning = {"arrivals": ARRIVALS, "uses": 4}
    first, last = windows_of(learning, UPDATES)[record]
    one, other = setting(learning), with_record(setting(learning), record)
    ours, theirs = CoordinateDescent(one), CoordinateDescent(other)
    for index in range(UPDATES):
        release, changed = ours.wake(), theirs.wake()
        assert release is not None
        assert changed is not None
        assert np.array_equal(release.vector, changed.vector) == (not first <= index <= last)
        theirs.restore(ours.snapshot(), index + 1)
        ours.restore(ours.snapshot(), index + 1)


def test_an_update_is_that_of_an_agent_that_was_dealt_the_records_that_are_there() -> None:
    learning = {"arrivals": ARRIVALS}
    said = releases(setting(learning, mechanism="none", clip=None, multipliers=np.empty(0)))
    there = problem().x[:3], problem().y[:3]
    few = LocalProblem(*there, LOGISTIC, 1.0 / 3)  # lambda / m with the 3 records of the first three updates
    smoothness = 3.0 + 2.0 * (1.0 / 3 - 1.0 / RECORDS)
    alone = setting(
        {"smoothness": smoothness}, problem=few, confidence=0.25, mechanism="none", clip=None, multipliers=np.empty(0)
    )
    for release, same in zip(said[:3], releases(alone)[:3], strict=True):
        np.testing.assert_allclose(release.vector, same.vector, rtol=1e-13)


def test_with_all_records_there_it_is_the_same_agent_bit_for_bit() -> None:
    plain, arriving = releases(setting()), releases(setting({"arrivals": [0] * RECORDS}))
    assert all(one.same_as(other) for one, other in zip(plain, arriving, strict=True))


@pytest.mark.parametrize("row_bound", [None, 2.0])
def test_no_record_moves_a_release_by_more_than_its_charge(row_bound: float | None) -> None:
    learning = {"arrivals": ARRIVALS, "uses": 4}
    made = setting(learning, row_bound=row_bound)
    shares = []
    for record in range(RECORDS):
        agent, other = CoordinateDescent(made), CoordinateDescent(with_record(made, record))
        for index in range(UPDATES):
            due = agent.made_with(index)
            release, changed = agent.wake(), other.wake()
            assert release is not None
            assert changed is not None
            moved = float(np.linalg.norm(release.vector - changed.vector))
            assert moved <= (0.0 if due is None else due.sensitivity)
            shares.append(0.0 if due is None else moved / due.sensitivity)
            other.restore(agent.snapshot(), index + 1)
            agent.restore(agent.snapshot(), index + 1)
    assert max(shares) > 0.5, "a sensitivity twice as large would pass as well"


def test_the_sensitivity_changes_with_the_step_alone() -> None:
    agent = CoordinateDescent(setting({"arrivals": ARRIVALS}))
    grid = np.sqrt(3) * 2.0**-20
    for index, there in ((0, 3), (3, 4), (9, 6)):
        pull, smoothness = 2.0 * 0.5 * there / RECORDS, 3.0 + 2.0 * (1.0 / there - 1.0 / RECORDS)
        charged = agent.charge(index)
        assert charged is not None
        assert charged.sensitivity == pytest.approx(
            2.0 * 0.5 * 2.0 * CLIP / RECORDS / (1.0 + pull * smoothness) + grid, rel=1e-9
        )


def test_an_update_without_records_is_charged_nothing_and_holds_nothing() -> None:
    """All records are spent after two updates, until the last one arrives."""
    learning = {"arrivals": [0, 0, 0, 0, 0, 6], "uses": 2}
    agent = CoordinateDescent(setting(learning))
    assert [agent.charge(index) is None for index in range(UPDATES)] == [False] * 2 + [True] * 4 + [False] * 2 + [
        True
    ] * 4
    one, other = releases(setting(learning)), releases(with_record(setting(learning), 5))
    assert all(a.same_as(b) for a, b in zip(one[:6], other[:6], strict=True))


def test_the_free_finish_uses_all_records() -> None:
    learning = {"arrivals": ARRIVALS, "uses": 1, "finish": True, "finish_mu": 1.0}
    agent, other = CoordinateDescent(setting(learning)), CoordinateDescent(with_record(setting(learning), 0))
    ours, theirs = agent.finish(), other.finish()
    assert ours is not None
    assert not np.array_equal(ours, theirs)


def test_windows_end_with_the_run_and_after_so_many_uses() -> None:
    assert windows_of({"arrivals": [0, 3, 9], "uses": 4}, UPDATES) == [(0, 3), (3, 6), (9, 11)]
    assert windows_of({"arrivals": [0, 3]}, UPDATES) == [(0, 11), (3, 11)]
    assert windows_of({}, UPDATES) == []


def test_arrivals_for_other_records_are_refused() -> None:
    with pytest.raises(SettingError, match="2 arrivals for 6 records"):
        Arriving.of(problem(), {"arrivals": [0, 1]}, UPDATES)


def test_a_start_from_all_records_is_refused() -> None:
    with pytest.raises(SettingError, match="yet to arrive"):
        CoordinateDescent(
            setting({"arrivals": ARRIVALS, "start": "local"}, mechanism="none", clip=None, multipliers=np.empty(0))
        )
