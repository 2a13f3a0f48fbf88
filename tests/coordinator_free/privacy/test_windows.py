"""Budgets of single records: the releases of a record's window, and no others, are charged to it."""

from __future__ import annotations

import pytest

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.ledger import Budget, Charge, Ledger, LedgerError, Plan
from coordinator_free.privacy.mechanisms import Gaussian, Laplace
from coordinator_free.privacy.windows import most_used

TENTH, FIFTH = Laplace(1.0, 10.0), Laplace(1.0, 5.0)


def plain(mechanisms, delta):
    return sum(1.0 / m.multiplier for m in mechanisms if m is not None)


def test_without_windows_every_release_counts() -> None:
    assert most_used(enumerate([TENTH, None, FIFTH]), []) == [TENTH, None, FIFTH]


def test_the_longest_window_counts_where_all_releases_cost_alike() -> None:
    smaller = Laplace(0.5, 5.0)  # another sensitivity, the same multiplier
    charged = list(enumerate([TENTH, smaller] * 10))
    assert len(most_used(charged, [(0, 4), (3, 9), (18, 19)])) == 7
    assert len(most_used(charged, [(0, 4)])) == 5


def test_a_record_that_is_there_throughout_is_charged_everything() -> None:
    mechanisms = [Gaussian(1.0, 10.0 - k) for k in range(8)]
    used = most_used(enumerate(mechanisms), [(0, 7), (5, 7)])
    assert total(used, 1e-3).epsilon == pytest.approx(total(mechanisms, 1e-3).epsilon)
    late = most_used(enumerate(mechanisms), [(5, 7)])
    assert total(late, 1e-3).epsilon == pytest.approx(total(mechanisms[5:], 1e-3).epsilon)


def test_windows_that_cost_differently_are_bounded_from_above() -> None:
    """One window has the two dear releases, the other the three cheap ones: no record has all five."""
    mechanisms = [FIFTH, FIFTH, TENTH, TENTH, TENTH]
    used = most_used(enumerate(mechanisms), [(0, 1), (2, 4)])
    assert plain(used, 0.0) >= max(plain(mechanisms[:2], 0.0), plain(mechanisms[2:], 0.0))


def test_releases_that_were_not_charged_cost_no_record_anything() -> None:
    assert most_used([(0, TENTH), (1, TENTH)], [(0, 5), (2, 9)]) == [TENTH, TENTH]


def test_a_plan_is_admitted_where_each_record_stays_in_its_budget() -> None:
    windows = [(0, 4), (5, 9), (10, 14)]
    ledger = Ledger(Budget(0.5, 0.0))
    ledger.admit("a", [TENTH] * 15, plain, windows)
    with pytest.raises(LedgerError, match=r"cost epsilon 1\.5"):
        ledger.admit("a", [TENTH] * 15, plain)
    with pytest.raises(LedgerError, match=r"cost epsilon 0\.6"):
        ledger.admit("a", [TENTH] * 15, plain, [(0, 4), (4, 9)])


def test_of_another_run_each_record_is_taken_to_have_the_most_used_window() -> None:
    """Another run may have other records in the same windows, so its largest window counts for all."""
    charges = [Charge("a", 0, 14, TENTH)]
    plan = Plan.of([TENTH] * 15, [(0, 4), (5, 9), (10, 14)])
    ledger = Ledger(Budget(1.0, 0.0), plan, charges)
    ledger.admit("b", [TENTH] * 5, plain)
    with pytest.raises(LedgerError, match=r"cost epsilon 1\.1"):
        ledger.admit("b", [TENTH] * 6, plain)


def test_each_run_has_the_windows_of_its_own_plan() -> None:
    charges = [Charge("a", 0, 9, TENTH), Charge("b", 0, 9, TENTH)]
    ledger = Ledger(Budget(9.0, 0.0), Plan.of([TENTH] * 10, [(0, 3)]), charges, plans={"b": Plan.of([TENTH] * 10)})
    assert len(ledger.used(charges)) == 4 + 10
