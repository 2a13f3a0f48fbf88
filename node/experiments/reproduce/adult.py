"""What the figures of papers 000, 001 and 002 share: private ADMM on the Adult rows, its losses and its totals.

Rules that hold here:
- ``as published``: the noise and the claim of one round as printed; beside it the true total over all rounds, at
  delta 1e-5, of the very releases that were made.
- ``truly private``: the same number as the total over all rounds.
- Loss is the mean logistic loss of the agents' released models on their own training rows, without the factor C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator_free.problem import baselines
from coordinator_free.release import FloatArray
from node.experiments.reproduce import PUBLISHED, TRULY, Request
from node.experiments.trial import Trial

DELTA = 1e-5
CAPACITY = 1750.0
UNLIMITED = 1e6
"""Budget of a run as published: its ledger counts, it does not limit."""
MAJORITY = "the majority class alone is right for 0.754 of adult.test"
NOTES = [
    "Rows: adult.data, 30,162 people without missing values; test: adult.test. Columns are scaled by public bounds, "
    "rows to L2 norm at most 1; the paper divides columns by their maxima (--set data.as_published=true).",
    "Neither eta nor the number of rounds to the figures is printed in 000 and 002: eta = 0.5 as in 001, fewer rounds "
    "than 100 by default; --set clock.updates=100 for as many.",
]
WHAT = "the folder that holds adult.data and adult.test"


def census(agents: int = 5, **data: Any) -> dict[str, Any]:
    """The table that the runs start from: a ring of ``agents``."""
    return {
        "data": {"source": "adult", "path": "", "agents": agents, "test": "published", **data},
        "topology": {"kind": "ring"},
        "learning": {
            "loss": "logistic",
            "regularisation": 0.01,
            "capacity": CAPACITY,
            "rho": 10**-2.5,
            "regulariser": "per-node",
            "penalty": 0.5,
        },
        "clock": {"updates": 20},
        "network": {"deadline": 240.0},
    }


def method(name: str, reading: str, alpha: float) -> dict[str, Any]:
    """Changes of the table for "dvp" or "pvp" in one reading; alpha is per round as published, else the total."""
    base = {"privacy.delta": DELTA, "privacy.clip": 1.0}
    if reading == PUBLISHED:
        kind = {"dvp": "PublishedDual", "pvp": "PublishedPrimal"}[name]
        changes = {
            **base,
            "learning.algorithm": f"node.experiments.reproduce.published:{kind}",
            "learning.parameters": {"alpha": alpha},
            "privacy.mechanism": "gamma-norm",
            "privacy.epsilon": UNLIMITED,
        }
        if name == "pvp":
            changes |= {"learning.pvp_form": "as_published", "learning.rho": 0.1, "learning.capacity": 146.0}
        return changes
    if name == "dvp":
        return {
            **base,
            "learning.algorithm": "dvp",
            "privacy.mechanism": "gamma-norm",
            "privacy.epsilon": alpha,
            "learning.rho": 0.0175,
            "learning.penalty": 0.73,
            "clock.updates": 5,
        }
    return {
        **base,
        "learning.algorithm": "pvp",
        "learning.pvp_form": "own-release",
        "privacy.mechanism": "gaussian",
        "privacy.epsilon": alpha,
        "learning.rho": 0.0175,
        "learning.penalty": 0.875,
    }


@dataclass(frozen=True)
class Run:
    """One run: ``losses`` by round (T,), those of the time average, errors on the test rows, true epsilon."""

    losses: FloatArray
    error: float
    average_error: float
    average_loss: float
    epsilon: float | None


def judged(trial: Trial) -> Run:
    """Losses by round of what was released, and errors at the end."""
    rounds = max((release.round or 0) for release in trial.releases) + 1
    losses = np.zeros((rounds, trial.preparation.agents))
    for release in trial.releases:
        losses[release.round or 0, release.sender] = _loss(trial, release.sender, release.vector)
    average = trial.released_average
    return Run(
        losses=losses.mean(axis=1),
        error=1.0 - float(np.mean(trial.scores(trial.models))),
        average_error=1.0 - float(np.mean(trial.scores(average))),
        average_loss=float(np.mean([_loss(trial, i, average) for i in range(trial.preparation.agents)])),
        epsilon=trial.epsilon,
    )


def _loss(trial: Trial, agent: int, model: FloatArray) -> float:
    problem = trial.problems[agent]
    return float(problem.loss.values(model, problem.x, problem.y).mean())


@dataclass(frozen=True)
class Baseline:
    """Losses on training rows and errors on test rows of the zero model, of nodes alone, and of all rows pooled."""

    loss: dict[str, float]
    error: dict[str, float]


def baseline(trial: Trial) -> Baseline:
    n = trial.preparation.agents
    pooled = baselines.pooled(trial.problems, 0.01)
    models = {
        "zero model": np.zeros((n, len(pooled))),
        "alone": baselines.alone(trial.problems),
        "pooled": np.tile(pooled, (n, 1)),
    }
    return Baseline(
        {name: float(np.mean([_loss(trial, i, own[i]) for i in range(n)])) for name, own in models.items()},
        {name: 1.0 - float(np.mean(trial.scores(own))) for name, own in models.items()},
    )


Sweep = Mapping[tuple[str, str, float], Sequence[Run]]


def sweep(
    request: Request,
    names: Sequence[str],
    alphas: Sequence[float],
    seeds: int,
    readings: Sequence[str] = (PUBLISHED, TRULY),
) -> tuple[dict[tuple[str, str, float], list[Run]], Baseline]:
    """Runs by (method, reading, alpha), and the baselines of the first deal."""
    found: dict[tuple[str, str, float], list[Run]] = {}
    base: Baseline | None = None
    table = census()
    for seed in range(seeds):
        for name in names:
            for reading in readings:
                for alpha in alphas:
                    label = f"{name}-{reading.replace(' ', '-')}-{alpha:g}".replace(".", "_")
                    trial = request.play(label, table, method(name, reading, alpha), seed)
                    base = base or baseline(trial)
                    found.setdefault((name, reading, alpha), []).append(judged(trial))
    assert base is not None
    return found, base


def rows_of(found: Mapping[tuple[str, str, float], Sequence[Run]], base: Baseline) -> list[dict[str, Any]]:
    """The table of a sweep, with the baselines below it."""
    rows = [
        {
            "method": name.upper(),
            "reading": reading,
            "alpha": alpha,
            "alpha is": "per round" if reading == PUBLISHED else "the total",
            "true total": max((run.epsilon or 0.0) for run in runs),
            "last loss": _mean([float(run.losses[-1]) for run in runs]),
            "loss of average": _mean([run.average_loss for run in runs]),
            "error": _mean([run.error for run in runs]),
            "error of average": _mean([run.average_error for run in runs]),
        }
        for (name, reading, alpha), runs in found.items()
    ]
    keys = list(rows[0])
    for name in base.loss:
        row: dict[str, Any] = dict.fromkeys(keys)
        row |= {
            "method": name,
            "reading": "no privacy",
            "alpha is": "",
            "last loss": base.loss[name],
            "error": base.error[name],
        }
        rows.append(row)
    return rows


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
