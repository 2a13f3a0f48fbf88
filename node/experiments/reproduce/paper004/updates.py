"""How many updates each budget is worth, chosen where figure 2 (c) and table 1 are not judged.

The paper tunes the number of updates of each agent for each budget: for figure 2 (c) on other random instances, for
table 1 on a fifth of each user's training ratings (section 5.1, appendix D.2). It prints none of them.

Rules that hold here:
- The whole budget is spent in each run, so more updates mean more noise in each.
- Instances to tune on have seeds of their own; validation splits are dealt in this process, so those runs are in the
  twin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from node.dealing.preparation import prepare
from node.experiments.charts import Panel, Series
from node.experiments.reproduce.figure import PUBLISHED, TRULY, Figure, Reproduction, Request, Setting, mean
from node.experiments.reproduce.paper004 import figure2c, table1
from node.experiments.reproduce.paper004.scores import Line
from node.experiments.reproduce.paper004.settings import (
    SMALL,
    honest,
    notes,
    printed_noise,
    printed_warm_start,
    synthetic,
    task,
)
from node.experiments.trial import Trial, in_twin, seeded
from node.experiments.tune import ELSEWHERE, for_validation
from node.untyped import Changes

INSTANCES = (1, 2, 3, 5, 10, 20)
SPLITS = (3, 10, 30, 100)
"""Numbers of updates that are tried; the last of ``SPLITS`` takes as long as all others together."""
P = 100


def _on_instances(request: Request) -> list[Setting]:
    made: dict[Line, Callable[[float, int], Changes]] = {
        Line(figure2c.DESCENT, PUBLISHED): lambda epsilon, k: printed_noise(epsilon, k, float(P)),
        Line(figure2c.WARM, PUBLISHED): lambda epsilon, k: printed_warm_start(epsilon, k, P),
        Line(figure2c.DESCENT, TRULY): lambda epsilon, k: honest(epsilon, P) | {"clock.updates": k},
    }
    return [
        Setting((*line._replace(stated=epsilon), updates), synthetic(), task(P) | changes(epsilon, updates))
        for line, changes in made.items()
        for epsilon in figure2c.BUDGETS
        for updates in request.few(INSTANCES)
    ]


def _on_splits(request: Request) -> list[Setting]:
    return [
        Setting(
            (table1.PRIVATE, reading, epsilon, updates),
            table1.TABLE,
            table1.RATINGS[reading] | table1.private(reading, epsilon, updates),
        )
        for reading in (PUBLISHED, TRULY)
        for epsilon in table1.OWN
        for updates in request.few(SPLITS)
    ]


def _instance(request: Request, setting: Setting, seed: int) -> Trial:
    return request.play(setting, ELSEWHERE + seed)


def _split(request: Request, setting: Setting, seed: int) -> Trial:
    request.tell(f"{setting.label}, split {seed}")
    configuration = seeded(setting.configuration(request.overrides), seed, simulation=True)
    return in_twin(prepare(configuration, dealt=for_validation(configuration, seed, seed)))


def _reduce(
    figure: Figure,
    request: Request,
    settings: list[Setting],
    trial_of: Callable[[Request, Setting, int], Trial],
    used: Callable[[Line], int],
    told: Callable[[Request, int], list[str]],
) -> Reproduction:
    """Scores are those of the free finish where there is one. ``used`` is the number of updates in the other figure."""
    found: dict[Line, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    runs = request.runs(figure.runs)
    larger, metric = True, ""
    for seed in range(runs):
        for setting in settings:
            *tried, updates = setting.key
            trial = trial_of(request, setting, seed)
            models = trial.models if trial.finishes is None else trial.finishes
            larger, metric = trial.judge.larger_is_better, trial.judge.metric
            found[Line(*tried)][updates].append(float(np.nanmean(trial.scores(models))))
    rows, findings, series = [], [], []
    for colour, (line, scores) in enumerate(found.items()):
        means = {updates: mean(values) for updates, values in scores.items()}
        best = (max if larger else min)(means, key=lambda updates: means[updates])
        of = {"method": line.method, "reading": line.reading, "epsilon stated": line.stated}
        rows += [{**of, "updates": k, metric: value, "chosen": k == best} for k, value in means.items()]
        findings.append(f"{line.label()}: {_judged(means, best, used(line))}")
        series.append(
            Series(line.label(), list(means), list(means.values()), colour=colour, dashed=line.reading == PUBLISHED)
        )
    panel = Panel("Score over the number of updates", "where it is tuned", "updates of each agent", series, x_log=True)
    return figure.shown(rows, findings, told(request, runs), [panel])


def _judged(means: dict[int, float], best: int, used: int) -> str:
    """The choice, beside the number of updates that the other figure uses."""
    if best == used or used not in means:
        return f"{best} updates are best ({means[best]:.3f}); the figure uses {used}."
    return f"{best} updates are best ({means[best]:.3f}); the figure uses {used} ({means[used]:.3f})."


def _figure(
    name: str,
    title: str,
    settings: Callable[[Request], list[Setting]],
    trial_of: Callable[[Request, Setting, int], Trial],
    used: Callable[[Line], int],
    told: Callable[[Request, int], list[str]],
    **more: Any,
) -> Figure:
    paper = "the number of iterations is tuned for each budget (no numbers in the paper)"
    reduce = partial(_reduce, trial_of=trial_of, used=used, told=told)
    return Figure(name, title, paper, settings, reduce, **more)


FIGURES: Sequence[Figure] = (
    _figure(
        "paper004/figure2c-updates",
        "updates per budget on other instances, p = 100",
        _on_instances,
        _instance,
        lambda line: figure2c.updates(line.method, line.reading, line.stated or 0.0),
        notes,
        runs=2,
        small=SMALL,
    ),
    _figure(
        "paper004/table1-updates",
        "updates per budget on a validation split of the training ratings",
        _on_splits,
        _split,
        lambda line: table1.updates(line.reading, line.stated or 0.0),
        lambda _, runs: [*table1.NOTES, "Every run is in the twin.", f"{runs} split(s)."],
        data="the folder of MovieLens-100K",
        small=table1.SMALL,
    ),
)
