"""Figure 4: models learned alone from records with noise on them. Nothing is sent, so both worlds are the same."""

from __future__ import annotations

import math

import numpy as np

from coordinator_free.problem import baselines
from node.dealing.preparation import prepare
from node.experiments.charts import Panel
from node.experiments.reproduce.figure import PUBLISHED, TRULY, Figure, Reproduction, Request, Setting
from node.experiments.reproduce.paper004.scores import Line, Scores
from node.experiments.reproduce.paper004.settings import DIMENSIONS, L1, SMALL, alone_scores, synthetic, task
from node.experiments.trial import Trial, seeded

BUDGETS = (10.0, 1.0, 0.5)
NOISY = "noisy records"


def _settings(_: Request) -> list[Setting]:
    # No model crosses a link: the graph is the one that holds together for any number of agents.
    graph = {"topology.kind": "complete", "topology.gamma": None}
    return [Setting((dimension,), synthetic(), task(dimension) | graph) for dimension in DIMENSIONS]


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    found, runs = Scores(), request.seeds or figure.runs
    for setting in settings:
        for seed in range(runs):
            request.tell(f"p = {setting.key[0]}, run {seed}")
            _add(found, _dealt(request, setting, seed), setting.key[0], seed)
    rows = found.rows({f"p = {p}": p for p in DIMENSIONS})
    for row in rows:
        row["epsilon true"] = math.inf if row["reading"] == PUBLISHED else row["epsilon stated"]
    private = Line(NOISY, TRULY, 1.0)
    worst = min(found.mean(Line("alone"), p) - found.mean(private, p) for p in DIMENSIONS)
    finding = (
        f"Truly private at epsilon 1: at least {worst:.3f} below the models of clean records in every dimension, as "
        "the paper says."
        if worst > 0.05
        else f"Truly private at epsilon 1 the loss is {worst:.3f} only: the paper's huge loss does not appear."
    )
    notes = [
        "as published: Laplace noise of scale 2/epsilon on each feature, its own range; the features of one record add "
        "up to p times epsilon, and labels are not covered at all, so there is no true epsilon.",
        "truly private: half of epsilon on the features (L1 diameter 2p), half on the label (randomised response).",
        L1,
        f"{runs} run(s) of each setting.",
    ]
    series = found.series(found.lines(), DIMENSIONS)
    panel = Panel("Accuracy from noisy records", "clean test labels", "dimension p", series)
    return figure.shown(rows, [finding], notes, [panel])


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
            score = float(np.mean(trial.scores(baselines.alone(noised))))
            found.add(Line(NOISY, reading, epsilon), {dimension: score})


def _dealt(request: Request, setting: Setting, seed: int) -> Trial:
    """The data alone, without a run."""
    prepared = prepare(seeded(setting.configuration(request.overrides), seed))
    return Trial(prepared, [], np.zeros((prepared.agents, prepared.dealt.dimension)), None, None, None)


FIGURE = Figure(
    "paper004/figure4",
    "models alone from records with noise on them (local DP), no agent sends anything",
    "the loss in accuracy against local models from clean records is huge, for every budget (a plot)",
    _settings,
    _reduce,
    runs=3,
    accepts=("data", "learning.regularisation"),
    small=SMALL[:-1],
)
