"""The learning rate by validation: without accounting, as published, and with a budget that covers the choice.

Rules that hold here:
- The rates are those of the paper. Half of each party's held-out rows choose, the other half score.
- As published every rate is tried with the whole epsilon, and the choice is free.
- Truly private: of K rates each is tried with the Gaussian parameter mu / sqrt(K), so all trials together cost epsilon.
  Each party then releases how many of its validation rows each model gets right, with Gaussian noise. One record
  changes each of the K counts by at most 1, so all of them by sqrt(K) in L2, and noise of deviation sqrt(K) / mu costs
  epsilon. A record is for training or for validation, so the whole costs epsilon (parallel composition).
- The chosen model is one that was tried: no further run is made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import mean
from typing import Any

import numpy as np

from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu
from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray
from node.experiments.charts import Panel, Series
from node.experiments.reproduce.figure import PUBLISHED, TRULY, Figure, Reproduction, Request, Row, Setting
from node.experiments.reproduce.paper003.runs import check_rows, spread
from node.experiments.reproduce.paper003.settings import (
    DELTA,
    METHODS,
    WEIGHTED,
    figure_003,
    sources,
    start_of,
    table,
    task,
)
from node.experiments.trial import Trial

RATES = (0.01, 0.05, 0.1, 0.5, 1.0)
EPSILONS = (0.05, 0.25)
FREE, ACCOUNTED, FIXED = "chosen without accounting", "chosen within the budget", "fixed at 1"


def _settings(request: Request) -> list[Setting]:
    """WD-DP as published at each rate, truly private at each with its part of the budget, and at rate 1 with all."""
    start = table(8, split="random")
    made = []
    for source, path in sources(request):
        for epsilon in EPSILONS:
            part = gaussian_epsilon(gaussian_mu(epsilon, DELTA) / math.sqrt(len(RATES)), DELTA)
            tried = [(FREE, rate, epsilon) for rate in RATES] + [(ACCOUNTED, rate, part) for rate in RATES]
            for how, rate, spent in [*tried, (FIXED, 1.0, epsilon)]:
                _, own = METHODS[WEIGHTED[0 if how == FREE else 1]]
                changes = {**task(source, path), **own, "learning.step": rate, "privacy.epsilon": spent}
                made.append(Setting((source, epsilon, how, rate), start_of(source, start), changes))
    return made


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    runs = request.runs(figure.runs)
    tried: dict[tuple[Any, ...], dict[float, FloatArray]] = defaultdict(dict)
    for setting, seed, trial in request.trials(settings, runs):
        check_rows(trial)
        source, epsilon, how, rate = setting.key
        tried[source, epsilon, how, seed][rate] = _right(trial, seed)
    rows, panels = [], []
    for source in dict.fromkeys(key[0] for key in tried):
        for epsilon in EPSILONS:
            for how in (FREE, ACCOUNTED, FIXED):
                seeds = [tried[source, epsilon, how, seed] for seed in range(runs)]
                chosen = [_chosen(seen, how, epsilon, seed, request) for seed, seen in enumerate(seeds)]
                scores = [seen[rate][2] for seen, rate in zip(seeds, chosen, strict=True)]
                rows.append(_row(source, epsilon, how, chosen, scores))
        panels.append(_panel(source, tried, runs))
    notes = [
        f"{runs} run{'s' if runs > 1 else ''} of each; delta {DELTA:g}; rates {', '.join(f'{r:g}' for r in RATES)}.",
        f"{FREE}: all trials and the choice together are not covered by the claim. {ACCOUNTED}: they are, for an "
        "eavesdropper on all releases and on the noisy counts.",
    ]
    of = ", ".join(dict.fromkeys(row["data"] for row in rows))
    return figure.shown(rows, _findings(rows), notes, panels, of=f", {of}")


def _right(trial: Trial, seed: int) -> FloatArray:
    """How many validation rows the model gets right, how many there are, and its accuracy on the other rows."""
    judge: Loss = trial.judge
    random = np.random.default_rng([seed, 5])
    right, rows, scores = 0.0, 0, []
    for (x, y), model in zip(trial.tests, trial.models, strict=True):
        order = random.permutation(len(y))
        check, rest = order[: len(y) // 2], order[len(y) // 2 :]
        right += float((y[check] * (x[check] @ model) > 0.0).sum())
        rows += len(check)
        scores.append(judge.score(model, x[rest], y[rest]))
    return np.array([right, float(rows), float(np.nanmean(scores))])


def count_deviation(epsilon: float, parties: int) -> float:
    """Deviation of the noise in the sum of the parties' counts: each adds its own."""
    return math.sqrt(parties * len(RATES)) / gaussian_mu(epsilon, DELTA)


def _chosen(seen: dict[float, FloatArray], how: str, epsilon: float, seed: int, request: Request) -> float:
    """The rate with the most validation rows right, counted with noise where the budget covers it."""
    counts = {rate: found[0] for rate, found in seen.items()}
    if how == ACCOUNTED:
        random = np.random.default_rng([seed, 6]) if request.world == "twin" else np.random.default_rng()
        deviation = count_deviation(epsilon, request.agents(8))
        counts = {rate: count + float(random.normal(scale=deviation)) for rate, count in counts.items()}
    return max(counts, key=counts.__getitem__)


def _row(source: str, epsilon: float, how: str, chosen: list[float], scores: list[float]) -> Row:
    return {
        "data": source,
        "epsilon": epsilon,
        "rate": how,
        "reading": PUBLISHED if how == FREE else TRULY,
        "chosen": ", ".join(f"{rate:g}" for rate in chosen),
        "accuracy": mean(scores),
        "sd": spread(scores),
        "epsilon true": None if how == FREE else epsilon,
    }


def _findings(rows: list[Row]) -> list[str]:
    found = []
    for row in (row for row in rows if row["rate"] == ACCOUNTED):
        [fixed] = [
            other
            for other in rows
            if other["rate"] == FIXED and (other["data"], other["epsilon"]) == (row["data"], row["epsilon"])
        ]
        gain = row["accuracy"] - fixed["accuracy"]
        found.append(
            f"{row['data']}, epsilon {row['epsilon']:g}: a choice within the budget gives {gain:+.3f} in accuracy "
            f"against rate 1 with the whole budget ({row['accuracy']:.3f}, {fixed['accuracy']:.3f}): "
            f"it {'is worth' if gain > 0.0 else 'is not worth'} its price."
        )
    return found


def _panel(source: str, tried: dict[tuple[Any, ...], dict[float, FloatArray]], runs: int) -> Panel:
    lines = [
        Series(
            f"{how}, epsilon {epsilon:g} ({PUBLISHED if how == FREE else TRULY})",
            list(RATES),
            [mean(float(tried[source, epsilon, how, seed][rate][2]) for seed in range(runs)) for rate in RATES],
            colour=colour,
            dashed=how == FREE,
        )
        for colour, epsilon in enumerate(EPSILONS)
        for how in (FREE, ACCOUNTED)
    ]
    below = f"{source}; dashed: as published, each rate with the whole epsilon"
    return Panel("Accuracy over the rate", below, "learning rate", lines, x_log=True)


FIGURE = figure_003(
    "paper003/learning-rate",
    "the learning rate by validation, with and without accounting for the choice",
    "chosen by cross-validation from 0.01, 0.05, 0.1, 0.5 and 1; what that costs is not mentioned",
    _settings,
    _reduce,
    small=("data.agents=4",),
)
