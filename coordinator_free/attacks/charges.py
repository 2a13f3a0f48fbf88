"""Releases against ledgers: every recorded release must be charged once, as the configuration asks.

Rules that hold here:
- Values only: logs and ledgers are read elsewhere.
- Each breach is one finding: one line that names the agent and the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator_free.attacks.noise_tests import on_grid
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.ledger import covers
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.windows import Windows, most_used
from coordinator_free.release import Release

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Charge:
    """Indices ``first`` to ``last`` were each charged ``mechanism`` (None: released without noise)."""

    first: int
    last: int
    mechanism: Mechanism | None


@dataclass(frozen=True)
class Account:
    """One agent's ledger, as an auditor needs it.

    ``charges`` of the run that is audited, ``earlier`` the mechanisms that other runs on the same shard charged a
    record at most, ``budget`` the (epsilon, delta) of each record, None where nothing is private. ``windows``: for each
    record, the releases that may use it; empty: all.
    """

    charges: Sequence[Charge]
    earlier: Sequence[Mechanism | None] = ()
    budget: tuple[float, float] | None = None
    windows: Windows = ()

    def mechanism(self, index: int) -> Mechanism | None:
        """What release ``index`` was charged; None if nothing, or nothing was charged."""
        for charge in self.charges:
            if charge.first <= index <= charge.last:
                return charge.mechanism
        return None

    def all_charged(self, record: int | None = None) -> list[Mechanism | None]:
        """Every mechanism charged so far to ``record``, sent or not; by default to the record that is used most."""
        mine = [(index, charge.mechanism) for charge in self.charges for index in range(charge.first, charge.last + 1)]
        windows = self.windows if record is None or not self.windows else [self.windows[record]]
        return [*self.earlier, *most_used(mine, windows)]


Expected = Mapping[int, Mechanism | None]
"""What each index costs by the configuration."""


def check_charges(
    agent: int, said: Iterable[Release], account: Account, expected: Expected, *, follows: bool = False
) -> list[str]:
    """Findings about one agent: ``said`` are all its recorded releases, repeats too.

    ``follows``: its noise follows a public model, so that a charge may name less than what is expected at most. Whether
    the noise is that of the model is tested with the noise itself.
    """
    findings: list[str] = []
    covered: dict[int, Mechanism | None] = {}
    for charge in account.charges:
        for index in range(charge.first, charge.last + 1):
            if index in covered:
                findings.append(f"agent {agent} release {index}: charged twice")
            covered[index] = charge.mechanism
    bodies: dict[int, bytes] = {}
    for release in said:
        index, body = release.index, release.vector.tobytes()
        before = bodies.setdefault(index, body)
        if before != body:
            findings.append(
                f"agent {agent} release {index}: received with two different bodies, its noise was drawn again"
            )
            continue
        findings += _check_one(agent, release, covered, expected, follows=follows)
    findings += _check_budget(agent, account)
    return list(dict.fromkeys(findings))


def _check_one(
    agent: int, release: Release, covered: Mapping[int, Mechanism | None], expected: Expected, *, follows: bool
) -> list[str]:
    index = release.index
    due = expected.get(index)
    if index not in expected:
        return [f"agent {agent} release {index}: no such index in the configuration"]
    if due is None:
        return []
    if index not in covered:
        return [f"agent {agent} release {index}: never charged"]
    findings = []
    if covered[index] is None:
        findings.append(f"agent {agent} release {index}: charged nothing, though its noise was due")
    elif not (_alike(covered[index], due) or (follows and covers(due, covered[index]))):
        findings.append(f"agent {agent} release {index}: charged {_said(covered[index])}, configured is {_said(due)}")
    if not on_grid(release.vector):
        findings.append(f"agent {agent} release {index}: not on the public grid")
    return findings


def _check_budget(agent: int, account: Account) -> list[str]:
    if account.budget is None:
        return []
    epsilon, delta = account.budget
    # What was charged nothing costs nothing: where something was due, `_check_one` has found it.
    spent = total(account.all_charged(), delta).epsilon
    if spent > epsilon * (1.0 + _TOLERANCE) + _TOLERANCE:
        return [f"agent {agent}: over budget, charged epsilon {spent:.4g} of {epsilon:g}"]
    return []


def _alike(one: Mechanism | None, other: Mechanism | None) -> bool:
    """Ledgers hold the exact numbers, so only the last bit of a printed number may differ."""
    if one is None or other is None:
        return one is other
    return (
        one.name == other.name
        and abs(one.sensitivity - other.sensitivity) <= 1e-12 * other.sensitivity
        and abs(one.scale - other.scale) <= 1e-12 * other.scale
        and abs(_jacobian(one) - _jacobian(other)) <= 1e-12
    )


def _jacobian(mechanism: Mechanism) -> float:
    """What every release of a perturbed objective loses; 0 for other mechanisms."""
    return float(getattr(mechanism, "jacobian", 0.0))


def _said(mechanism: Mechanism | None) -> str:
    if mechanism is None:
        return "nothing"
    return f"{mechanism.name} noise of scale {mechanism.scale:.4g} for sensitivity {mechanism.sensitivity:.4g}"
