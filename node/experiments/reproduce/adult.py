"""What the figures of papers 000, 001 and 002 share: private ADMM on the Adult rows, its losses and its totals.

Rules that hold here:
- ``as published``: the noise and the claim of one round as printed; beside it the true total over all rounds, at
  delta 1e-5, of the same releases.
- ``truly private``: the same number as the total over all rounds.
- Loss is the mean logistic loss of the agents' released models on their own training rows, without the factor C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coordinator_free.problem import baselines
from coordinator_free.release import FloatArray
from node.experiments.charts import Series
from node.experiments.reproduce.figure import PUBLISHED, Row
from node.experiments.trial import Trial
from node.untyped import Changes, Tree

DATA = "the folder that holds adult.data and adult.test"
DELTA = 1e-5
CAPACITY = 1750.0
UNLIMITED = 1e6
"""Budget of a run as published: its ledger counts, it does not limit."""
MAJORITY_ERROR = 0.246
MAJORITY = "the majority class alone is right for 0.754 of adult.test"
ADULT: Changes = {
    "data.source": "adult",
    "data.test": "published",
    "learning.loss": "logistic",
    "learning.regularisation": 0.01,
}
"""Changes of every run: the task, and the regularisation of the baselines."""
PRIVATE: Changes = {"privacy.mechanism": "gamma-norm", "privacy.delta": DELTA, "privacy.clip": 1.0}
SMALL = ("data.agents=3", "clock.updates=6")
"""Overrides of the small form of a figure."""
_OWN_NAMESPACE = "node.experiments.reproduce.published"


def census(agents: int = 5, *, updates: int = 20, shared: bool = False) -> Tree:
    """The table that the runs start from: a ring of ``agents``, each with rho of its own or a ``shared`` rho of 1."""
    return {
        "data": {"path": "", "agents": agents},
        "topology": {"kind": "ring"},
        "learning": {
            "capacity": CAPACITY,
            "rho": 1.0 if shared else 10**-2.5,
            "regulariser": "shared" if shared else "per-node",
            "penalty": 0.5,
        },
        "clock": {"updates": updates},
        "network": {"deadline": 240.0},
    }


def published(kind: str, **parameters: Any) -> Changes:
    """Changes for an agent of `published` that has the printed noise."""
    return {
        **PRIVATE,
        "learning.algorithm": f"{_OWN_NAMESPACE}:{kind}",
        "learning.parameters": parameters,
        "privacy.epsilon": UNLIMITED,
    }


def method(name: str, reading: str, alpha: float) -> Changes:
    """Changes for "dvp" or "pvp" in one reading; ``alpha`` is per round as published, else the total."""
    if reading == PUBLISHED:
        if name == "dvp":
            return published("PublishedDual", alpha=alpha)
        own_noise = {"learning.pvp_form": "as_published", "learning.rho": 0.1, "learning.capacity": 146.0}
        return published("PublishedPrimal", alpha=alpha) | own_noise
    common = {**PRIVATE, "learning.algorithm": name, "learning.rho": 0.0175, "privacy.epsilon": alpha}
    if name == "dvp":
        return common | {"learning.penalty": 0.73, "clock.updates": 5}
    return common | {
        "learning.pvp_form": "own-release",
        "learning.penalty": 0.875,
        "clock.updates": 20,
        "privacy.mechanism": "gaussian",
    }


@dataclass(frozen=True)
class Run:
    """One run: ``losses`` by round (T,), those of the time average, errors on the test rows, true epsilon."""

    losses: FloatArray
    error: float
    average_error: float
    average_loss: float
    epsilon: float | None

    @property
    def last(self) -> float:
        """The loss of the last round."""
        return float(self.losses[-1])

    @property
    def best_error(self) -> float:
        """The smaller error of the last models and of the average."""
        return min(self.error, self.average_error)


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
    """Losses on training rows and errors on test rows of the zero model, of agents alone, and of all rows pooled.

    ``majority`` is the error on test rows of the label that most training rows have.
    """

    loss: dict[str, float]
    error: dict[str, float]
    majority: float

    @cached_property
    def levels(self) -> list[tuple[str, float]]:
        """The losses, as the horizontal lines of a chart."""
        return list(self.loss.items())

    def rows(self, heads: Sequence[str], **cells: Any) -> list[Row]:
        """Rows that end a table of these ``heads``."""
        return [
            dict.fromkeys(heads)
            | cells
            | {"method": name, "reading": "no privacy", "last loss": self.loss[name], "error": self.error[name]}
            for name in self.loss
        ]


def baseline(trial: Trial) -> Baseline:
    """The baselines of the rows of one deal."""
    n = trial.preparation.agents
    pooled = baselines.pooled(trial.problems, ADULT["learning.regularisation"])
    models = {
        "zero model": np.zeros((n, len(pooled))),
        "alone": baselines.alone(trial.problems),
        "pooled": np.tile(pooled, (n, 1)),
    }
    sign = 1.0 if sum(float(problem.y.sum()) for problem in trial.problems) > 0 else -1.0
    return Baseline(
        {name: float(np.mean([_loss(trial, i, own[i]) for i in range(n)])) for name, own in models.items()},
        {name: 1.0 - float(np.mean(trial.scores(own))) for name, own in models.items()},
        float(np.mean([np.mean(y != sign) for _, y in trial.tests])),
    )


def over_rounds(label: str, values: FloatArray, colour: int, *, dashed: bool = False, band: Any = ()) -> Series:
    """A line over the rounds 1, 2, ...; ``band`` is half the height of its error bars."""
    return Series(label, list(range(1, len(values) + 1)), values.tolist(), band, colour, dashed)


def by_method(runs: Mapping[Any, Sequence[Run]]) -> dict[Any, Row]:
    """The averages over runs that every table shows, and the largest true total."""
    return {
        key: {
            "true total": max((run.epsilon or 0.0) for run in found),
            "last loss": float(np.mean([run.last for run in found])),
            "loss of average": float(np.mean([run.average_loss for run in found])),
            "error": float(np.mean([run.error for run in found])),
            "error of average": float(np.mean([run.average_error for run in found])),
        }
        for key, found in runs.items()
    }
