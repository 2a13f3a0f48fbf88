"""Figures 2 to 4: penalty perturbation against dual perturbation, as published and at one true total."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coordinator_free.agents.admm.penalty_perturbation import published_cost, round_cost
from node.experiments.charts import Panel
from node.experiments.reproduce.adult import (
    ADULT,
    CAPACITY,
    DATA,
    DELTA,
    MAJORITY_ERROR,
    SMALL,
    Baseline,
    Run,
    baseline,
    by_method,
    census,
    judged,
    over_rounds,
    published,
)
from node.experiments.reproduce.figure import PUBLISHED, TRULY, Figure, Reproduction, Request, Setting
from node.experiments.reproduce.paper001.figure1 import NOTES
from node.experiments.trial import Trial


@dataclass(frozen=True)
class _Schedule:
    """Penalty 0.5 q1^t with noise rate alpha q2^t, or a control. Its totals hold on a ring, with rho = 1 shared."""

    penalty: float
    growth: float
    alpha: float
    alpha_growth: float

    def changes(self) -> dict[str, Any]:
        return {
            **ADULT,
            **published("GivenRates", alpha=self.alpha, alpha_growth=self.alpha_growth),
            "topology.kind": "ring",
            "learning.capacity": CAPACITY,
            "learning.rho": 1.0,
            "learning.regulariser": "shared",
            "learning.penalty": self.penalty,
            "learning.penalty_growth": self.growth,
            "learning.theta": self.penalty,
        }

    def totals(self, trial: Trial) -> tuple[float, float]:
        """Eq. 26, and the sum of tight round costs, of the agent with the fewest records."""
        smallest, agents = min(trial.records), trial.preparation.agents
        printed = tight = 0.0
        for t in range(trial.preparation.configuration.clock.updates):
            eta, alpha = self.penalty * self.growth**t, self.alpha * self.alpha_growth**t
            printed += published_cost(alpha, eta, 2, smallest, CAPACITY)
            tight += round_cost(alpha, eta, 2, smallest, CAPACITY, 1.0 / agents)
        return printed, tight


def schedules(alpha: float) -> dict[str, _Schedule]:
    """DVP and PP as in figure 2, and the control: a constant penalty ten times larger with the same noise."""
    return {
        "DVP": _Schedule(0.5, 1.0, alpha, 1.0),
        "PP, q1 = 1.02, q2 = 1.01": _Schedule(0.5, 1.02, alpha, 1.01),
        "control: constant penalty 5": _Schedule(5.0, 1.0, 5.0 * alpha, 1.0),
    }


EPSILONS = (1.0, 5.0)
"""Totals of the truly private reading."""


def _truly(agents: int, own_release_penalty: float) -> dict[str, dict[str, Any]]:
    """Three members of the family at one total, each with settings that suit it."""
    penalty = 0.73 if agents <= 5 else 2.2
    common = {
        **ADULT,
        "privacy.delta": DELTA,
        "privacy.clip": 1.0,
        "learning.regulariser": "per-node",
        "learning.rho": 0.0175,
    }
    dual = {**common, "privacy.mechanism": "gamma-norm", "learning.penalty": penalty, "clock.updates": 5}
    return {
        "DVP": {**dual, "learning.algorithm": "dvp"},
        "PP": {**dual, "learning.algorithm": "pp", "learning.penalty_growth": 1.05, "learning.theta": penalty},
        "own-release, Gaussian": {
            **common,
            "learning.algorithm": "pvp",
            "learning.penalty": own_release_penalty,
            "clock.updates": 20,
            "privacy.mechanism": "gaussian",
        },
    }


def _compared(request: Request, table: Mapping[str, Any], alpha: float, own_release_penalty: float) -> list[Setting]:
    printed = [Setting((PUBLISHED, name, None), table, one.changes()) for name, one in schedules(alpha).items()]
    truly = _truly(request.agents(table["data"]["agents"]), own_release_penalty)
    return printed + [
        Setting((TRULY, name, epsilon), table, {**changes, "privacy.epsilon": epsilon})
        for epsilon in request.few(EPSILONS)
        for name, changes in truly.items()
    ]


def _compare(figure: Figure, request: Request, settings: list[Setting], *, alpha: float, rounds: int) -> Reproduction:
    """Runs as published with every seed, and one of each truly private setting."""
    printed: dict[str, list[Run]] = defaultdict(list)
    totals: dict[str, tuple[float, float]] = {}
    base: Baseline | None = None
    runs = request.runs(figure.runs)
    for setting, _, trial in request.trials([s for s in settings if s.key[0] == PUBLISHED], runs):
        name = setting.key[1]
        printed[name].append(judged(trial))
        totals[name] = schedules(alpha)[name].totals(trial)
        base = base or baseline(trial)
    assert base is not None
    true, refused = _truly_private(request, [s for s in settings if s.key[0] == TRULY])
    rows = _rows(printed, totals, true)
    findings = [*_on_published(rows), *_on_truly_private(rows, base), *refused]
    notes = [*NOTES, f"{runs} run(s) as published, {rounds} rounds by default; the paper has 10 runs."]
    return figure.shown([*rows, *base.rows(list(rows[0]))], findings, notes, _panels(printed, true, base))


def _truly_private(request: Request, settings: Sequence[Setting]) -> tuple[dict[tuple[str, float], Run], list[str]]:
    """One run of each setting, and a finding where PP cannot spend so little.

    PP cannot add the extra curvature that DVP has where a round's epsilon is small.
    """
    found: dict[tuple[str, float], Run] = {}
    refused = []
    for setting in settings:
        _, name, epsilon = setting.key
        try:
            found[name, epsilon] = judged(request.play(setting, 0))
        except ValueError as error:
            if name != "PP":
                raise
            refused.append(f"{TRULY}, epsilon {epsilon:g}, {name}: it cannot spend so little: {error}.")
    return found, refused


def _rows(
    printed: Mapping[str, Sequence[Run]],
    totals: Mapping[str, tuple[float, float]],
    true: Mapping[tuple[str, float], Run],
) -> list[dict[str, Any]]:
    lines: list[tuple[str, str, tuple[float | None, float | None], Sequence[Run]]] = [
        *((name, PUBLISHED, totals[name], mine) for name, mine in printed.items()),
        *((name, f"{TRULY}, epsilon {epsilon:g}", (None, None), [run]) for (name, epsilon), run in true.items()),
    ]
    rows = []
    for name, reading, (claimed, tight), runs in lines:
        averages = by_method({name: runs})[name]
        rows.append(
            {
                "method": name,
                "reading": reading,
                "total as published": claimed,
                "true total, delta 0": tight,
                "true total, delta 1e-5": averages["true total"],
                "last loss": averages["last loss"],
                "range": float(np.ptp([run.last for run in runs])) if len(runs) > 1 else None,
                "error": averages["error"],
                "error of average": averages["error of average"],
            }
        )
    return rows


def _panels(printed: Mapping[str, Sequence[Run]], true: Mapping[tuple[str, float], Run], base: Baseline) -> list[Panel]:
    as_published = []
    for k, (name, runs) in enumerate(printed.items()):
        losses = np.array([run.losses for run in runs])
        band = (np.ptp(losses, axis=0) / 2.0).tolist()
        as_published.append(over_rounds(name, losses.mean(axis=0), k, dashed=True, band=band))
    private = [
        over_rounds(f"{name}, epsilon {epsilon:g}", np.minimum(run.losses, 3.0), k)
        for k, ((name, epsilon), run) in enumerate(true.items())
    ]
    return [
        Panel(f"Loss by round, {reading}", below, "round", series, levels=base.levels)
        for reading, below, series in (
            (PUBLISHED, "mean over the runs, band: half of their range", as_published),
            (TRULY, "epsilon in total at delta 1e-5", private),
        )
    ]


def _on_published(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """PP against DVP, and what of the gain the control has too."""
    (dual, d), (penalty, p), (control, c) = ((row["last loss"], row["true total, delta 0"]) for row in rows[:3])
    appears = "appears" if penalty < dual and p < d else "does not appear"
    return [
        f"as published, PP against DVP: loss {penalty:.3f} at a true total of {p:.3g}, against {dual:.3f} at {d:.3g}: "
        f"better in both {appears}.",
        f"control: a constant penalty of 5 has loss {control:.3f} at {c:.3g}"
        + ("; most of the gain is that 0.5 is too small a penalty." if control < 0.5 * (dual + penalty) else "."),
        f"all of these totals, {min(d, p, c):.3g} and more, are far from private.",
    ]


def _on_truly_private(rows: Sequence[Mapping[str, Any]], base: Baseline) -> list[str]:
    """Each method against an agent alone and the majority class."""
    findings = []
    for row in rows:
        if row["reading"].startswith(TRULY):
            error = min(row["error"], row["error of average"])
            if error < base.error["alone"]:
                words = "better than an agent alone"
            elif error < MAJORITY_ERROR:
                words = "better than the majority class, not than an agent alone"
            else:
                words = "no better than the majority class"
            findings.append(f"{row['reading']}, {row['method']}: error {error:.3f}, {words}.")
    return findings


def _comparison(
    name: str, title: str, table: Mapping[str, Any], alpha: float, own_release_penalty: float, runs: int
) -> Figure:
    return Figure(
        f"paper001/{name}",
        title,
        "penalty perturbation beats dual perturbation in loss and in privacy at once, with suitable q1 and q2 (a plot)",
        partial(_compared, table=table, alpha=alpha, own_release_penalty=own_release_penalty),
        partial(_compare, alpha=alpha, rounds=table["clock"]["updates"]),
        runs=runs,
        data=DATA,
        small=SMALL,
    )


def _uneven(agents: int, ratio: float) -> dict[str, Any]:
    table = census(agents, shared=True)
    return {**table, "data": {**table["data"], "split": "ratio", "ratio": ratio}}


FIGURES = [
    _comparison(
        "figure2",
        "penalty perturbation against dual perturbation, five nodes",
        census(updates=40, shared=True),
        5.0,
        0.875,
        runs=2,
    ),
    _comparison(
        "figure3",
        "penalty against dual perturbation, 100 nodes, data spread evenly",
        census(100, shared=True),
        3.0,
        4.375,
        runs=1,
    ),
    _comparison(
        "figure4",
        "penalty against dual perturbation, 100 nodes, data spread unevenly",
        _uneven(100, 4.0),
        3.0,
        4.375,
        runs=1,
    ),
]
