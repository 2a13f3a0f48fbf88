"""Figure 1: convergence of M-ADMM without privacy, with the printed growing penalties and with constant ones.

The paper prints the penalties of figure 1a, not its other dual steps: the ones here keep theta below every penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator_free.agents.admm.settings import AdmmSettings
from coordinator_free.problem.consensus import consensus_optimum
from coordinator_free.release import FloatArray
from node.experiments.charts import Panel
from node.experiments.reproduce.adult import ADULT, DATA, MAJORITY, census, judged, over_rounds
from node.experiments.reproduce.figure import OPEN, Figure, Reproduction, Request, Setting
from node.experiments.trial import Trial
from node.untyped import Changes

NOTES = [
    "C = 1750, rho = 1 shared by the nodes: 001 prints neither. Rows as in 000: adult.data, columns by public bounds.",
    f"Loss: mean logistic loss on the training rows; {MAJORITY}.",
]
PRINTED = {"starts": [0.55, 0.65, 0.6, 0.55, 0.6], "growths": [1.01, 1.03, 1.1, 1.2, 1.02]}
STEPS = {"thetas": [0.55, 0.45, 0.35, 0.5, 0.4]}
"""Dual steps of the nodes' own, all below the printed penalties."""
APART = {"thetas": [0.5, 0.3, 0.5, 0.3, 0.2]}
"""The same for a constant penalty of 0.5."""


def _own(**parameters: Any) -> Changes:
    return {
        "learning.algorithm": "node.experiments.reproduce.published:OwnPenalties",
        "learning.parameters": parameters,
    }


FIXED = "(a) own growing penalties, theta 0.5"
CONTROL, OWN_STEPS = "control: constant 3, theta 3", "control: constant 0.5, theta of each node's own"
SCHEDULES: dict[str, Changes] = {
    FIXED: _own(**PRINTED),
    "(a) the same, theta growing by 1.01": _own(**PRINTED, theta_growth=1.01),
    "(a) the same, theta of each node's own": _own(**PRINTED, **STEPS),
    **{
        f"(b) 0.5 times {q:g}^t": {"learning.penalty": 0.5, "learning.penalty_growth": q} for q in (1.0, 1.05, 1.1, 1.2)
    },
    CONTROL: {"learning.penalty": 3.0, "learning.theta": 3.0},
    OWN_STEPS: _own(starts=[0.5], growths=[1.0], **APART),
}
DISTANCE = "distance to the pooled optimum"


def _schedules(_: Request) -> list[Setting]:
    own = {**ADULT, "learning.algorithm": "m-admm", "learning.theta": 0.5}
    return [Setting((name,), census(updates=60, shared=True), own | changes) for name, changes in SCHEDULES.items()]


def _without_privacy(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    """The printed growing penalties beside constant ones; always one run of each, since nothing is random in them."""
    losses: dict[str, FloatArray] = {}
    distances: dict[str, FloatArray] = {}
    best, weighted = np.empty(0), 0.0
    for setting, _, trial in request.trials(settings, 1):
        (name,) = setting.key
        best = best if best.size else _optimum(trial)
        losses[name], distances[name] = judged(trial).losses, _distances(trial, best)
        if name == OWN_STEPS:
            thetas = np.resize(APART["thetas"], trial.preparation.agents)
            weighted = float(_distances(trial, _optimum(trial, 1.0 / thetas))[-1])
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
    findings = [*_on_growth(distances), *_on_steps(distances, weighted)]
    return figure.shown(rows, findings, NOTES, panels)


def _on_growth(distances: Mapping[str, FloatArray]) -> list[str]:
    """Whether growing penalties freeze short of the optimum, and slow convergence down."""
    frozen, printed = distances[FIXED], float(distances[FIXED][-1])
    ends = [float(distance[-1]) for name, distance in distances.items() if name.startswith("(b)")]
    still = float(abs(frozen[-1] - frozen[len(frozen) // 2]) / frozen[-1])
    return [
        f"The printed growing penalties end {printed:.3g} from the optimum (relative) and moved by {still:.1%} of that "
        "in the second half"
        + (
            ": they freeze short of it, since Theorem 3.1 needs bounded penalties."
            if still < 0.1 < printed / ends[0]
            else "; how they freeze shows in more rounds (--set clock.updates=100)."
        ),
        f"Constant penalties end {ends[0]:.3g} (0.5) and {float(distances[CONTROL][-1]):.3g} (3) from it.",
        "Larger growth converges more slowly, as the paper says."
        if all(smaller <= larger for smaller, larger in pairwise(ends))
        else "Larger growth does not always converge more slowly: the paper's order does not appear.",
    ]


def _on_steps(distances: Mapping[str, FloatArray], weighted: float) -> list[str]:
    """What dual steps that change, or differ by node, do to where the agents come to rest."""
    fixed, growing, own = (float(d[-1]) for name, d in distances.items() if name.startswith("(a)"))
    pooled = float(distances[OWN_STEPS][-1])
    return [
        f"With the printed penalties a dual step that grows ends {growing:.3g} from the optimum and the nodes' own "
        f"steps {own:.3g}, against {fixed:.3g}.",
        f"Nodes with other dual steps agree on another optimum: with a constant penalty of 0.5 they end {weighted:.3g} "
        f"from the optimum that weighs node i by 1/theta_i, and {pooled:.3g} from the pooled one.",
    ]


def _optimum(trial: Trial, weights: FloatArray | None = None) -> FloatArray:
    """The optimum that the agents of a run agree on, shape (d,); ``weights`` are those of their objectives."""
    own = AdmmSettings.of(trial.preparation.configuration.learning.given())
    rho = own.rho / trial.preparation.agents if own.regulariser == "shared" else own.rho
    return consensus_optimum(trial.problems, own.capacity, rho, weights, own.regulariser_form)


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
    "M-ADMM converges with private growing penalties, also with dual steps that change or differ by node; larger "
    "growth slows it down (a plot)",
    _schedules,
    _without_privacy,
    data=DATA,
    small=("data.agents=5", "clock.updates=6"),
)
