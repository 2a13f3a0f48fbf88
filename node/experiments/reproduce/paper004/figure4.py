"""Figure 4: models from records with noise on them, learned alone and together.

What is computed from noisy records costs nothing more, so together they are learned without further noise. Shown is the
optimum of the objective (Eq. 2), to which coordinate descent converges. Nothing is run, and both worlds are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coordinator_free.problem import baselines
from coordinator_free.problem.graph_objective import optimum
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.dealing.preparation import prepare
from node.experiments.charts import Panel
from node.experiments.reproduce.figure import PUBLISHED, TRULY, Figure, Reproduction, Request, Setting
from node.experiments.reproduce.paper004.scores import Line, Scores
from node.experiments.reproduce.paper004.settings import DIMENSIONS, L1, SMALL, alone_scores, synthetic, task
from node.experiments.trial import Trial, seeded

BUDGETS = (10.0, 1.0, 0.5)
NOISY, TOGETHER = "noisy records", "noisy records, together"


def _settings(_: Request) -> list[Setting]:
    return [Setting((dimension,), synthetic(), task(dimension)) for dimension in DIMENSIONS]


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    found, runs = Scores(), request.seeds or figure.runs
    for setting in settings:
        for seed in range(runs):
            request.tell(f"p = {setting.key[0]}, run {seed}")
            _add(found, _dealt(request, setting, seed), setting.key[0], seed)
    rows = found.rows({f"p = {p}": p for p in DIMENSIONS})
    for row in rows:
        row["epsilon true"] = math.inf if row["reading"] == PUBLISHED else row["epsilon stated"]
    findings = [
        _loss(found),
        *(_remark(found, reading, epsilon) for reading in (PUBLISHED, TRULY) for epsilon in BUDGETS),
    ]
    notes = [
        "as published: Laplace noise of scale 2/epsilon on each feature, its own range; the features of one record add "
        "up to p times epsilon, and labels are not covered at all, so there is no true epsilon.",
        "truly private: half of epsilon on the features (L1 diameter 2p), half on the label (randomised response).",
        L1,
        f"{runs} run(s) of each setting.",
    ]
    series = found.series(found.lines(), DIMENSIONS)
    panel = Panel("Accuracy from noisy records", "clean test labels", "dimension p", series)
    return figure.shown(rows, findings, notes, [panel])


def _loss(found: Scores) -> str:
    private = Line(NOISY, TRULY, 1.0)
    worst = min(found.mean(Line("alone"), p) - found.mean(private, p) for p in DIMENSIONS)
    if worst > 0.05:
        return (
            f"Truly private at epsilon 1: at least {worst:.3f} below the models of clean records in every dimension, "
            "as the paper says."
        )
    return f"Truly private at epsilon 1 the loss is {worst:.3f} only: the paper's huge loss does not appear."


def _remark(found: Scores, reading: str, epsilon: float) -> str:
    """Whether learning together helps on noisy records: the paper could not improve significantly."""
    gains = [
        found.mean(Line(TOGETHER, reading, epsilon), p) - found.mean(Line(NOISY, reading, epsilon), p)
        for p in DIMENSIONS
    ]
    best = max(found.mean(Line(TOGETHER, reading, epsilon), p) - found.mean(Line("alone"), p) for p in DIMENSIONS)
    by_dimension = ", ".join(f"{gain:+.3f}" for gain in gains)
    judged = ", as little as the paper says" if max(gains) < 0.05 else "; the paper found no such gain"
    clean = f"at best {best:+.3f} over clean records alone" if best > 0 else "still below clean records alone"
    return (
        f"{reading}, epsilon {epsilon:g}: together {by_dimension} over noisy records alone at "
        f"p = {', '.join(map(str, DIMENSIONS))}{judged}; {clean}."
    )


def _add(found: Scores, trial: Trial, dimension: int, seed: int) -> None:
    """The scores of models from clean records and, for each budget and reading, from noisy ones."""
    for name, values in alone_scores(trial).items():
        found.add(Line(name), {dimension: float(np.mean(values))})
    for epsilon in BUDGETS:
        for reading, part, flip in (
            (PUBLISHED, 2.0 / epsilon, 0.0),
            (TRULY, 2.0 * dimension / (0.5 * epsilon), 1.0 / (1.0 + math.exp(0.5 * epsilon))),
        ):
            random = np.random.default_rng([seed, dimension, int(100 * epsilon), len(reading)])
            noised = [baselines.noised_records(problem, part, flip, random) for problem in trial.problems]
            for name, models in ((NOISY, baselines.alone(noised)), (TOGETHER, _together(trial, noised))):
                found.add(Line(name, reading, epsilon), {dimension: float(np.mean(trial.scores(models)))})


def _together(trial: Trial, noised: Sequence[LocalProblem]) -> FloatArray:
    """The models (n, p) to which coordinate descent on noisy records converges."""
    made = trial.preparation
    return optimum(made.network, noised, made.confidences, float(made.configuration.learning.get("mu")))


def _dealt(request: Request, setting: Setting, seed: int) -> Trial:
    """The data alone, without a run."""
    prepared = prepare(seeded(setting.configuration(request.overrides), seed))
    return Trial(prepared, [], np.zeros((prepared.agents, prepared.dealt.dimension)), None, None, None)


FIGURE = Figure(
    "paper004/figure4",
    "models from records with noise on them (local DP), alone and together",
    "the loss in accuracy against local models from clean records is huge, for every budget (a plot); learning "
    "together on noisy records improves little",
    _settings,
    _reduce,
    runs=3,
    accepts=("data", "topology", "learning.mu", "learning.regularisation"),
    small=SMALL,
)
