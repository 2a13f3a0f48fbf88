"""Figures of Kang, Liu and Wang (WD-DP), without their server, and as each observer sees them.

Rules that hold here:
- ``as published``: every party's noise is for the total size n, as in Theorem 1; beside it stands the true epsilon of
  who sees a party's model and of who sees only the sum.
- ``truly private``: the same number is the total of what the named observer learns: of each release, or of the sum.
- Accuracy is on held-out rows, the mean over agents; the optimal gap is the mean logistic loss on all training rows
  minus that of the optimum without privacy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np

from coordinator_free import baselines
from coordinator_free.agents.averaging import Averaging
from coordinator_free.privacy.observer import truth
from coordinator_free.release import FloatArray
from node.reproduce import OPEN, PUBLISHED, TRULY, Reproduction, Request
from node.trial import Trial

DELTA = 1e-3
EPSILONS = (0.01, 0.05, 0.25)
UNEVEN = (1.0, 3.0, 9.0)
WHAT = "the folder that holds adult.data and adult.test"


class SimpleAverage(Averaging):
    """Jayaraman et al. 2018 as the paper runs it: an equal average, each party's noise for m n_min records.

    Its claim, like the paper's, holds for no observer.
    """

    def _counted(self) -> int:
        return len(self._sizes) * min(size for size in self._sizes if size)


_LOCAL = {"learning.algorithm": "averaging", "learning.local_steps": 50, "learning.step": 1.0, "privacy.clip": 1.0}
_TOGETHER = {"learning.algorithm": "gradient-descent", "learning.momentum": 0.8, "privacy.clip": 0.5}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "WD-DP": (PUBLISHED, _LOCAL | {"privacy.observer": "as_published"}),
    "simple average": (
        PUBLISHED,
        _LOCAL
        | {
            "learning.algorithm": "node.reproduce.paper003:SimpleAverage",
            "learning.weighting": "equal",
            "privacy.observer": "as_published",
        },
    ),
    "WD-DP, each release seen": (TRULY, _LOCAL),
    "simple average, each release seen": (TRULY, _LOCAL | {"learning.weighting": "equal"}),
    "output perturbation, each release seen": (
        TRULY,
        _LOCAL | {"learning.local": "output-perturbation", "learning.anchor_regularisation": 500.0},
    ),
    "descent in step, each release seen": (TRULY, _TOGETHER | {"learning.step": 5.0, "clock.updates": 50}),
    "descent in step, masked sums": (
        TRULY,
        _TOGETHER
        | {
            "learning.step": 3.0,
            "clock.updates": 60,
            "learning.aggregation": "masked-sum",
            "privacy.observer": "sum",
        },
    ),
}


def table(agents: int, **data: Any) -> dict[str, Any]:
    """What all runs start from: a complete graph, Adult, a fifth held out."""
    return {
        "data": {"source": "adult", "path": "", "agents": agents, "held_out": 0.2, **data},
        "topology": {"kind": "complete"},
        "learning": {"loss": "logistic", "regularisation": 0.01},
        "clock": {"updates": 1},
        "privacy": {"mechanism": "gaussian", "delta": DELTA},
        "network": {"deadline": 240.0},
    }


def figure1(request: Request) -> Reproduction:
    """Accuracy and optimal gap over epsilon; parties of random sizes, m = 32 (or ``--set data.agents=...``)."""
    settings = [({"privacy.epsilon": epsilon}, {"epsilon": epsilon}) for epsilon in EPSILONS]
    rows = _rows(request, "figure1", table(32, split="random", floor=100), settings)
    return Reproduction(
        "paper003/figure1",
        "accuracy over epsilon, Adult, parties of random sizes",
        "WD-DP beats the simple average and is similar to centralised noisy descent; all grow with epsilon (plots)",
        rows,
        [*_findings(rows, "epsilon"), *_truths(rows)],
        _notes(request),
    )


def figure2(request: Request) -> Reproduction:
    """Accuracy and optimal gap over the level of non-average u = n_max / n_min; epsilon 0.05, m = 16."""
    settings = [({"privacy.epsilon": 0.05, "data.ratio": u}, {"u": u}) for u in UNEVEN]
    rows = _rows(request, "figure2", table(16, split="ratio", ratio=1.0), settings)
    return Reproduction(
        "paper003/figure2",
        "accuracy over the level of non-average u, Adult, epsilon 0.05",
        "WD-DP is steady in u; the simple average falls rapidly or fluctuates (plots)",
        rows,
        [*_findings(rows, "u"), *_truths(rows)],
        _notes(request),
    )


def optimal_gap(request: Request) -> Reproduction:
    """The optimal gap over epsilon for m = 2, 8 and 32 parties of random sizes (figures 3 to 11)."""
    settings = [
        ({"privacy.epsilon": epsilon, "data.agents": m}, {"m": m, "epsilon": epsilon})
        for m in (4, 8, 32)
        for epsilon in EPSILONS[1:]
    ]
    rows = _rows(request, "optimal-gap", table(8, split="random", floor=100), settings)
    return Reproduction(
        "paper003/optimal-gap",
        "optimal gap over epsilon and the number of parties, Adult",
        "WD-DP's gap is below that of the simple average and falls with epsilon (plots)",
        rows,
        [*_findings(rows, "m"), *_truths(rows)],
        _notes(request),
    )


def _rows(
    request: Request,
    name: str,
    start: Mapping[str, Any],
    settings: Sequence[tuple[dict[str, Any], dict[str, Any]]],
) -> list[dict[str, Any]]:
    rows = []
    for changes, shown in settings:
        scores: dict[str, list[float]] = defaultdict(list)
        gaps: dict[str, list[float]] = defaultdict(list)
        truths: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for seed in range(request.runs(3)):
            base: tuple[FloatArray, float] | None = None
            for method, (_, own) in METHODS.items():
                trial = request.play(_slug(name, method, shown), start, {**changes, **own}, seed)
                if base is None:
                    pooled = baselines.pooled(trial.problems, 0.01)
                    base = pooled, _loss(trial, pooled)
                    # Noise for m n_min records with equal weights is worth what equal parties' noise is.
                    for name, sizes in (("WD-DP", trial.records), ("simple average", [1] * len(trial.records))):
                        true = truth(changes["privacy.epsilon"], DELTA, sizes)
                        truths[name].append((true.releases, true.sum))
                    majority = np.concatenate([y for _, y in trial.tests])
                    scores["majority class"].append(float(np.mean(majority == -1.0)))
                    scores["no privacy, pooled"].append(float(np.mean(trial.scores(pooled))))
                    scores["each alone, no privacy"].append(
                        float(np.mean(trial.scores(baselines.alone(trial.problems))))
                    )
                scores[method].append(float(np.mean(trial.scores(trial.models))))
                gaps[method].append(_loss(trial, trial.models[0]) - base[1])
        for method, found in scores.items():
            reading = METHODS[method][0] if method in METHODS else OPEN
            rows.append(
                {
                    **shown,
                    "method": method,
                    "reading": reading,
                    "accuracy": mean(found),
                    "deviation": stdev(found) if len(found) > 1 else None,
                    "optimal gap": mean(gaps[method]) if method in gaps else None,
                    "true epsilon of a release": max(t for t, _ in truths[method]) if reading == PUBLISHED else None,
                    "true epsilon of the sum": max(t for _, t in truths[method]) if reading == PUBLISHED else None,
                }
            )
    return rows


def _loss(trial: Trial, model: FloatArray) -> float:
    x = np.concatenate([problem.x for problem in trial.problems])
    y = np.concatenate([problem.y for problem in trial.problems])
    return float(trial.judge.values(model, x, y).mean())


def _slug(*parts: Any) -> str:
    words = " ".join(str(part) for part in parts)
    return "-".join("".join(c if c.isalnum() else " " for c in words).lower().split())


def _findings(rows: Sequence[Mapping[str, Any]], over: str) -> list[str]:
    found = []
    for reading, weighted, equal in (
        (PUBLISHED, "WD-DP", "simple average"),
        (TRULY, "WD-DP, each release seen", "simple average, each release seen"),
    ):
        pairs: dict[Any, dict[str, float]] = defaultdict(dict)
        for row in rows:
            if row["method"] in {weighted, equal}:
                pairs[row[over]][row["method"]] = row["accuracy"]
        gains = [pair[weighted] - pair[equal] for pair in pairs.values() if len(pair) == 2]
        if gains:
            shown = ", ".join(f"{gain:+.3f}" for gain in gains)
            found.append(f"{reading}: weighting by size gains {shown} in accuracy over {over}.")
    return found


def _truths(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    worst = [row["true epsilon of a release"] for row in rows if row["true epsilon of a release"] is not None]
    if not worst:
        return []
    return [f"The published claims are false for every observer: up to {max(worst):.3g} for who sees a party's model."]


def _notes(request: Request) -> list[str]:
    runs = request.runs(3)
    return [
        f"{runs} run{'s' if runs > 1 else ''} of each; delta {DELTA:g}; true epsilons are the largest over the deals.",
        "Learning rates and rounds are not all printed: step 1 and 50 local steps. Rows are scaled one by one.",
    ]
