"""The Polyak-Lojasiewicz condition on three losses: Definition 2, Theorem 3 and where the condition fails.

Rules that hold here:
- Agents descend in step, from zero, as Theorem 3 needs it: with noise that truly has the stated epsilon, and without.
- mu on the way is the largest that holds at the models of a run; the bound of Theorem 3 uses it.
- mu far out is the largest that holds on rays of length up to `FARTHEST`, along the minimiser and random directions.
  The condition must hold everywhere, so a loss whose mu falls to 0 there does not satisfy it.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from coordinator_free.release import FloatArray
from coordinator_free.theory.weighted_averages import Descent, condition
from node.experiments.charts import Panel, Series
from node.experiments.reproduce.figure import OPEN, TRULY, Figure, Reproduction, Request, Row, Setting
from node.experiments.reproduce.paper003.runs import check_rows
from node.experiments.reproduce.paper003.settings import (
    CLIP,
    DELTA,
    figure_003,
    sources,
    start_of,
    table,
    task,
)
from node.experiments.theory.averaged import Averaged, Objective, averaged
from node.experiments.theory.subject import Subject
from node.experiments.trial import Trial

LOSSES = {"logistic": 0, "sigmoid-squared": 1, "logistic-nonconvex": 2}
"""Each loss and its colour."""
EPSILON, ROUNDS, STEP, REGULARISATION = 1.0, 60, 2.0, 1.0
LENGTHS, FARTHEST, RAYS, START = np.logspace(-1.0, 4.0, 26), 1e4, 8, 1e3
"""Lengths on a ray, and how far out a descent starts to show what a loss without the condition does."""
ROUNDS_FAR_OUT = 2_000
VANISHED = 1e-3
"""Of mu on the way: a mu far out below this part of it has vanished."""


def _settings(request: Request) -> list[Setting]:
    """Every loss on every data set, with noise and without."""
    start = table(4, split="random")
    start = {**start, "clock": {"updates": ROUNDS}, "learning": {"step": STEP}}
    return [
        Setting(
            (source, loss, reading),
            start_of(source, start),
            {
                **task(source, path),
                "learning.algorithm": "gradient-descent",
                "learning.loss": loss,
                "learning.regularisation": REGULARISATION,
                **({"privacy.epsilon": EPSILON, "privacy.clip": CLIP} if reading == TRULY else _OPEN),
            },
        )
        for source, path in sources(request)
        for loss in LOSSES
        for reading in (TRULY, OPEN)
    ]


_OPEN = {"privacy.mechanism": "none", "privacy.delta": None}


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    runs = request.runs(figure.runs)
    found: dict[tuple[Any, ...], list[_Seen]] = {}
    for setting, seed, trial in request.trials(settings, runs):
        check_rows(trial)
        found.setdefault(setting.key, []).append(_Seen(trial, seed))
    rows = [_row(key, seen) for key, seen in found.items()]
    of = ", ".join(dict.fromkeys(key[0] for key in found))
    notes = [
        f"{runs} run{'s' if runs > 1 else ''} of each; descent in step, lambda m_i = {REGULARISATION:g}, epsilon "
        f"{EPSILON:g} at delta {DELTA:g} over all releases.",
        "mu: the largest mu that holds, at the models of a run and on rays. Where a loss is not convex, the minimum is "
        "the one that a descent from zero reaches; mu and gaps are measured against it.",
        f"Gap far out: of a descent without noise from a model of length {START:g}, after {ROUNDS_FAR_OUT} rounds.",
    ]
    return figure.shown(rows, _findings(rows), notes, _panels(found), of=f", {of}")


class _Seen:
    """One run: its gaps, the bound of Theorem 3, and what the loss is like far out."""

    def __init__(self, trial: Trial, seed: int) -> None:
        preparation = trial.preparation
        subject = Subject(
            Path(),
            preparation.configuration,
            preparation.network,
            preparation=preparation,
            played=tuple(trial.releases),
        )
        of = averaged(subject)
        assert of is not None
        assert of.iterates is not None
        self.epsilon = trial.epsilon
        self.accuracy = float(np.mean(trial.scores(trial.models)))
        self.gaps = of.objective.gaps(of.iterates)
        self.mu = of.condition or 0.0
        self.bound = self._bound(of)
        rays = _rays(of.objective, np.random.default_rng([seed, 4]))
        self.far = np.array([_mu(of.objective, length * rays) for length in LENGTHS])
        self.stuck = self._from_far(of.objective, rays[0])

    def _bound(self, of: Averaged) -> FloatArray:
        descent = Descent(
            of.objective.smoothness, self.mu, of.objective.dimension, of.variance, of.gap, of.settings.step
        )
        return descent.tight(np.arange(len(self.gaps), dtype=np.float64))

    def _from_far(self, objective: Objective, ray: FloatArray) -> float:
        theta = START * ray
        for _ in range(ROUNDS_FAR_OUT):
            theta = theta - objective.gradient(theta) / objective.smoothness
        return float(objective.gaps(theta[None, :])[0])


def _rays(objective: Objective, random: np.random.Generator) -> FloatArray:
    """Unit vectors: along the minimiser, against it, and random ones, shape (2 + `RAYS`, p)."""
    along = objective.minimiser / np.linalg.norm(objective.minimiser)
    others = random.normal(size=(RAYS, objective.dimension))
    return np.stack([along, -along, *(others / np.linalg.norm(others, axis=1)[:, None])])


def _mu(objective: Objective, models: FloatArray) -> float:
    gradients = np.array([float(np.linalg.norm(objective.gradient(model))) for model in models])
    return condition(gradients, objective.gaps(models))


def _row(key: tuple[Any, ...], seen: list[_Seen]) -> Row:
    source, loss, reading = key
    return {
        "data": source,
        "loss": loss,
        "reading": reading,
        "epsilon": seen[0].epsilon,
        "mu on the way": mean(run.mu for run in seen),
        "mu far out": min(float(run.far.min()) for run in seen),
        "last gap": mean(float(run.gaps[-1]) for run in seen),
        "bound": mean(float(run.bound[-1]) for run in seen),
        "bound held": f"{sum(_held(run) for run in seen)} of {len(seen)}",
        "gap far out": mean(run.stuck for run in seen),
        "accuracy": mean(run.accuracy for run in seen),
    }


def _held(run: _Seen) -> bool:
    return bool((run.gaps <= run.bound * (1.0 + 1e-9) + 1e-12).all())


def _findings(rows: list[Row]) -> list[str]:
    """What each loss does, for each data set: from the rows alone."""
    found = []
    for row in (row for row in rows if row["reading"] == OPEN):
        vanished = row["mu far out"] < VANISHED * row["mu on the way"]
        verdict = "does not satisfy the condition" if vanished else "satisfies it wherever it was looked at"
        found.append(
            f"{row['data']}, {row['loss']}: mu is {row['mu on the way']:.3g} on the way and {row['mu far out']:.3g} "
            f"far out, so it {verdict}; a descent from far out is left with a gap of {row['gap far out']:.3g}."
        )
    held = [row["bound held"] for row in rows]
    whole = sum(part.split(" of ")[0] == part.split(" of ")[1] for part in held)
    return [
        *found,
        f"Theorem 3's bound, with the mu on the way and each run's own noise and step, holds at all rounds in {whole} "
        f"of {len(held)} settings.",
    ]


def _panels(found: dict[tuple[Any, ...], list[_Seen]]) -> list[Panel]:
    made = []
    for source in dict.fromkeys(key[0] for key in found):
        for loss, colour in LOSSES.items():
            seen = found[source, loss, TRULY]
            rounds = list(range(len(seen[0].gaps)))
            lines = [
                Series("measured", rounds, np.mean([run.gaps for run in seen], axis=0).tolist(), colour=colour),
                Series("bound of Theorem 3", rounds, np.mean([run.bound for run in seen], axis=0).tolist(), colour=5),
            ]
            below = f"{source}; epsilon {EPSILON:g}, mean over runs"
            made.append(Panel(f"Optimal gap, {loss}", below, "rounds", lines, y_log=True))
        lines = [
            Series(
                loss, LENGTHS.tolist(), np.min([run.far for run in found[source, loss, OPEN]], axis=0).tolist(), (), c
            )
            for loss, c in LOSSES.items()
        ]
        made.append(
            Panel(
                "Largest mu at a distance",
                f"{source}; on {RAYS + 2} rays",
                "length of the model",
                lines,
                (),
                True,
                True,
            )
        )
    return made


FIGURE = figure_003(
    "paper003/condition",
    "Definition 2 and Theorem 3: losses with the Polyak-Lojasiewicz condition and without",
    "no experiment: the condition is assumed, and said to follow from convexity",
    _settings,
    _reduce,
    small=("data.agents=4", "clock.updates=20"),
)
