"""Zhang and Zhu, *Dynamic Privacy for Distributed Machine Learning over Network*: figures 4 to 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coordinator_free.theory.privacy_design import DesignError, Utility, fit, optimal
from node.experiments.charts import Panel, Series
from node.experiments.reproduce import PUBLISHED, TRULY, Reproduction, Request
from node.experiments.reproduce.adult import MAJORITY, NOTES, Baseline, Run, rows_of, sweep

CONVERGENCE = (0.1, 0.5, 1.0)
FINAL = (0.05, 0.2, 0.5, 1.0)
TRADE_OFF = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Enough levels for a fit of three constants."""
LOSS_OFF_SCALE = 3.0
"""Losses above it are drawn at the edge: a run that diverges would hide all others."""

Found = Mapping[tuple[str, str, float], Sequence[Run]]


def figure4(request: Request) -> Reproduction:
    found, base = sweep(request, ("dvp", "pvp"), CONVERGENCE, request.runs(1))
    return convergence(
        "paper000/figure4",
        "convergence of dual and primal perturbation for several alpha",
        "larger alpha gives better convergence; the dual variant has the smaller variance of the loss (a plot)",
        found,
        base,
    )


def figure5(request: Request) -> Reproduction:
    return trade_off(request, "paper000/figure5", "dvp", 0.2, 25.0)


def figure6(request: Request) -> Reproduction:
    return trade_off(request, "paper000/figure6", "pvp", 20.0, 20.0)


def figure7(request: Request) -> Reproduction:
    found, base = sweep(request, ("dvp", "pvp"), FINAL, request.runs(1))
    return final(
        "paper000/figure7",
        "empirical loss of the final model over alpha",
        "loss",
        "loss falls with alpha; primal slightly better than dual in loss, dual more stable (a plot)",
        found,
        base,
    )


def figure8(request: Request) -> Reproduction:
    found, base = sweep(request, ("dvp", "pvp"), FINAL, request.runs(1))
    return final(
        "paper000/figure8",
        "misclassification rate of the final model over alpha",
        "error",
        "error falls with alpha; dual perturbation has the better error rate for most alpha (a plot)",
        found,
        base,
    )


# --- views of a sweep, which paper 002 shows too ---------------------------------------------------------------------


def convergence(figure: str, title: str, paper: str, found: Found, base: Baseline) -> Reproduction:
    """Loss by round, one panel a reading."""
    lines = list(dict.fromkeys((name, alpha) for name, _, alpha in found))
    panels = [
        Panel(
            f"Loss by round, {reading}",
            "alpha is claimed for each round" if reading == PUBLISHED else "alpha is the total over all rounds",
            "round",
            [
                Series(
                    f"{name.upper()}, alpha {alpha:g}",
                    list(range(1, len(runs[0].losses) + 1)),
                    _shown(np.mean([run.losses for run in runs], axis=0)),
                    colour=lines.index((name, alpha)),
                    dashed=reading == PUBLISHED,
                )
                for (name, which, alpha), runs in found.items()
                if which == reading
            ],
            levels=list(base.loss.items()),
        )
        for reading in (PUBLISHED, TRULY)
    ]
    return Reproduction(figure, title, paper, rows_of(found, base), findings(found, base), [*NOTES, *_off()], panels)


def trade_off(request: Request, figure: str, name: str, c4: float, c5: float, *, errors: bool = False) -> Reproduction:
    """Loss over alpha at the last round, the fitted L_acc, and the optimal design of Definition 3."""
    found, base = sweep(request, (name,), TRADE_OFF, request.runs(1))
    told = findings(found, base)
    panels = []
    for reading in (PUBLISHED, TRULY):
        alphas = np.array([alpha for _, which, alpha in found if which == reading])
        runs = [found[name, reading, float(alpha)] for alpha in alphas]
        losses = np.array([np.mean([run.losses[-1] for run in one]) for one in runs])
        series = [Series("measured", alphas.tolist(), _shown(losses), dashed=reading == PUBLISHED)]
        try:
            every = [(float(a), float(run.losses[-1])) for a, one in zip(alphas, runs, strict=True) for run in one]
            curve = fit(np.array([a for a, _ in every]), np.array([value for _, value in every]))
            design = optimal(curve, Utility(), alpha_low=float(alphas[0]))
            told.append(
                f"{reading}: fitted L_acc = {curve.c4:.3g} exp(-{curve.c5:.3g} alpha) + {curve.c6:.3g} (the paper: "
                f"c4 = {c4:g}, c5 = {c5:g}); optimal alpha {design.alpha:.3g}"
                + ("." if design.interior else ", at a limit: the trade-off has no optimum of its own.")
            )
            grid = np.linspace(float(alphas[0]), float(alphas[-1]), 60)
            series.append(Series("fitted L_acc", grid.tolist(), _shown([curve.loss(float(a)) for a in grid]), colour=1))
        except DesignError as error:
            told.append(f"{reading}: no curve is fitted: {error}.")
        utility = Utility()
        series.append(
            Series("utility of privacy, Eq. 29", alphas.tolist(), [utility.value(float(a)) for a in alphas], colour=2)
        )
        panels.append(
            Panel(
                f"Trade-off, {reading}",
                "alpha is claimed for each round" if reading == PUBLISHED else "alpha is the total over all rounds",
                "alpha",
                series,
                levels=list(base.loss.items()),
            )
        )
    if errors:
        panels += final(figure, "", "error", "", found, base).panels
    return Reproduction(
        figure,
        f"privacy-accuracy trade-off of {name.upper()}",
        f"loss falls exponentially with alpha: L_acc = c4 exp(-c5 alpha) + c6, c4 = {c4:g}, c5 = {c5:g}",
        rows_of(found, base),
        told,
        [*NOTES, *_off()],
        panels,
    )


def final(figure: str, title: str, measure: str, paper: str, found: Found, base: Baseline) -> Reproduction:
    """Final loss or error over alpha, both methods, both readings."""

    def of(run: Run) -> float:
        return float(run.losses[-1]) if measure == "loss" else run.error

    keys = list(dict.fromkeys((name, reading) for name, reading, _ in found))
    names = list(dict.fromkeys(name for name, _ in keys))
    panels = [
        Panel(
            f"Final {measure}, {reading}",
            "alpha is claimed for each round" if reading == PUBLISHED else "alpha is the total over all rounds",
            "alpha",
            [
                Series(
                    name.upper(),
                    [alpha for n, r, alpha in found if (n, r) == (name, reading)],
                    _shown(
                        np.array(
                            [
                                np.mean([of(run) for run in runs])
                                for (n, r, _), runs in found.items()
                                if (n, r) == (name, reading)
                            ]
                        )
                    ),
                    colour=names.index(name),
                    dashed=reading == PUBLISHED,
                )
                for name, which in keys
                if which == reading
            ],
            levels=list((base.loss if measure == "loss" else base.error).items()),
        )
        for reading in (PUBLISHED, TRULY)
    ]
    return Reproduction(figure, title, paper, rows_of(found, base), findings(found, base), [*NOTES, *_off()], panels)


def findings(found: Found, base: Baseline) -> list[str]:
    """What became of each method and reading against the majority class and a node alone."""
    told: list[str] = []
    for name, reading in dict.fromkeys((n, r) for n, r, _ in found):
        mine: dict[float, Sequence[Run]] = {a: runs for (n, r, a), runs in found.items() if (n, r) == (name, reading)}
        errors = {
            alpha: float(np.mean([min(run.error, run.average_error) for run in runs])) for alpha, runs in mine.items()
        }
        best = min(errors, key=lambda alpha: errors[alpha])
        total = max((run.epsilon or 0.0) for run in mine[best])
        beats = [
            kind
            for kind in ("zero model", "alone")
            if errors[best] < (0.246 if kind == "zero model" else base.error[kind])
        ]
        words = {
            2: "better than the majority class and than a node alone",
            1: "better than the majority class, not than a node alone: joining gains nothing",
            0: "no better than always saying the majority class",
        }[len(beats)]
        told.append(
            f"{reading}, {name.upper()}: best error {errors[best]:.3f} at alpha {best:g}"
            + (f", which truly costs epsilon {total:.3g} over all rounds" if reading == PUBLISHED else " in total")
            + f"; {words}."
        )
        worse = [
            alpha for alpha, runs in mine.items() if np.mean([r.losses[-1] for r in runs]) > base.loss["zero model"]
        ]
        if worse:
            told.append(
                f"{reading}, {name.upper()}: the last loss is above that of the zero model at alpha "
                f"{', '.join(f'{alpha:g}' for alpha in worse)}."
            )
    dual, primal = (
        {
            a: float(np.mean([r.losses[-1] for r in runs]))
            for (n, which, a), runs in found.items()
            if n == m and which == TRULY
        }
        for m in ("dvp", "pvp")
    )
    if dual and primal:
        better = sum(primal[a] < dual[a] for a in dual)
        told.append(
            f"truly private: primal perturbation (own-release, Gaussian) has the lower last loss at {better} of "
            f"{len(dual)} alphas"
            + (": the paper's preference for the dual does not appear." if better * 2 > len(dual) else ".")
        )
    return told


def _shown(values: Any) -> list[float]:
    return [float(v) for v in np.minimum(np.asarray(values, dtype=np.float64), LOSS_OFF_SCALE)]


def _off() -> list[str]:
    return [f"Losses above {LOSS_OFF_SCALE:g} are drawn at {LOSS_OFF_SCALE:g}; {MAJORITY}."]
