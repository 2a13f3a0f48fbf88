"""The ledger's rules, without files."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.ledger import LARGEST_GROUP, Budget, Charge, Ledger, LedgerError, Plan
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation

TENTH = Laplace(1.0, 10.0)
FIFTH = Laplace(1.0, 5.0)


def plain(mechanisms: Iterable[Mechanism | None], delta: float) -> float:
    assert delta == 0.0
    return sum(m.sensitivity / m.scale for m in mechanisms if m is not None)


def never(mechanisms: Iterable[Mechanism | None], delta: float) -> float:
    raise AssertionError("the accountant was asked")


def charge(ledger: Ledger, first: int, last: int, mechanism: Mechanism | None, run: str = "a") -> None:
    ledger.check(run, first, last, mechanism, plain)
    ledger.add(Charge(run, first, last, mechanism))


def test_an_index_is_charged_once_and_in_rising_order() -> None:
    ledger = Ledger(Budget(5.0, 0.0))
    charge(ledger, 0, 3, TENTH)
    charge(ledger, 6, 6, TENTH)
    for first, last in ((3, 3), (2, 8), (6, 6), (4, 5), (-1, 9), (9, 8)):
        with pytest.raises(LedgerError, match="ledger: ind"):
            charge(ledger, first, last, TENTH)
    assert ledger.next_index("a") == 7
    assert [ledger.charged("a", index) is not None for index in range(8)] == [True] * 4 + [False] * 2 + [True, False]
    assert ledger.next_index("b") == 0
    assert ledger.charged("b", 0) is None


def test_without_a_plan_a_charge_that_overspends_is_refused() -> None:
    ledger = Ledger(Budget(1.0, 0.0))
    charge(ledger, 0, 6, TENTH)
    with pytest.raises(LedgerError, match=r"epsilon 1\.1 .* budget is 1"):
        charge(ledger, 7, 10, TENTH)
    charge(ledger, 7, 8, TENTH, run="a")
    with pytest.raises(LedgerError, match="budget"):
        charge(ledger, 0, 0, FIFTH, run="b")
    charge(ledger, 0, 0, TENTH, run="b")
    assert plain(ledger.spent(), 0.0) == pytest.approx(1.0)


def test_the_plan_of_the_ledger_is_admitted_without_an_accountant() -> None:
    ledger = Ledger(Budget(1.0, 0.0), Plan.of([TENTH] * 10))
    ledger.admit("a", [TENTH] * 10, never)
    for index in range(10):
        ledger.check("a", index, index, TENTH, never)
        ledger.add(Charge("a", index, index, TENTH))
    ledger.admit("a", [TENTH] * 10, never)


def test_a_second_run_on_spent_data_is_refused() -> None:
    ledger = Ledger(Budget(1.0, 0.0), Plan.of([TENTH] * 10))
    charge(ledger, 0, 5, TENTH, run="a") if ledger.admit("a", [TENTH] * 10, never) else None
    ledger.add(Charge("a", 0, 5, TENTH))
    with pytest.raises(LedgerError, match=r"epsilon 1\.6"):
        ledger.admit("b", [TENTH] * 10, plain)
    ledger.admit("b", [TENTH] * 4, plain)
    ledger.check("b", 0, 0, TENTH, never)
    with pytest.raises(LedgerError):
        ledger.check("b", 4, 4, TENTH, plain)


def test_the_newest_admitted_run_alone_may_charge_its_plan() -> None:
    ledger = Ledger(Budget(1.0, 0.0), Plan.of([TENTH] * 10))
    ledger.admit("a", [TENTH] * 10, never)
    ledger.admit("b", [TENTH] * 10, never)
    ledger.add(Charge("b", 0, 9, TENTH))
    with pytest.raises(LedgerError, match="budget"):
        ledger.check("a", 0, 0, TENTH, plain)


@pytest.mark.parametrize("other", [FIFTH, Laplace(1.0, 11.0), Gaussian(1.0, 10.0), None])
def test_another_mechanism_than_planned_is_refused(other: Mechanism | None) -> None:
    ledger = Ledger(Budget(9.0, 0.0))
    ledger.admit("a", [TENTH] * 3 + [FIFTH] + [None] * 56, plain)
    ledger.check("a", 0, 2, TENTH, never)
    ledger.check("a", 3, 3, FIFTH, never)
    ledger.check("a", 4, 6, None, never)
    for first, last, mechanism in ((0, 0, other), (1, 3, TENTH), (2, 4, None), (3, 4, FIFTH), (60, 60, None)):
        with pytest.raises(LedgerError, match="planned with another mechanism"):
            ledger.check("a", first, last, mechanism, plain)


def test_a_smaller_sensitivity_at_the_same_multiplier_may_be_charged_and_nothing_else() -> None:
    ledger = Ledger(Budget(9.0, 0.0))
    planned = GammaNorm(1.0, 10.0, 3)
    ledger.admit("a", [planned] * 60, lambda *_: 1.0)
    ledger.check("a", 0, 0, GammaNorm(0.3, 3.0, 3), never)
    for other in (
        GammaNorm(0.3, 2.9, 3),  # less noise than that sensitivity needs
        GammaNorm(0.3, 3.1, 3),
        GammaNorm(1.1, 11.0, 3),
        GammaNorm(0.3, 3.0, 4),
        Gaussian(0.3, 3.0),
        None,
    ):
        with pytest.raises(LedgerError, match="planned with another mechanism"):
            ledger.check("a", 0, 0, other, plain)
    hidden = ObjectivePerturbation(1.0, 10.0, 0.1, 3)
    ledger.admit("b", [hidden] * 60, lambda *_: 1.0)
    with pytest.raises(LedgerError, match="planned with another mechanism"):
        ledger.check("b", 0, 0, ObjectivePerturbation(0.3, 3.0, 0.1, 3), plain)


def test_a_group_is_at_most_a_twentieth() -> None:
    ledger = Ledger(Budget(9.0, 0.0))
    ledger.admit("a", [TENTH] * 60, plain)
    ledger.check("a", 0, 2, TENTH, never)
    with pytest.raises(LedgerError, match="a charge for 4 releases; accepted: 3"):
        ledger.check("a", 0, 3, TENTH, never)
    with pytest.raises(LedgerError, match="a charge for"):
        Ledger(None).check("a", 0, LARGEST_GROUP, None, never)


def test_a_run_whose_plan_overspends_is_refused_whole() -> None:
    ledger = Ledger(Budget(1.0, 0.0))
    with pytest.raises(LedgerError, match="11 planned releases"):
        ledger.admit("a", [TENTH] * 11, plain)


def test_without_a_budget_nothing_is_accounted() -> None:
    ledger = Ledger(None)
    ledger.admit("a", [None] * 40, never)
    ledger.check("a", 0, 1, None, never)


def test_the_real_accountant_decides() -> None:
    ledger = Ledger(Budget(2.41, 0.0067379))

    def account(mechanisms: Iterable[Mechanism | None], delta: float) -> float:
        return total(mechanisms, delta).epsilon

    ledger.admit("a", [TENTH] * 100, account)
    with pytest.raises(LedgerError, match="budget"):
        ledger.admit("a", [TENTH] * 102, account)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (-1.0, 0.1), (float("nan"), 0.1), (1.0, 1.0), (1.0, -0.1)])
def test_budgets_that_are_none(epsilon: float, delta: float) -> None:
    with pytest.raises(LedgerError, match="privacy"):
        Budget(epsilon, delta)


@given(st.lists(st.sampled_from([TENTH, FIFTH, None]), max_size=70))
def test_a_plan_knows_every_release(mechanisms: list[Mechanism | None]) -> None:
    plan = Plan.of(mechanisms)
    assert plan.mechanisms() == mechanisms
    assert plan.releases == len(mechanisms)
    covered = 0
    while covered < len(mechanisms):
        last, mechanism = plan.alike(covered)
        assert plan.within(covered, last, mechanism)
        assert mechanisms[covered : last + 1] == [mechanism] * (last - covered + 1)
        assert last - covered < plan.largest_group
        covered = last + 1
    assert not plan.within(covered, covered, None)
    with pytest.raises(LedgerError):
        plan.alike(covered)
