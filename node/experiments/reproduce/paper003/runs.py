"""The runs of a figure of paper 003, and the baselines of the same rows, with the epsilons that are true of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from statistics import mean, stdev
from typing import Any

import numpy as np

from coordinator_free.privacy.observer import truth
from coordinator_free.privacy.random_records import random_record_epsilon
from coordinator_free.problem import baselines
from coordinator_free.problem import trusted_party as curated
from coordinator_free.release import FloatArray
from node.experiments.reproduce.figure import OPEN, PUBLISHED, TRULY, FigureError, Request, Row, Setting
from node.experiments.reproduce.paper003 import settings as defaults
from node.experiments.reproduce.paper003.settings import CLIP, CONVEXITY, DELTA, METHODS, REGULARISATION, STEPS
from node.experiments.trial import Trial

UNBOUNDED = "unbounded"
"""For an eavesdropper that receives a model without noise."""
CENTRAL, PATHAK = "centralised noisy descent", "noisy average of minimisers"
RANDOM = "centralised descent on random records"
MAJORITY, POOLED, ALONE = "majority class", "no privacy, pooled", "each alone, nothing said"


@dataclass
class Found:
    """All runs of one method at one place: accuracies, gaps, and the epsilons that are true (largest over deals)."""

    reading: str
    accuracy: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    releases: float | str | None = None
    result: float | str | None = None


@dataclass(frozen=True)
class Place:
    """One data set at one point of the figure: the columns that show it, and the runs of each method."""

    source: str
    shown: Mapping[str, Any]
    epsilon: float
    found: dict[str, Found]

    def rows(self) -> list[Row]:
        """One row a method."""
        return [
            {
                "data": self.source,
                **self.shown,
                "method": method,
                "reading": runs.reading,
                "accuracy": mean(runs.accuracy),
                "sd": spread(runs.accuracy),
                "gap": mean(runs.gap) if runs.gap else None,
                "sd gap": spread(runs.gap),
                "claimed": None if runs.reading == OPEN else self.epsilon,
                "true releases": runs.releases,
                "true result": runs.result,
            }
            for method, runs in self.found.items()
        ]


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation over runs; None for one run."""
    return stdev(values) if len(values) > 1 else None


def places(request: Request, settings: Sequence[Setting], runs: int) -> list[Place]:
    """Run every setting; settings that differ in epsilon alone share their baselines, since their rows are the same."""
    made: dict[tuple[Any, ...], Place] = {}
    deals: dict[tuple[Any, ...], Deal] = {}
    ends: dict[tuple[Any, ...], dict[int, Deal]] = defaultdict(dict)
    for setting, seed, trial in request.trials(settings, runs):
        check_rows(trial)
        source, columns, method = setting.key
        place = made.setdefault((source, columns), Place(source, dict(columns), setting.changes["privacy.epsilon"], {}))
        rows = (source, seed, *(pair for pair in columns if pair[0] != "epsilon"))
        deal = deals[rows] if rows in deals else deals.setdefault(rows, Deal(trial, small=request.small))
        _add(place, method, trial, deal)
        ends[source, columns][seed] = deal
    for key, by_seed in ends.items():
        for seed, deal in by_seed.items():
            deal.add_baselines(made[key].found, made[key].epsilon, np.random.default_rng([seed, 3]))
    return list(made.values())


def check_rows(trial: Trial) -> None:
    """Raise `FigureError` where rows may be longer than 1, the norm that the noise of the baselines is for."""
    bound = trial.preparation.dealt.row_bounds.get("l2")
    if bound is None or bound > 1.0 + 1e-9:
        raise FigureError(
            f"data.row_scaling: rows may have {'any norm' if bound is None else f'norm {bound:g}'}, and this figure "
            "needs 1 at most; accepted are record, and public with data.bounds for every column"
        )


def _add(place: Place, method: str, trial: Trial, deal: Deal) -> None:
    reading, own = METHODS[method]
    runs = place.found.setdefault(method, Found(reading))
    runs.accuracy.append(float(np.mean(trial.scores(trial.models))))
    runs.gap.append(deal.gap(trial.models[0]))
    if reading == TRULY:
        hidden = own.get("privacy.observer") == "sum"
        runs.releases, runs.result = (None, place.epsilon) if hidden else (place.epsilon, None)
        return
    # Noise for m n_min records with equal weights is worth what equal parties' noise is.
    true = truth(place.epsilon, DELTA, trial.records if method == "WD-DP" else [1] * len(trial.records))
    runs.releases, runs.result = _largest(runs.releases, true.releases), _largest(runs.result, true.sum)


def _largest(before: float | str | None, now: float) -> float:
    return max(before, now) if isinstance(before, float) else now


class Deal:
    """What all methods are measured against on the rows of one deal."""

    def __init__(self, trial: Trial, *, small: bool = False) -> None:
        self._trial = trial
        self._rounds = defaults.FEW_ROUNDS if small else defaults.RANDOM_ROUNDS
        self._pooled = curated.everybody(trial.problems, REGULARISATION)
        self._optimum = self._pooled.minimiser()
        self._least = self._loss(self._optimum)

    @cached_property
    def _alone(self) -> FloatArray:
        return baselines.alone(self._trial.problems)

    @cached_property
    def _average(self) -> FloatArray:
        return curated.average_of_minimisers(self._trial.problems, CONVEXITY)

    def _loss(self, model: FloatArray) -> float:
        return float(self._pooled.loss.values(model, self._pooled.x, self._pooled.y).mean())

    def gap(self, model: FloatArray) -> float:
        """Mean loss on all training rows, above that of the optimum without privacy."""
        return self._loss(model) - self._least

    def add_baselines(self, found: dict[str, Found], epsilon: float, random: np.random.Generator) -> None:
        """The baselines, each with the epsilon that it truly has, and for which observer."""
        trial = self._trial
        central = curated.noisy_descent(trial.problems, epsilon, DELTA, clip=CLIP, step=1.0, steps=STEPS, random=random)
        scale = curated.output_perturbation_scale(trial.problems, epsilon, CONVEXITY)
        average = self._average + random.laplace(scale=scale, size=self._pooled.dimension)
        true = curated.output_perturbation_epsilon(epsilon, DELTA, len(trial.records), len(average))
        self._add(found, PATHAK, Found(PUBLISHED, releases=UNBOUNDED, result=true), average)
        self._add(found, CENTRAL, Found(PUBLISHED, releases=UNBOUNDED, result=epsilon), central)
        self._add_random_rounds(found, epsilon, random)
        self._add(found, POOLED, Found(OPEN, releases=UNBOUNDED, result=UNBOUNDED), self._optimum)
        self._add(found, ALONE, Found(OPEN, releases=0.0, result=0.0), self._alone)
        majority = found.setdefault(MAJORITY, Found(OPEN, releases=0.0, result=0.0))
        label = 1.0 if self._pooled.y.mean() > 0 else -1.0
        majority.accuracy.append(float(np.mean(np.concatenate([y for _, y in trial.tests]) == label)))

    def _add_random_rounds(self, found: dict[str, Found], epsilon: float, random: np.random.Generator) -> None:
        records = self._pooled.records
        steps = min(records**2, self._rounds)
        deviation = curated.random_round_deviation(epsilon, DELTA, CLIP, records)
        model = curated.random_round_descent(
            self._trial.problems, clip=CLIP, deviation=deviation, steps=steps, reach=log(2.0), random=random
        )
        true = random_record_epsilon(deviation / (2.0 * CLIP), records, steps, DELTA)
        self._add(found, RANDOM, Found(PUBLISHED, releases=UNBOUNDED, result=true), model)

    def _add(self, found: dict[str, Found], method: str, empty: Found, models: FloatArray) -> None:
        """Score one model (p,), or one of each party (m, p)."""
        runs = found.setdefault(method, empty)
        runs.accuracy.append(float(np.mean(self._trial.scores(models))))
        runs.gap.append(mean(self.gap(model) for model in np.atleast_2d(models)))
