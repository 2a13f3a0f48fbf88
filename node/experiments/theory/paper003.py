"""The bounds of paper 003: Kang, Liu and Wang, *Weighted Distributed Differential Privacy ERM*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu
from coordinator_free.privacy.observer import truth
from coordinator_free.release import FloatArray
from coordinator_free.theory.weighted_averages import Descent, Sizes
from node.experiments.theory.averaged import averaged
from node.experiments.theory.bound import Bound, Reading
from node.experiments.theory.excess_risk import GAP, ROUNDS, excess_risk, named
from node.experiments.theory.subject import Subject

_NOISE = "variance of the noise in one coordinate"
_SMALL = 1e-12


def _theorem_1(subject: Subject) -> list[Bound]:
    """The epsilon that each party's releases cost: of Eq. (3)'s noise, and of the subject's own."""
    of = averaged(subject)
    if of is None or of.printed is None:
        return []
    sizes, claimed = of.printed, np.full(len(of.sizes), of.printed.epsilon)
    mu, releases = gaussian_mu(sizes.epsilon, sizes.delta), subject.public[0].releases
    true = np.array([gaussian_epsilon(mu * sizes.records / size, sizes.delta) for size in of.sizes])
    published = of.numbers.observer == "as_published"
    spent = None
    if not published:
        charges = [[party.charge(k) for k in range(releases)] for party in of.parties]
        spent = np.array([total(each, sizes.delta).epsilon for each in charges])
    result = truth(sizes.epsilon, sizes.delta, of.sizes).sum
    readings: list[tuple[Reading, str, FloatArray, FloatArray | None, dict[str, float]]] = [
        (
            "as published",
            "the noise of Eq. (3) costs epsilon for every observer; measured: what it costs a receiver of the releases",
            claimed,
            true,
            {"epsilon of the weighted average alone": result},
        ),
        (
            "as true",
            "what this noise costs, of sensitivity 2 G / n_j for each release, or 2 G / n for a masked sum",
            true if published else claimed,
            spent,
            {},
        ),
    ]
    return [
        Bound(
            name="privacy of a party's releases",
            source="003, Theorem 1",
            statement=statement,
            reading=reading,
            x_label="agent",
            y_label="epsilon",
            at=np.array(of.owners, dtype=np.float64),
            bound=bound,
            constants=_of_sizes(sizes) | more,
            measured=cost,
            held=None if cost is None else bool((cost <= bound * (1.0 + 1e-6)).all()),
        )
        for reading, statement, bound, cost, more in readings
    ]


def _theorem_2(subject: Subject) -> list[Bound]:
    """Eq. (11) of a strongly convex objective: mu is what the regulariser gives."""
    of = averaged(subject)
    if of is None or not of.objective.problems[0].loss.convex or not of.objective.decay > 0.0:
        return []
    return excess_risk(of, of.objective.decay, "003, Theorem 2, Eq. (11)", "lambda")


def _theorem_3(subject: Subject) -> list[Bound]:
    """The same under the Polyak-Lojasiewicz condition, with the largest mu that holds at the models on the way."""
    of = averaged(subject)
    if of is None or of.condition is None:
        return []
    return excess_risk(of, of.condition, "003, Theorem 3", "mu")


def _remark_1(subject: Subject) -> list[Bound]:
    """Eq. (11) beside the bound of Wang, Ye and Xu (2017)."""
    of = averaged(subject)
    if of is None or of.condition is None or not of.variance > 0.0:
        return []
    descent = Descent(of.objective.smoothness, of.condition, of.objective.dimension, of.variance, of.gap)
    rounds = np.arange(1.0, 1.0 + of.steps)
    earlier = descent.earlier(rounds)
    return [
        Bound(
            name="improvement over Wang, Ye and Xu (2017)",
            source="003, Remark 1",
            statement=statement,
            reading=reading,  # type: ignore[arg-type]
            x_label=ROUNDS,
            y_label="bound of F - F*",
            at=rounds,
            bound=earlier,
            constants=named(descent, "mu") | {"L/mu": descent.smoothness / descent.curvature},
            measured=ours,
            held=bool((ours <= earlier * (1.0 + _SMALL)).all()),
        )
        for reading, statement, ours in (
            (
                "as published",
                "Eq. (11), drawn as measured, is below q^T gap + T p s^2 / (2 L)",
                descent.printed(rounds),
            ),
            ("as true", "the line before Eq. (11), drawn as measured, is below it for every T", descent.tight(rounds)),
        )
    ]


def _rounds_asked(subject: Subject) -> list[Bound]:
    """T = O~(log(...)) of Theorems 2 and 3, beside the rounds after which the start no longer matters."""
    of = averaged(subject)
    if of is None or of.printed is None or of.condition is None or not of.variance > 0.0:
        return []
    sizes, objective, mu = of.printed, of.objective, of.condition
    descent = Descent(objective.smoothness, mu, objective.dimension, of.variance, of.gap)
    at = np.array([1.0 / sizes.target])
    common = {"L": objective.smoothness, "mu": mu, "T of this subject": float(of.steps)}
    return [
        Bound(
            name="rounds",
            source="003, Theorems 2 and 3, T",
            statement=statement,
            reading=reading,  # type: ignore[arg-type]
            x_label="n^2 epsilon^2 / (p G^2 ln(1/delta))",
            y_label=ROUNDS,
            at=at,
            bound=np.array([float(value)]),
            constants=common | more,
            unspecified=tuple(more),
        )
        for reading, statement, value, more in (
            ("as published", "c log(n^2 epsilon^2 / (p G^2 ln(1/delta))) rounds", sizes.rounds(), {"c": 1.0}),
            ("as true", "rounds until the start adds no more than the noise: L/mu times a log", descent.rounds(), {}),
        )
    ]


def _table_1_noise(subject: Subject) -> list[Bound]:
    """The noise column, over the rounds, beside the variance that the average really has."""
    of = averaged(subject)
    if of is None or of.printed is None:
        return []
    sizes = of.printed
    rounds = np.arange(1.0, 1.0 + of.steps)
    real = np.full(len(rounds), of.variance)
    rows: list[tuple[str, str, FloatArray]] = [
        ("Jayaraman et al. (2018)", "c G^2 T log(1/delta) / (m n_(1) epsilon)^2", sizes.variance_by_parties(rounds)),
        (
            "Zhang et al. (2017)",
            "second moment c (p G^2 log(n/delta) log(1/delta) + G^2 epsilon^2) / epsilon^2 of one step",
            np.full(len(rounds), sizes.second_moment()),
        ),
        ("Wang, Ye and Xu (2017)", "c G^2 T ln(1/delta) / (n epsilon)^2", sizes.variance(rounds)),
        ("WD-DP", "c G^2 T ln(1/delta) / (n epsilon)^2", sizes.variance(rounds)),
    ]
    return [
        *(
            Bound(
                name=f"noise of {name}",
                source="003, Table 1",
                statement=statement,
                reading="as published",
                x_label=ROUNDS,
                y_label=_NOISE,
                at=rounds,
                bound=values,
                constants=_of_sizes(sizes) | {"c": 1.0},
                unspecified=("c",),
                measured=real,
            )
            for name, statement, values in rows
        ),
        Bound(
            name="noise of WD-DP",
            source="003, Table 1",
            statement="T steps of each party, of sensitivity 2 G / n_j, and their average by size: exact composition",
            reading="as true",
            x_label=ROUNDS,
            y_label=_NOISE,
            at=rounds,
            bound=rounds
            * len(of.sizes)
            * (2.0 * sizes.lipschitz / (sizes.records * gaussian_mu(sizes.epsilon, sizes.delta))) ** 2,
            constants=_of_sizes(sizes),
            measured=real,
        ),
    ]


def _table_1_risk(subject: Subject) -> list[Bound]:
    """The column of excess risks, beside the gap that a run ended with."""
    of = averaged(subject)
    if of is None or of.printed is None:
        return []
    sizes = of.printed
    ended = None if of.final is None else of.objective.gaps(of.final[None, :])
    convexity, smoothness = of.objective.decay, of.objective.smoothness
    diameter = float(np.linalg.norm(of.objective.minimiser))
    rows = [
        ("Zhang et al. (2017)", sizes.risk_of_random_rounds(diameter), {"D": diameter}),
        ("Wang, Ye and Xu (2017)", sizes.risk_of_one_party(), {}),
        ("WD-DP, Eq. (12)", sizes.promised(), {}),
    ]
    if convexity > 0.0:
        rows += [
            ("Pathak, Rane and Raj (2010)", sizes.risk_of_minimisers(convexity), {"lambda": convexity}),
            (
                "Jayaraman et al. (2018)",
                sizes.risk_by_parties(smoothness, convexity),
                {"lambda": convexity, "L": smoothness},
            ),
        ]
    return [
        Bound(
            name=f"excess risk of {name}",
            source="003, Table 1",
            statement="the printed O(...) with c as its constant, beside where this run ended",
            reading="as published",
            x_label="epsilon",
            y_label=GAP,
            at=np.array([sizes.epsilon]),
            bound=np.array([value]),
            constants=_of_sizes(sizes) | more | {"c": 1.0},
            unspecified=("c",),
            measured=ended,
            held=None if ended is None or "WD-DP" not in name else bool(ended[0] <= value),
        )
        for name, value, more in rows
    ]


BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = (
    _theorem_1,
    _theorem_2,
    _theorem_3,
    _remark_1,
    _rounds_asked,
    _table_1_noise,
    _table_1_risk,
)


def _of_sizes(sizes: Sizes) -> dict[str, float]:
    return {
        "m": float(sizes.parties),
        "n": float(sizes.records),
        "n_(1)": float(sizes.smallest),
        "p": float(sizes.dimension),
        "G": sizes.lipschitz,
        "epsilon": sizes.epsilon,
        "delta": sizes.delta,
    }
