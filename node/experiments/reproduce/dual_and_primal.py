"""Runs of dual (DVP) and primal (PVP) perturbation over alpha, in both readings: what papers 000 and 002 show of them.

A figure is one of three views of such runs: convergence, trade-off, final model. The records are the Adult rows, or
those of ``data.source``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from coordinator_free.release import FloatArray
from coordinator_free.theory.privacy_design import DesignError, Utility, fit, optimal
from node.experiments.charts import Panel, Series
from node.experiments.reproduce.adult import (
    ADULT,
    DATA,
    MAJORITY,
    SMALL,
    Baseline,
    Run,
    baseline,
    by_method,
    census,
    judged,
    method,
    over_rounds,
)
from node.experiments.reproduce.figure import (
    OPEN,
    OWN_SOURCES,
    PUBLISHED,
    TRULY,
    Figure,
    FigureError,
    Reproduction,
    Request,
    Row,
    Setting,
)
from node.untyped import Changes

LOSS_OFF_SCALE = 3.0
"""Losses above it are drawn at the edge: a run that diverges would hide all others."""
MEANING = {PUBLISHED: "alpha is claimed for each round", TRULY: "alpha is the total over all rounds"}
ADULT_ROWS = (
    "Rows: adult.data, 30,162 people without missing values; test: adult.test. Columns are scaled by public bounds, "
    f"rows to L2 norm at most 1; the paper divides columns by their maxima (--set data.as_published=true); {MAJORITY}."
)
OTHER_ROWS = (
    "Losses, errors and designs are computed from the records, and no budget covers them: where the records are "
    "private, so is this figure."
)
NOTES = [
    "eta is not printed in 000 and 002: 0.5 as in 001. As published and for the control without privacy (ADMM with "
    "rho = 1e-10) there are 100 rounds; truly private, where all rounds share alpha, 5 of DVP and 20 of PVP.",
    f"Losses above {LOSS_OFF_SCALE:g} are drawn at {LOSS_OFF_SCALE:g}.",
]
Measure = Callable[[Run], float]
ROUNDS = 100
"""Of a run as published, and of the control."""
LOSS_LIMIT = 0.135
"""The paper's c3, above which a model is not accurate."""
CONTROL = {"learning.algorithm": "admm", "learning.rho": 1e-10, "privacy.mechanism": "none"}


class Sweep:
    """The runs of a table of settings, by (method, reading, alpha), and the baselines of the first deal."""

    def __init__(self, figure: Figure, request: Request, settings: Sequence[Setting]) -> None:
        self.runs: dict[tuple[str, str, float], list[Run]] = defaultdict(list)
        self.control: list[Run] = []
        found: list[Baseline] = []
        for setting, _, trial in request.trials(settings, request.runs(figure.runs)):
            found = found or [baseline(trial)]
            (self.control if setting.key[1] == OPEN else self.runs[setting.key]).append(judged(trial))
        self.base, self._show = found[0], figure.shown
        self.source = settings[0].changes["data.source"]
        self.methods = list(dict.fromkeys(name for name, _, _ in self.runs))

    def shown(self, findings: Sequence[str], panels: list[Panel]) -> Reproduction:
        """The figure with these findings and panels, and a note on its records."""
        adult = self.source == ADULT["data.source"]
        note = ADULT_ROWS if adult else f"{OTHER_ROWS} The majority class is right for {1 - self.base.majority:.3f}."
        return self._show(self.rows, list(findings), [note, *NOTES], panels, of="" if adult else f", {self.source}")

    def over_alpha(self, name: str, reading: str, measure: Measure) -> dict[float, float]:
        """The mean of ``measure`` over runs, by alpha."""
        return {
            alpha: float(np.mean([measure(run) for run in runs]))
            for (n, r, alpha), runs in self.runs.items()
            if (n, r) == (name, reading)
        }

    @cached_property
    def rows(self) -> list[Row]:
        """The table, with the baselines below it."""
        rows = [
            {
                "method": name.upper(),
                "reading": reading,
                "alpha": alpha,
                "alpha is": "per round" if reading == PUBLISHED else "the total",
                **averages,
            }
            for (name, reading, alpha), averages in by_method(self.runs).items()
        ]
        control = {"method": "ADMM", "reading": OPEN, "alpha is": "", **by_method({0: self.control})[0]}
        control["true total"] = None
        return [*rows, dict.fromkeys(rows[0]) | control, *self.base.rows(list(rows[0]), **{"alpha is": ""})]

    @property
    def control_losses(self) -> FloatArray:
        """The control's loss by round, the mean over its runs."""
        return np.asarray(np.mean([run.losses for run in self.control], axis=0))

    @property
    def losses(self) -> list[tuple[str, float]]:
        """The losses of the baselines and of the control at its end, as the horizontal lines of a chart."""
        return [("no privacy, ADMM", float(self.control_losses[-1])), *self.base.levels]

    def findings(self) -> list[str]:
        """What became of each method and reading against the majority class and an agent alone."""
        findings: list[str] = []
        for name, reading in dict.fromkeys((n, r) for n, r, _ in self.runs):
            findings += self._best_and_worse(name, reading)
        if len(self.methods) > 1:
            dual, primal = (self.over_alpha(name, TRULY, _last) for name in ("dvp", "pvp"))
            better = sum(primal[alpha] < dual[alpha] for alpha in dual)
            findings.append(
                f"truly private: primal perturbation (own-release, Gaussian) has the lower last loss at {better} of "
                f"{len(dual)} alphas"
                + (": the paper's preference for the dual does not appear." if better * 2 > len(dual) else ".")
            )
        return findings

    def _best_and_worse(self, name: str, reading: str) -> list[str]:
        errors = self.over_alpha(name, reading, lambda run: run.best_error)
        best = min(errors, key=lambda alpha: errors[alpha])
        total = max((run.epsilon or 0.0) for run in self.runs[name, reading, best])
        words = {
            (False, False): "no better than always answering the majority class",
            (False, True): "better than an agent alone, not than always answering the majority class",
            (True, False): "better than the majority class, not than an agent alone: joining gains nothing",
            (True, True): "better than the majority class and than an agent alone",
        }[errors[best] < self.base.majority, errors[best] < self.base.error["alone"]]
        cost = f", which truly costs epsilon {total:.3g} over all rounds" if reading == PUBLISHED else " in total"
        findings = [f"{reading}, {name.upper()}: best error {errors[best]:.3f} at alpha {best:g}{cost}; {words}."]
        zero = self.base.loss["zero model"]
        worse = [f"{alpha:g}" for alpha, loss in self.over_alpha(name, reading, _last).items() if loss > zero]
        if worse:
            findings.append(
                f"{reading}, {name.upper()}: the last loss is above that of the zero model at alpha {', '.join(worse)}."
            )
        return findings


def _last(run: Run) -> float:
    return run.last


def _error(run: Run) -> float:
    return run.error


def _at(run: Run, round_: int) -> float:
    """The loss of the round with this number, counted from 1, or of the last one."""
    return float(run.losses[min(round_, len(run.losses)) - 1])


def _shown(values: Any) -> FloatArray:
    return np.minimum(np.asarray(values, dtype=np.float64), LOSS_OFF_SCALE)


def _below(meaning: str, series: Sequence[Series]) -> str:
    """The line below a title; it says where losses are cut."""
    cut = any(y >= LOSS_OFF_SCALE for line in series for y in line.y)
    return f"{meaning}; losses above {LOSS_OFF_SCALE:g} are drawn at {LOSS_OFF_SCALE:g}" if cut else meaning


# --- three views -----------------------------------------------------------------------------------------------------


def _convergence(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    """Loss by round, one panel a reading."""
    sweep = Sweep(figure, request, settings)
    lines = list(dict.fromkeys((name, alpha) for name, _, alpha in sweep.runs))
    panels = []
    for reading, meaning in MEANING.items():
        series = [
            over_rounds(
                f"{name.upper()}, alpha {alpha:g}",
                _shown(np.mean([run.losses for run in runs], axis=0)),
                lines.index((name, alpha)),
                dashed=reading == PUBLISHED,
            )
            for (name, which, alpha), runs in sweep.runs.items()
            if which == reading
        ]
        series.append(over_rounds("no privacy, ADMM", _shown(sweep.control_losses), len(lines)))
        title, below = f"Loss by round, {reading}", _below(meaning, series)
        panels.append(Panel(title, below, "round", series, levels=sweep.base.levels))
    return sweep.shown(sweep.findings(), panels)


def _trade_off(
    figure: Figure,
    request: Request,
    settings: list[Setting],
    *,
    printed: tuple[float, float],
    rounds: Sequence[int],
    errors: bool,
) -> Reproduction:
    """Loss over alpha at some rounds, L_acc fitted to the last, and the optimal design of Definition 3."""
    sweep = Sweep(figure, request, settings)
    findings, panels, utility = sweep.findings(), [], Utility()
    for reading, meaning in MEANING.items():
        finding, fitted = _fitted(sweep, reading, printed)
        findings += finding
        for round_ in rounds:
            losses = sweep.over_alpha(sweep.methods[0], reading, partial(_at, round_=round_))
            alphas, last = list(losses), round_ == rounds[-1]
            series = [
                Series("measured", alphas, _shown(list(losses.values())).tolist(), dashed=reading == PUBLISHED),
                *(fitted if last else ()),
                Series("utility of privacy, Eq. 29", alphas, [utility.value(alpha) for alpha in alphas], colour=2),
            ]
            at = "at the last round" if last else f"at round {round_}"
            panels.append(
                Panel(f"Trade-off {at}, {reading}", _below(meaning, series), "alpha", series, levels=sweep.losses)
            )
    if errors:
        panels += _final_panels(sweep, "error")
    return sweep.shown(findings, panels)


def _fitted(sweep: Sweep, reading: str, printed: tuple[float, float]) -> tuple[list[str], list[Series]]:
    """Findings on the curve that fits the last losses and on its optimal designs, and the curve where there is one."""
    every = [(alpha, run.last) for (_, which, alpha), runs in sweep.runs.items() if which == reading for run in runs]
    alphas = np.array([alpha for alpha, _ in every])
    try:
        curve = fit(alphas, np.array([loss for _, loss in every]))
        design = optimal(curve, Utility(), alpha_low=float(alphas[0]))
    except DesignError as error:
        return [f"{reading}: no curve is fitted: {error}."], []
    findings = [
        f"{reading}: fitted L_acc = {curve.c4:.3g} exp(-{curve.c5:.3g} alpha) + {curve.c6:.3g} (the paper: "
        f"c4 = {printed[0]:g}, c5 = {printed[1]:g}); optimal alpha {design.alpha:.3g}"
        + ("." if design.interior else ", at a limit: the trade-off has no optimum of its own.")
    ]
    try:
        limited = optimal(curve, Utility(), alpha_low=float(alphas[0]), loss_limit=LOSS_LIMIT)
        findings.append(f"{reading}: with the paper's limit c3 = {LOSS_LIMIT:g}: optimal alpha {limited.alpha:.3g}.")
    except DesignError as error:
        findings.append(f"{reading}: with the paper's limit c3 = {LOSS_LIMIT:g} there is no design: {error}.")
    grid = np.linspace(float(alphas[0]), float(alphas[-1]), 60).tolist()
    return findings, [Series("fitted L_acc", grid, _shown([curve.loss(a) for a in grid]).tolist(), colour=1)]


def _final(figure: Figure, request: Request, settings: list[Setting], *, measure: str) -> Reproduction:
    """Final loss or error over alpha, both methods, both readings."""
    sweep = Sweep(figure, request, settings)
    return sweep.shown(sweep.findings(), _final_panels(sweep, measure))


def _final_panels(sweep: Sweep, measure: str) -> list[Panel]:
    of, levels = (_last, sweep.losses) if measure == "loss" else (_error, list(sweep.base.error.items()))
    if measure == "error":
        levels = [("no privacy, ADMM", float(np.mean([run.error for run in sweep.control]))), *levels]
    panels = []
    for reading, meaning in MEANING.items():
        series = []
        for colour, name in enumerate(sweep.methods):
            values = sweep.over_alpha(name, reading, of)
            shown = _shown(list(values.values())).tolist()
            series.append(Series(name.upper(), list(values), shown, colour=colour, dashed=reading == PUBLISHED))
        below = _below(meaning, series)
        panels.append(Panel(f"Final {measure}, {reading}", below, "alpha", series, levels=levels))
    return panels


# --- figures ---------------------------------------------------------------------------------------------------------


SOURCES = ("adult", "bank", "breast-cancer", "credit-card", "kddcup99", *OWN_SOURCES)
"""Records with two labels."""
_figure = partial(
    Figure,
    data=f"{DATA}; for a file of your own add its format, as data.source = csv",
    bundled="breast-cancer",
    reads=("data.path", "data.source"),
    small=SMALL,
)
"""A figure, with what all of them have in common."""


def _task(request: Request) -> Changes:
    """Changes of every run: the records, the loss and the regularisation of the baselines."""
    source = request.given("data").get("source", ADULT["data.source"])
    if source not in SOURCES:
        raise FigureError(f"data.source = {source}: this figure accepts {', '.join(SOURCES)}")
    if source == ADULT["data.source"]:
        return ADULT
    return {path: value for path, value in ADULT.items() if path != "data.test"} | {"data.source": source}


def _settings(request: Request, methods: Sequence[str], alphas: Sequence[float]) -> list[Setting]:
    task, table = _task(request), census(updates=ROUNDS)
    if "path" not in request.given("data"):
        del table["data"]["path"]
    return [
        *(
            Setting((name, reading, alpha), table, task | method(name, reading, alpha))
            for name in methods
            for reading in (PUBLISHED, TRULY)
            for alpha in request.few(alphas)
        ),
        Setting(("admm", OPEN, None), table, task | CONTROL),
    ]


def convergence(name: str, title: str, paper: str, methods: Sequence[str], alphas: Sequence[float]) -> Figure:
    """A figure of the loss by round."""
    settings = partial(_settings, methods=methods, alphas=alphas)
    return _figure(name, title, paper, settings, _convergence)


def trade_off(
    name: str,
    method: str,
    alphas: Sequence[float],
    printed: tuple[float, float],
    rounds: Sequence[int],
    *,
    errors: bool = False,
) -> Figure:
    """A figure of loss and privacy over alpha; ``printed`` are the paper's c4 and c5, ``errors`` adds their panels.

    ``rounds`` are those that are drawn, counted from 1; where a run has fewer, its last one stands for the rest.
    """
    paper = (
        f"loss falls exponentially with alpha: L_acc = c4 exp(-c5 alpha) + c6, c4 = {printed[0]:g}, c5 = {printed[1]:g}"
    )
    settings = partial(_settings, methods=(method,), alphas=alphas)
    reduce = partial(_trade_off, printed=printed, rounds=rounds, errors=errors)
    return _figure(name, f"privacy-accuracy trade-off of {method.upper()}", paper, settings, reduce)


def final(name: str, title: str, paper: str, measure: str, alphas: Sequence[float]) -> Figure:
    """A figure of the last model's loss or error over alpha."""
    settings = partial(_settings, methods=("dvp", "pvp"), alphas=alphas)
    return _figure(name, title, paper, settings, partial(_final, measure=measure))
