"""The two documents of a scored run: ``results.json``, which scripts rely on, and ``details.json``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator_free.release import FloatArray
from coordinator_free.theory.staleness import Staleness
from node.faults.log import read_faults
from node.folder.counted import Counted
from node.folder.endings import failures_of
from node.folder.manifest import read_json
from node.folder.plain import plain
from node.folder.run import RunFolder
from node.folder.spending import Spending
from node.results.curve import Curve
from node.results.heard import Heard
from node.results.scores import Scores, mean_of, number

NOT_COVERED = (
    "alone, pooled, zero and best_ridge, which are computed from the data",
    "together, finish and every other figure on held-out rows",
    "finish models, which are never released",
)
VERSION = 1
"""Of ``results.json``, as ``node/schemas/results.schema.json`` describes it; documents without one are older."""


def results_of(
    run: RunFolder,
    scores: Scores,
    spending: Spending,
    heard: Heard | None,
    counted: Sequence[Counted | None],
    optimum_gap: float | None,
) -> dict[str, Any]:
    """Make ``results.json``. ``watch.json``, if there is one, says what only a launcher knows."""
    watch = read_json(run.folder / "watch.json")
    summaries = {kind: scores.summary(kind) for kind in ("alone", "together", "released_average", "finish", "pooled")}
    return {
        "version": VERSION,
        "algorithm": run.configuration.learning.algorithm,
        "world": watch.get("world", "processes"),
        "agents": run.agents,
        "metric": plain(run.manifest.metric),
        **summaries,
        "optimum_gap": number(optimum_gap),
        "epsilon": spending.as_results(),
        "capture": heard.capture if heard is not None else None,
        "wire": {
            "bytes": sum(count.bytes for count in counted if count is not None),
            "dropped_by_reason": dict(_dropped(counted)),
        },
        "time": {
            "ready_s": _ready(watch, counted),
            "wall_s": watch.get("wall_s") or (heard.seconds if heard else None),
        },
        "memory": {"pss_mb_per_agent": _memory(counted)},
        "failures": watch["failures"] if "failures" in watch else failures_of(run.folder, range(run.agents)),
        "network": _network(counted, read_faults(run.folder)),
        "staleness": _staleness(heard.staleness if heard is not None else None),
        "public_assumptions": list(run.manifest.public_assumptions),
    }


def details_of(
    run: RunFolder,
    scores: Scores,
    spending: Spending,
    heard: Heard | None,
    counted: Sequence[Counted | None],
    ridge: tuple[float, FloatArray] | None,
) -> dict[str, Any]:
    """Make ``details.json``: what tables, pictures and the report show besides the results."""
    kinds = scores.kinds
    quarters = []
    for group in scores.quarters():
        sizes = scores.records[group]
        means = {kind: mean_of(values[group]) for kind, values in kinds.items()}
        quarters.append({"agents": int(group.size), "records": [int(sizes.min()), int(sizes.max())], **means})
    return {
        "record": run.manifest.record,
        "private": run.configuration.private,
        "simulation": run.manifest.simulation,
        "not_covered_by_epsilon": list(NOT_COVERED) if run.configuration.private else [],
        "warnings": list(run.manifest.warnings),
        "earlier_runs": read_json(run.folder / "dealt.json").get("earlier_runs", []),
        "zero": scores.summary("zero"),
        "best_ridge": scores.summary("best_ridge"),
        "best_ridge_multiple": ridge[0] if ridge is not None else None,
        "quarters": quarters,
        "capture": heard.words if heard is not None else None,
        "releases_per_agent": mean_of(
            np.array([math.nan if count is None else float(count.sent) for count in counted])
        ),
        "bytes_per_agent": mean_of(np.array([math.nan if c is None else float(c.bytes) for c in counted])),
        "curve": None if heard is None or heard.curve is None else _curve(heard.curve, heard.ages),
        "agents": {
            "name": list(run.manifest.names),
            "records": [int(m) for m in scores.records],
            "test_records": [len(rows.y_test) for rows in run.rows],
            **{kind: [number(value) for value in values] for kind, values in kinds.items()},
            "epsilon": [number(value) for value in spending.epsilons],
            "releases": [None if count is None else count.sent for count in counted],
            "bytes": [None if count is None else count.bytes for count in counted],
        },
    }


def _curve(curve: Curve, ages: Sequence[float]) -> dict[str, list[float | None]]:
    return {
        "releases": [number(value) for value in curve.releases],
        "gap": [number(value) for value in curve.gap],
        "metric": [number(value) for value in curve.metric],
        "age": [number(value) for value in ages],
    }


def _dropped(counted: Sequence[Counted | None]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counted:
        total.update({} if count is None else count.dropped_by_reason)
    return total


def _network(counted: Sequence[Counted | None], faults: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What network conditions did on each link, in releases, and which faults happened; None without either."""
    if not faults and not any(count is not None and count.links is not None for count in counted):
        return None
    links = [
        {"from": int(sender), "to": count.agent, **{key: link[key] for key in link if key != "lost_first"}}
        for count in counted
        if count is not None
        for sender, link in (count.links or {}).items()
    ]
    return {"links": links, "faults": faults}


def _ready(watch: dict[str, Any], counted: Sequence[Counted | None]) -> float | None:
    if watch.get("ready_s") is not None:
        return float(watch["ready_s"])
    times = [count.ready_s for count in counted if count is not None and count.ready_s]
    return max(times, default=None)


def _memory(counted: Sequence[Counted | None]) -> float | None:
    sizes = [count.pss_kb for count in counted if count is not None and count.pss_kb]
    return float(np.mean(sizes)) / 1024 if sizes else None


def _staleness(found: Staleness | None) -> dict[str, Any] | None:
    """Return the ages of the models that were used, in releases of their senders; None where none was received."""
    if found is None:
        return None
    return {
        "mean": found.mean,
        "median": found.quantile(0.5),
        "p95": found.quantile(0.95),
        "max": found.largest,
        "ages": found.ages,
        "histogram": [[int(age), int(found.counts[age])] for age in np.flatnonzero(found.counts)],
        "agents": [number(mean) for mean in found.means],
    }
