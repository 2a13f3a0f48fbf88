"""The rules of a privacy ledger: charge before you send. No files here; `node.folder.ledger` keeps one on disk.

Rules that hold here:
- A ledger belongs to one agent's data, not to a run: every run on the same data charges the same ledger, and their
  costs add up.
- An index of a run is charged at most once, and only in rising order. What is charged is spent, sent or not.
- A run may charge what was admitted, release by release, and nothing else: what the ledger was made for, or, later, a
  plan whose cost together with everything charged before stays within the budget.
- A release may be charged a smaller sensitivity than planned, at the same multiplier: it costs the same, and its noise
  follows a public model.
- Where there is a budget, a release without a mechanism is one that holds nothing of the data; it costs nothing, and
  it has to be planned as such.
- The budget is one of every record. Where records arrive during a run, a record is charged the releases of its window
  alone, and the record that is used most decides (`coordinator_free.privacy.windows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.windows import Window, Windows, most_used

Account = Callable[[Iterable["Mechanism | None"], float], float]
"""(mechanisms, delta) to their total epsilon."""

LARGEST_GROUP = 1000
"""Releases in one charge, at most, of a ledger that was made without a plan."""
_SLACK = 1.0 + 1e-9


class LedgerError(ValueError):
    """The ledger refuses: nothing may be released."""


@dataclass(frozen=True)
class Budget:
    """What all runs on the data may cost together. ``delta`` = 0: epsilons add."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf:
            raise LedgerError(f"privacy.epsilon = {self.epsilon}; accepted: a finite number above 0")
        if not 0.0 <= self.delta < 1.0:
            raise LedgerError(f"privacy.delta = {self.delta}; accepted: 0 and more, below 1")


@dataclass(frozen=True)
class Charge:
    """Indices ``first`` to ``last`` of ``run``, each at the cost of ``mechanism``."""

    run: str
    first: int
    last: int
    mechanism: Mechanism | None

    @property
    def count(self) -> int:
        """How many indices it covers."""
        return self.last - self.first + 1


def covers(planned: Mechanism | None, mechanism: Mechanism | None) -> bool:
    """Whether ``mechanism`` is the planned one, or the same with a smaller sensitivity at the same multiplier.

    Noise in an objective has no smaller sensitivity: it does not follow a public model.
    """
    if planned is None or mechanism is None or planned == mechanism or "jacobian" in planned.describe():
        return planned == mechanism
    alike = {**planned.describe(), "sensitivity": None, "scale": None}
    return (
        alike == {**mechanism.describe(), "sensitivity": None, "scale": None}
        and mechanism.sensitivity <= planned.sensitivity
        and math.isclose(mechanism.multiplier, planned.multiplier, rel_tol=1e-12)
    )


@dataclass(frozen=True)
class Plan:
    """The mechanism of each release of a run, in groups of consecutive equal ones.

    ``windows``: the different windows of the records; empty: every release uses every record.
    """

    groups: tuple[tuple[int, Mechanism | None], ...] = ()
    windows: tuple[Window, ...] = ()

    @classmethod
    def of(cls, mechanisms: Iterable[Mechanism | None], windows: Windows = ()) -> Plan:
        """The plan of a run with these mechanisms, one for each release, and these windows, one for each record."""
        groups = tuple((sum(1 for _ in alike), mechanism) for mechanism, alike in groupby(mechanisms))
        return cls(groups, tuple(sorted(set(windows))))

    @property
    def releases(self) -> int:
        """How many releases are planned."""
        return sum(count for count, _ in self.groups)

    @property
    def largest_group(self) -> int:
        """Releases in one charge, at most: a twentieth."""
        return max(1, self.releases // 20) if self.groups else LARGEST_GROUP

    def mechanisms(self) -> list[Mechanism | None]:
        """The mechanism of each release, in order."""
        return [mechanism for count, mechanism in self.groups for _ in range(count)]

    def within(self, first: int, last: int, mechanism: Mechanism | None) -> bool:
        """Whether every index from ``first`` to ``last`` may be charged ``mechanism``: see `covers`."""
        start = 0
        for count, planned in self.groups:
            if first < start + count and last >= start and not covers(planned, mechanism):
                return False
            start += count
        return last < start

    def alike(self, first: int) -> tuple[int, Mechanism | None]:
        """The last index that one charge from ``first`` on can cover, and its mechanism; ``first`` < releases."""
        start = 0
        for count, mechanism in self.groups:
            if first < start + count:
                return min(first + self.largest_group, start + count) - 1, mechanism
            start += count
        raise LedgerError(f"ledger: index {first} is not planned; accepted: 0 to {start - 1}")


@dataclass
class Ledger:
    """Everything charged to one agent's data. ``budget`` is None where no privacy is promised.

    ``plan`` is what the ledger was made for: its cost was found to be within the budget, together with that of
    ``earlier``, which is among the charges, if there is one. ``plans`` are those of runs that have another one.
    """

    budget: Budget | None
    plan: Plan = field(default_factory=Plan)
    charges: list[Charge] = field(default_factory=list)
    earlier: Charge | None = None
    plans: dict[str, Plan] = field(default_factory=dict)
    _admitted: dict[str, Plan] = field(default_factory=dict)

    def next_index(self, run: str) -> int:
        """The lowest index of ``run`` that may still be charged."""
        return max((charge.last + 1 for charge in self.charges if charge.run == run), default=0)

    def charged(self, run: str, index: int) -> Charge | None:
        """The charge that covers ``index`` of ``run``; None if there is none."""
        return next((c for c in self.charges if c.run == run and c.first <= index <= c.last), None)

    def admitted(self, run: str) -> Plan | None:
        """What ``run`` may charge; None where it was not admitted."""
        return self._admitted.get(run)

    def spent(self) -> list[Mechanism | None]:
        """The mechanisms of all charged indices, of every run."""
        return [charge.mechanism for charge in self.charges for _ in range(charge.count)]

    def used(self, charges: Iterable[Charge]) -> list[Mechanism | None]:
        """What no record was charged more than, of ``charges`` of any runs: the windows of each run count."""
        by_run: dict[str, list[tuple[int, Mechanism | None]]] = {}
        for charge in charges:
            covered = [(index, charge.mechanism) for index in range(charge.first, charge.last + 1)]
            by_run.setdefault(charge.run, []).extend(covered)
        return [m for run, charged in by_run.items() for m in most_used(charged, self.windows_of(run))]

    def windows_of(self, run: str) -> Windows:
        """The windows of the records in ``run``."""
        return self.plans.get(run, self.plan).windows

    def admit(self, run: str, mechanisms: Sequence[Mechanism | None], account: Account, windows: Windows = ()) -> None:
        """Let ``run`` charge ``mechanisms``, one for each of its releases; raises `LedgerError` if that overspends.

        ``windows`` are those of the records, one for each, where records arrive during the run.

        ``account`` is asked only where the plan is not the one that the ledger was made for, or another run charged.
        """
        plan = Plan.of(mechanisms, windows)
        others = [charge for charge in self.charges if charge.run != run]
        unknown = [charge for charge in others if charge != self.earlier]
        if self.budget is not None and (unknown or plan != self.plan):
            planned = most_used(enumerate(mechanisms), plan.windows)
            self._refuse_overspending([*self.used(others), *planned], account, f"{plan.releases} planned releases")
        self._admitted = {run: plan}

    def check(self, run: str, first: int, last: int, mechanism: Mechanism | None, account: Account) -> None:
        """Raise `LedgerError` unless indices ``first`` to ``last`` of ``run`` may be charged ``mechanism`` now."""
        following = self.next_index(run)
        if not 0 <= first <= last:
            raise LedgerError(f"ledger: indices {first} to {last}; accepted: 0 and more, in rising order")
        if first < following:
            raise LedgerError(f"ledger: index {first} is charged already, or lower than one that is; next: {following}")
        plan = self.admitted(run)
        largest = (plan or self.plan).largest_group
        if last - first + 1 > largest:
            raise LedgerError(f"ledger: a charge for {last - first + 1} releases; accepted: {largest} and fewer")
        if plan is not None:
            if not plan.within(first, last, mechanism):
                raise LedgerError(
                    f"ledger: indices {first} to {last} are planned with another mechanism, or not at all"
                )
        elif self.budget is not None:
            self._refuse_overspending([*self.spent(), *[mechanism] * (last - first + 1)], account, "this charge")

    def add(self, charge: Charge) -> None:
        """Record a charge that was checked."""
        self.charges.append(charge)

    def _refuse_overspending(self, mechanisms: list[Mechanism | None], account: Account, what: str) -> None:
        assert self.budget is not None
        epsilon = account(mechanisms, self.budget.delta)
        if epsilon > self.budget.epsilon * _SLACK:
            raise LedgerError(
                f"ledger: {what} with everything charged before would cost epsilon {epsilon:.6g} at delta "
                f"{self.budget.delta:g}; the budget is {self.budget.epsilon:g}"
            )
