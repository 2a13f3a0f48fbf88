"""What the ledgers of a run's folder hold: read after the run, without the lock that a speaking agent has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.ledger import Budget, LedgerError
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.parameters import gdp, zcdp
from coordinator_free.release import FloatArray
from node.folder.ledger import LedgerFile


@dataclass(frozen=True, slots=True)
class SpentEpsilon:
    """The ``epsilon`` of results.json; None without a budget, and where something was released without noise."""

    budget: float | None
    charged_max: float | None
    charged_mean: float | None
    delta: float | None
    accountant: str | None
    zcdp_rho: float | None = None
    """The largest over agents, as ``gdp_mu``; None also where the noise has none."""
    gdp_mu: float | None = None


@dataclass(frozen=True)
class Spending:
    """What the agents' ledgers hold together.

    ``epsilons`` (n,) is what each agent was charged so far for the record that it used most; infinite where something
    was released without noise, or where the ledger cannot be read.

    ``budget`` and ``delta`` are the largest agent's, None without a budget; ``accountant`` found the largest epsilon.
    """

    epsilons: FloatArray
    budget: float | None
    delta: float | None
    accountant: str | None
    charged: int
    """Indices charged over all agents, with noise or without."""
    zcdp_rho: float | None = None
    """The largest over agents, as ``gdp_mu``; None where some charged noise has none."""
    gdp_mu: float | None = None

    def as_results(self) -> SpentEpsilon:
        """The ``epsilon`` of results.json."""
        known = self.budget is not None and len(self.epsilons) > 0
        largest = float(np.max(self.epsilons, initial=0.0))
        return SpentEpsilon(
            budget=self.budget,
            charged_max=_finite(largest) if known else None,
            charged_mean=_finite(min(float(np.mean(self.epsilons)), largest)) if known else None,
            delta=self.delta,
            accountant=self.accountant if known else None,
            zcdp_rho=self.zcdp_rho if known else None,
            gdp_mu=self.gdp_mu if known else None,
        )


def spent(folder: Path) -> Spending:
    """What all agents of the run in ``folder`` were charged, everything from before included."""
    epsilons: list[float] = []
    budget: Budget | None = None
    worst, accountant, charged = -1.0, None, 0
    rhos: list[float | None] = []
    mus: list[float | None] = []
    for path in sorted(folder.glob("agents/agent-*/ledger.jsonl")):
        try:
            with LedgerFile.read(path, None) as ledger:
                own, charges, used = ledger.budget, ledger.charges(), ledger.used()
        except LedgerError:
            epsilons.append(math.inf)
            rhos.append(None)
            mus.append(None)
            continue
        if own is not None and (budget is None or own.epsilon > budget.epsilon):
            budget = own
        epsilon, found = _total(used, own or budget)
        epsilons.append(epsilon)
        rhos.append(zcdp(used))
        mus.append(gdp(used))
        charged += sum(charge.count for charge in charges)
        if epsilon > worst:
            worst, accountant = epsilon, found
    return Spending(
        epsilons=np.array(epsilons, dtype=np.float64),
        budget=None if budget is None else budget.epsilon,
        delta=None if budget is None else budget.delta,
        accountant=accountant,
        charged=charged,
        zcdp_rho=_largest(rhos),
        gdp_mu=_largest(mus),
    )


def _total(used: Sequence[Mechanism | None], budget: Budget | None) -> tuple[float, str | None]:
    """Under a budget, what has no mechanism holds nothing of the data; without one, it is the data in the open."""
    if budget is None:
        return (math.inf if used else 0.0), None
    found = total(used, budget.delta)
    return found.epsilon, found.accountant


def epsilon_of(used: Sequence[Mechanism | None], budget: Budget | None) -> float | None:
    """The epsilon of releases of these mechanisms at the budget's delta; None where it is not finite."""
    return _finite(_total(used, budget)[0])


def _largest(figures: list[float | None]) -> float | None:
    """The largest over all agents; None where one has no finite figure."""
    there = [figure for figure in figures if figure is not None and math.isfinite(figure)]
    return max(there) if there and len(there) == len(figures) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
