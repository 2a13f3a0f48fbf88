"""Figure 3: accuracy of each quarter of the agents by their number of records, p = 100."""

from __future__ import annotations

import numpy as np

from coordinator_free.release import FloatArray
from node.experiments.charts import Panel
from node.experiments.reproduce.figure import OPEN, PUBLISHED, TRULY, Figure, Reproduction, Request, Setting
from node.experiments.reproduce.paper004.scores import Line, Scores
from node.experiments.reproduce.paper004.settings import (
    SMALL,
    alone_scores,
    honest,
    notes,
    printed_noise,
    smoothing,
    synthetic,
    task,
)
from node.experiments.trial import Trial
from node.untyped import Changes

QUARTERS = ("quarter 1 (fewest records)", "quarter 2", "quarter 3", "quarter 4 (most)")
LINES: dict[Line, Changes] = {
    Line("coordinate descent"): {},
    **{
        line: changes
        for epsilon in (1.0, 0.5)
        for line, changes in (
            (Line("descent", PUBLISHED, epsilon), printed_noise(epsilon, 1, 100.0)),
            (Line("descent", TRULY, epsilon), honest(epsilon, 100)),
            (Line("graph smoothing", TRULY, epsilon), smoothing(epsilon, "shared")),
        )
    },
}


def _settings(_: Request) -> list[Setting]:
    return [Setting(line, synthetic(), task() | changes) for line, changes in LINES.items()]


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    """Of a private run the free finish is shown where there is one, and its last releases are not."""
    found, runs = Scores(), request.runs(figure.runs)
    for setting, _, trial in request.trials(settings, runs):
        line, models = Line(*setting.key), trial.models
        if trial.finishes is not None:
            line, models = line._replace(method=f"{line.method}, free finish"), trial.finishes
        found.add(line, _quarters(trial, trial.scores(models)), trial.epsilon)
        if line.reading == OPEN:
            for name, scored in alone_scores(trial).items():
                found.add(Line(name), _quarters(trial, scored))
    panel = Panel(
        "Accuracy by dataset size",
        "quarters of the agents by their records",
        "quarter, fewest records first",
        found.series(found.lines(), QUARTERS, x=[1, 2, 3, 4]),
    )
    rows = found.rows({name: name for name in QUARTERS})
    return figure.shown(rows, _findings(found), notes(request, runs), [panel])


def _quarters(trial: Trial, scored: FloatArray) -> dict[str, float]:
    order = np.argsort(trial.records, kind="stable")
    groups = np.array_split(order, len(QUARTERS))
    return {name: float(scored[group].mean()) for name, group in zip(QUARTERS, groups, strict=True)}


def _findings(found: Scores) -> list[str]:
    findings = []
    for line in found.lines():
        if line.method.startswith("alone"):
            continue
        gains = [found.mean(line, name) - found.mean(Line("alone"), name) for name in QUARTERS]
        every, best = all(gain > 0 for gain in gains), gains.index(max(gains)) + 1
        at = "" if line.stated is None else f", epsilon {line.stated:g}"
        findings.append(
            f"{line.reading}, {line.method}{at}: {'every' if every else 'not every'} quarter gains over alone, "
            f"{'the smallest' if best == 1 else f'quarter {best}'} the most: "
            f"{', '.join(f'{gain:+.3f}' for gain in gains)}"
            + ("." if every else "; the paper's gain for all agents does not appear.")
        )
    return findings


FIGURE = Figure(
    "paper004/figure3",
    "accuracy by size of the local dataset, p = 100",
    "all agents gain, those with few records the most (a plot; no numbers in the text)",
    _settings,
    _reduce,
    runs=5,
    small=SMALL,
)
