"""What the ledgers of a run's folder hold: read after the run, without the lock that a speaking agent has."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.ledger import Plan
from coordinator_free.privacy.mechanisms import Mechanism, from_description
from coordinator_free.release import FloatArray


@dataclass(frozen=True)
class Spending:
    """Per agent: epsilon charged so far, shape (n,), infinite where something was released without noise.

    ``budget`` and ``delta`` are the largest agent's, None without a budget; ``accountant`` found the largest epsilon.
    """

    epsilons: FloatArray
    budget: float | None
    delta: float | None
    accountant: str | None
    charged: int
    """Indices charged over all agents, with noise or without."""

    def as_results(self) -> dict[str, Any]:
        """The ``epsilon`` of results.json; null without a budget."""
        known = self.budget is not None and len(self.epsilons) > 0
        largest = float(np.max(self.epsilons, initial=0.0))
        return {
            "budget": self.budget,
            "charged_max": _finite(largest) if known else None,
            "charged_mean": _finite(min(float(np.mean(self.epsilons)), largest)) if known else None,
            "delta": self.delta,
            "accountant": self.accountant if known else None,
        }

    def summary(self) -> dict[str, Any]:
        """For naming an earlier run: ``epsilon_max``, ``epsilon_mean`` and ``delta``."""
        results = self.as_results()
        return {
            "epsilon_max": results["charged_max"],
            "epsilon_mean": results["charged_mean"],
            "delta": self.delta,
        }


def spent(folder: Path) -> Spending:
    """What all agents of the run in ``folder`` were charged, everything from before included."""
    epsilons: list[float] = []
    budget: dict[str, Any] | None = None
    worst, accountant, charged = -1.0, None, 0
    for ledger in sorted(folder.glob("agents/agent-*/ledger.jsonl")):
        header, charges = read_ledger(ledger)
        own = header.get("budget")
        if own and (budget is None or own["epsilon"] > budget["epsilon"]):
            budget = own
        epsilon, found = _total(charges, own or budget)
        epsilons.append(epsilon)
        charged += sum(count for _, count in charges)
        if epsilon > worst:
            worst, accountant = epsilon, found
    return Spending(
        epsilons=np.array(epsilons, dtype=np.float64),
        budget=None if budget is None else float(budget["epsilon"]),
        delta=None if budget is None else float(budget["delta"]),
        accountant=accountant,
        charged=charged,
    )


Charges = tuple[tuple[Mechanism | None, int], ...]
"""Mechanisms and how many indices each was charged for."""


def read_ledger(path: Path) -> tuple[dict[str, Any], Charges]:
    """The header of a ledger and all its charges; a torn last line counts for all that it could have covered."""
    lines = path.read_bytes().split(b"\n")
    header = _record(lines[0]) or {}
    charges: Counter[Mechanism | None] = Counter()
    following, torn = 0, bool(lines.pop())
    for line in lines[1:]:
        record = _record(line)
        if record is None:
            torn = True
            continue
        if "again" in record:
            continue
        described = record["mechanism"]
        charges[None if described is None else from_description(described)] += record["last"] - record["first"] + 1
        following = record["last"] + 1
    plan = Plan(tuple((count, None if m is None else from_description(m)) for count, m in header.get("plan", [])))
    if torn and following < plan.releases:
        end, mechanism = plan.alike(following)
        charges[mechanism] += end - following + 1
    return header, tuple(charges.items())


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line[:-9])
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _total(charges: Charges, budget: dict[str, Any] | None) -> tuple[float, str | None]:
    """Under a budget, what has no mechanism holds nothing of the data; without one, it is the data in the open."""
    if budget is None:
        return (math.inf if charges else 0.0), None
    found = total((mechanism for mechanism, count in charges for _ in range(count)), float(budget["delta"]))
    return found.epsilon, found.accountant


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
