"""Small configurations that tests start from."""

from __future__ import annotations

import copy
from typing import Any


def private(**changes: dict[str, Any]) -> dict[str, Any]:
    """Private coordinate descent on the schools; ``section={key: value}`` changes settings, None removes one."""
    table: dict[str, Any] = {
        "run": {"name": "schools", "seed": 7},
        "data": {"source": "schools"},
        "topology": {"kind": "random-regular", "degree": 10},
        "learning": {"loss": "squared", "mu": 20.0, "regularisation": 0.1, "finish": True},
        "clock": {"rate": 50.0, "updates": 20},
        "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 0.5},
    }
    return changed(table, changes)


def public(**changes: dict[str, Any]) -> dict[str, Any]:
    """Coordinate descent without privacy on ten agents of the synthetic task."""
    table: dict[str, Any] = {
        "run": {"name": "synthetic", "seed": 7},
        "data": {"source": "synthetic", "agents": 10, "dimension": 5},
        "topology": {"kind": "ring"},
        "learning": {"mu": 2.5},
        "clock": {"updates": 30},
    }
    return changed(table, changes)


def changed(table: dict[str, Any], changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    table = copy.deepcopy(table)
    for section, settings in changes.items():
        for key, value in settings.items():
            if value is None:
                table.setdefault(section, {}).pop(key, None)
            else:
                table.setdefault(section, {})[key] = value
    return table
