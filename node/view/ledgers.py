"""What the page shows of ledgers: charges, and the epsilon that they add up to, by the one accountant.

Rules that hold here:
- Only charges leave this module. A ledger also holds nonces of the noise and states of its agent; they are not shown.
- No epsilon is estimated: each is the accountant's total of whole charges.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.privacy.ledger import Charge, LedgerError
from node.folder.ledger import LedgerFile
from node.folder.spending import epsilon_of
from node.places import agent_folder

_MOST_TOTALS = 24
"""Charges of one agent at which the accountant is asked; the first and the last are among them."""
Step = tuple[int, float | None]


def burned(folder: Path, agent: int, run: bytes | None) -> dict[str, Any] | None:
    """What an agent's ledger was charged, in order.

    Parameters
    ----------
    folder
        The run's folder.
    agent
        Whose ledger it is.
    run
        The run that is shown; what other runs charged comes before it.

    Returns
    -------
    dict or None
        ``budget`` and ``delta``; ``before``, the epsilon of other runs; ``charges`` of this run with ``first``,
        ``last``, ``mechanism``, ``norm``, ``sensitivity``, ``scale``; ``steps``, pairs of an index and the epsilon
        after the charge that begins with it. None for an epsilon that is not finite. None where there is no ledger to
        read.
    """
    try:
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", None) as held:
            ledger, charges = held.ledger, held.charges()
    except LedgerError:
        return None
    name = "" if run is None else run.hex()
    before = [charge for charge in charges if charge.run != name]
    own = [charge for charge in charges if charge.run == name]
    budget = ledger.budget

    def epsilon(counted: Sequence[Charge]) -> float | None:
        return epsilon_of(ledger.used(counted), budget)

    places = np.unique(np.linspace(0, len(own) - 1, min(len(own), _MOST_TOTALS)).round().astype(int)).tolist()
    return {
        "budget": None if budget is None else budget.epsilon,
        "delta": None if budget is None else budget.delta,
        "before": epsilon(before),
        "charges": [{"first": c.first, "last": c.last, **_described(c)} for c in own],
        "steps": [(own[place].first, epsilon([*before, *own[: place + 1]])) for place in places] if own else [],
    }


def _described(charge: Charge) -> dict[str, Any]:
    if charge.mechanism is None:
        return {"mechanism": None}
    written = charge.mechanism.describe()
    found = {key: written.get(key) for key in ("norm", "sensitivity", "scale")}
    return {"mechanism": written["name"], **found}


class Budgets:
    """The steps of all agents' ledgers; a ledger that has not changed is not read again."""

    def __init__(self, folder: Path, agents: int, run: bytes | None) -> None:
        self._folder, self._agents, self._run = folder, agents, run
        self._known: dict[int, tuple[tuple[int, int], dict[str, Any] | None]] = {}

    def now(self) -> dict[str, Any]:
        """Return ``budget`` (the largest), ``delta``, and for each agent its ``steps``, None without a ledger."""
        found = [self._of(agent) for agent in range(self._agents)]
        budgets = [one["budget"] for one in found if one is not None and one["budget"] is not None]
        deltas = [one["delta"] for one in found if one is not None and one["delta"] is not None]
        return {
            "budget": max(budgets, default=None),
            "delta": max(deltas, default=None),
            "before": [None if one is None else one["before"] for one in found],
            "steps": [None if one is None else one["steps"] for one in found],
        }

    def _of(self, agent: int) -> dict[str, Any] | None:
        try:
            stat = (agent_folder(self._folder, agent) / "ledger.jsonl").stat()
        except OSError:
            return None
        mark = (stat.st_mtime_ns, stat.st_size)
        known = self._known.get(agent)
        if known is None or known[0] != mark:
            known = self._known[agent] = (mark, burned(self._folder, agent, self._run))
        return known[1]
