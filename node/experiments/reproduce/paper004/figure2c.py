"""Figure 2 (c): accuracy over the dimension; the number of updates as chosen on other instances."""

from __future__ import annotations

import numpy as np

from coordinator_free.release import FloatArray
from node.experiments.charts import Panel
from node.experiments.reproduce.figure import OPEN, PUBLISHED, TRULY, Figure, Reproduction, Request, Setting
from node.experiments.reproduce.paper004.scores import Line, Scores
from node.experiments.reproduce.paper004.settings import (
    DIMENSIONS,
    SMALL,
    SMOOTHINGS,
    alone_scores,
    honest,
    notes,
    printed_noise,
    printed_warm_start,
    smoothing,
    synthetic,
    task,
)
from node.experiments.trial import Trial
from node.untyped import Changes

BUDGETS = (1.0, 0.5, 0.15)
WARM, DESCENT = "warm start and descent", "descent"
PRINTED_UPDATES = {WARM: dict.fromkeys(BUDGETS, 10), DESCENT: dict.fromkeys(BUDGETS, 1)}
COMPARED = (
    (PUBLISHED, WARM),
    (PUBLISHED, DESCENT),
    (TRULY, DESCENT),
    (TRULY, f"{DESCENT}, free finish"),
    *((TRULY, f"{name}, free finish") for name in SMOOTHINGS),
)
"""Lines that the findings hold against the agents alone."""


def updates(method: str, reading: str, epsilon: float) -> int:
    """Of each agent at this budget, as paper004/figure2c-updates chose them; of a warm start, those of the descent."""
    if reading == TRULY:
        return int(honest(epsilon, 100)["clock.updates"])
    return PRINTED_UPDATES[method][epsilon]


def _lines(dimension: int) -> dict[Line, Changes]:
    lines: dict[Line, Changes] = {Line("coordinate descent"): {}}
    for epsilon in BUDGETS:
        warm, descent = (updates(method, PUBLISHED, epsilon) for method in (WARM, DESCENT))
        lines[Line(WARM, PUBLISHED, epsilon)] = printed_warm_start(epsilon, warm, dimension)
        lines[Line(DESCENT, PUBLISHED, epsilon)] = printed_noise(epsilon, descent, dimension)
        lines[Line(DESCENT, TRULY, epsilon)] = honest(epsilon, dimension)
        lines |= {Line(name, TRULY, epsilon): smoothing(epsilon, prior) for name, prior in SMOOTHINGS.items()}
    return lines


def _settings(_: Request) -> list[Setting]:
    return [
        Setting((*line, dimension), synthetic(), task(dimension) | changes)
        for dimension in DIMENSIONS
        for line, changes in _lines(dimension).items()
    ]


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    found, runs = Scores(), request.runs(figure.runs)
    for setting, _, trial in request.trials(settings, runs):
        *line, dimension = setting.key
        found.add_trial(Line(*line), trial, _accuracy)
        if Line(*line).reading == OPEN:
            for name, scored in alone_scores(trial).items():
                found.add(Line(name), {dimension: float(np.mean(scored))})
    drawn = [line for line in found.lines() if line.method not in ("alone, best ridge", *SMOOTHINGS)]
    panels = [
        Panel(
            f"Accuracy over the dimension, epsilon {budget:g}",
            "clean test labels; dashed: as published",
            "dimension p",
            found.series(
                [line for line in drawn if line.stated in (None, budget)],
                DIMENSIONS,
                lambda line: line.method if line.reading == TRULY else f"{line.method}, {line.reading}",
                spread=True,
            ),
        )
        for budget in BUDGETS
    ]
    rows = found.rows({f"p = {p}": p for p in DIMENSIONS})
    return figure.shown(rows, _findings(found), notes(request, runs), panels)


def _accuracy(trial: Trial, models: FloatArray) -> dict[int, float]:
    return {trial.preparation.dealt.dimension: float(np.mean(trial.scores(models)))}


def _findings(found: Scores) -> list[str]:
    findings = []
    for reading, name in COMPARED:
        for stated in BUDGETS:
            line = Line(name, reading, stated)
            gains = {p: found.mean(line, p) - found.mean(Line("alone"), p) for p in DIMENSIONS}
            missing = [str(p) for p, gain in gains.items() if gain <= 0]
            findings.append(
                f"{reading}, {name}, epsilon {stated:g}: against alone "
                f"{', '.join(f'{gain:+.3f}' for gain in gains.values())} at p = {', '.join(map(str, gains))}"
                + (f"; no gain at p = {', '.join(missing)}." if missing else ".")
            )
    return findings


FIGURE = Figure(
    "paper004/figure2c",
    "accuracy over the dimension, several budgets",
    "even at epsilon 0.15 the private models significantly outperform the purely local ones, in every dimension "
    "(a plot; no numbers in the text)",
    _settings,
    _reduce,
    small=SMALL,
)
