"""Figure 1: convergence of M-ADMM without privacy, with the printed growing penalties and with constant ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator_free.agents.admm.admm import AdmmSettings
from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.release import FloatArray
from node.experiments.charts import Panel
from node.experiments.reproduce.adult import ADULT, DATA, MAJORITY, census, judged, over_rounds
from node.experiments.reproduce.figure import OPEN, Figure, Reproduction, Request, Setting
from node.experiments.trial import Trial

NOTES = [
    "C = 1750, rho = 1 shared by the nodes: 001 prints neither. Rows as in 000: adult.data, columns by public bounds.",
    f"Loss: mean logistic loss on the training rows; {MAJORITY}.",
]
PRINTED = {"starts": [0.55, 0.65, 0.6, 0.55, 0.6], "growths": [1.01, 1.03, 1.1, 1.2, 1.02]}
SCHEDULES: dict[str, dict[str, Any]] = {
    "(a) own penalties, growing by 1.01 to 1.2, as printed": {
        "learning.algorithm": "node.experiments.reproduce.published:OwnPenalties",
        "learning.parameters": PRINTED,
    },
    **{
        f"(b) 0.5 times {q:g}^t": {"learning.penalty": 0.5, "learning.penalty_growth": q} for q in (1.0, 1.05, 1.1, 1.2)
    },
    "control: constant 3, dual step 3": {"learning.penalty": 3.0, "learning.theta": 3.0},
}
DISTANCE = "distance to the pooled optimum"


def _schedules(_: Request) -> list[Setting]:
    own = {**ADULT, "learning.algorithm": "m-admm", "learning.theta": 0.5}
    return [Setting((name,), census(updates=60, shared=True), own | changes) for name, changes in SCHEDULES.items()]


def _without_privacy(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    """The printed growing penalties beside constant ones; always one run of each, since nothing is random in them."""
    losses: dict[str, FloatArray] = {}
    distances: dict[str, FloatArray] = {}
    for setting, _, trial in request.trials(settings, 1):
        (name,) = setting.key
        losses[name], distances[name] = judged(trial).losses, _distances(trial, pooled_optimum(trial))
    rows = [
        {
            "schedule": name,
            "reading": OPEN,
            "rounds": len(distance),
            DISTANCE: float(distance[-1]),
            "last loss": float(losses[name][-1]),
        }
        for name, distance in distances.items()
    ]
    panels = [
        Panel(title, below, "round", [over_rounds(n, v, k) for k, (n, v) in enumerate(values.items())], y_log=log)
        for title, below, values, log in (
            ("Distance to the pooled optimum", "relative, all nodes together", distances, True),
            ("Loss", "mean over the nodes", losses, False),
        )
    ]
    return figure.shown(rows, _on_growth(list(distances.values())), NOTES, panels)


def _on_growth(distances: Sequence[FloatArray]) -> list[str]:
    """Whether growing penalties freeze short of the optimum, and slow convergence down."""
    printed, *ends = (float(distance[-1]) for distance in distances)
    frozen = distances[0]
    still = float(abs(frozen[-1] - frozen[len(frozen) // 2]) / frozen[-1])
    return [
        f"The printed growing penalties end {printed:.3g} from the optimum (relative) and moved by {still:.1%} of that "
        "in the second half"
        + (
            ": they freeze short of it, since Theorem 3.1 needs bounded penalties."
            if still < 0.1 < printed / ends[0]
            else "; how they freeze shows in more rounds (--set clock.updates=100)."
        ),
        f"Constant penalties end {ends[0]:.3g} (0.5) and {ends[-1]:.3g} (3) from it.",
        "Larger growth converges more slowly, as the paper says."
        if all(smaller <= larger for smaller, larger in pairwise(ends[:-1]))
        else "Larger growth does not always converge more slowly: the paper's order does not appear.",
    ]


def pooled_optimum(trial: Trial) -> FloatArray:
    """The optimum that the agents of a run agree on with one dual step, shape (d,)."""
    own = AdmmSettings.of(trial.preparation.configuration.learning.given())
    rho = own.rho / trial.preparation.agents if own.regulariser == "shared" else own.rho
    return consensus_optimum(trial.problems, own.capacity, rho)


def _distances(trial: Trial, best: FloatArray) -> FloatArray:
    """Distance of all agents' releases to ``best`` by round, relative to its norm; shape (T,)."""
    rounds = max(r.round or 0 for r in trial.releases) + 1
    squares = np.zeros(rounds)
    for release in trial.releases:
        squares[release.round or 0] += float(np.sum((release.vector - best) ** 2))
    scale = np.sqrt(trial.preparation.agents) * float(np.linalg.norm(best))
    distance: FloatArray = np.sqrt(squares) / scale
    return distance


FIGURE = Figure(
    "paper001/figure1",
    "convergence of M-ADMM, five nodes, no privacy",
    "M-ADMM converges with private growing penalties; larger growth slows it down (a plot)",
    _schedules,
    _without_privacy,
    data=DATA,
    small=("data.agents=5", "clock.updates=6"),
)
