"""Earlier runs that dealt the same rows: budgets of several runs on the same data add up, so each is named.

A run is found by the digest of its data, in the folders beside a run's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from node.folder.spending import spent


def earlier_runs(folder: Path, data_digest: str) -> list[dict[str, Any]]:
    """Runs beside ``folder`` (and what is in ``folder`` itself) that dealt the same rows, and what their ledgers hold.

    A run that was charged nothing is left out.

    Each is {"run", "epsilon_max", "epsilon_mean", "delta"}; epsilons are None where releases had no noise.
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
                found.append({"run": dealt.parent.name, **spending.summary()})
    return found
