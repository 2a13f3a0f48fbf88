"""Earlier runs that dealt the same rows: budgets of several runs on the same data add up, so each is named.

A run is found by the digest of its data, in the folders beside a run's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from node.folder.spending import spent


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run on the same data, and what its ledgers hold; no epsilons where its releases had no noise."""

    run: str
    """The name of its folder."""
    epsilon_max: float | None
    epsilon_mean: float | None
    delta: float | None


def earlier_runs(folder: Path, data_digest: str) -> list[EarlierRun]:
    """Runs beside ``folder`` (and what is in ``folder`` itself) that dealt the same rows, and what their ledgers hold.

    A run that was charged nothing is left out.
    """
    found = []
    if not folder.parent.is_dir():
        return []
    for dealt in sorted(folder.parent.glob("*/dealt.json")):
        try:
            same = json.loads(dealt.read_text(encoding="utf-8")).get("data_digest") == data_digest
        except (OSError, ValueError, AttributeError):
            continue
        if same:
            spending = spent(dealt.parent)
            if spending.charged:
                epsilon = spending.as_results()
                found.append(EarlierRun(dealt.parent.name, epsilon.charged_max, epsilon.charged_mean, epsilon.delta))
    return found
