"""The bounds of paper 000 (Zhang and Zhu, dynamic privacy over a network) and of paper 002, its AISec 2016 form.

Rules that hold here:
- They speak about the ADMM family alone, on a loss with bounded slopes.
- Sizes are asked of the agent with the fewest records, at the constant beta = 1 that the paper leaves open.
- The proofs of Theorems 3 to 6 and of Lemma 11 are about the squared regulariser: about another they say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import gammainccinv
from scipy.stats import chi2

from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.admm.primal_perturbation import PrimalPerturbation
from coordinator_free.agents.admm.settings import AdmmSettings
from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.accounting import WITHOUT_EPSILON, total
from coordinator_free.privacy.group import group_epsilon
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.objective_perturbation import NAME, ObjectivePerturbation
from coordinator_free.problem import baselines
from coordinator_free.problem.solver import LocalSolver
from coordinator_free.release import FloatArray
from coordinator_free.theory import sample_size
from coordinator_free.theory.sample_size import Demand
from node.experiments.theory.bound import Bound, Reading, holds
from node.experiments.theory.subject import Subject

ACCURACIES = np.geomspace(0.01, 0.5, 25)
"""Of the expected loss, without the factor C."""
FAILURE = 0.05
"""The paper's delta: the probability of a worse model."""
REGULARISATION = 0.01
"""Of the reference model where the configuration has none."""
DRAWS = 20
GROUPS = (1, 2, 3, 5, 7, 10)
READINGS: tuple[Reading, ...] = ("as published", "as true")
_Terms = Callable[..., Mapping[str, float]]


def _kind(subject: Subject) -> type[Admm] | None:
    kind: Any = algorithm(subject.configuration.learning.algorithm)
    bounded = all(math.isfinite(problem.loss.slope_bound) for problem in subject.problems)
    return kind if issubclass(kind, Admm) and bounded else None


def _own(subject: Subject) -> AdmmSettings:
    return AdmmSettings.of(subject.configuration.learning.given())


def _smallest(subject: Subject) -> int:
    sizes = [size if size else math.inf for size in subject.records]
    return sizes.index(min(sizes))


def _charges(subject: Subject, agent: int) -> list[Mechanism]:
    if not subject.configuration.private:
        return []
    kind, setting = algorithm(subject.configuration.learning.algorithm), subject.setting(agent)
    code = kind(setting)  # type: ignore[call-arg]
    return [charge for index in range(subject.public[agent].releases) if (charge := code.charge(index)) is not None]


def _alpha(subject: Subject, charges: list[Mechanism]) -> float:
    """The least epsilon of a round; for noise without one its part of the budget."""
    if any(charge.name in WITHOUT_EPSILON for charge in charges):
        return float(subject.configuration.privacy.epsilon or 0.0) / len(charges)
    return min(1.0 / charge.multiplier for charge in charges)


def _reference(subject: Subject) -> FloatArray:
    weight = float(subject.configuration.learning.regularisation or REGULARISATION)
    return baselines.pooled(subject.problems, weight)


# --- sample sizes ----------------------------------------------------------------------------------------------------

THEOREMS: tuple[tuple[str, str, _Terms, type[Admm], float], ...] = (
    ("000, Theorem 3; 002, Theorem 2", "records for ADMM without noise", sample_size.non_private, Admm, 1),
    (
        "000, Theorem 4, Corollary 4.1; 002, Theorem 3",
        "records for dual perturbation",
        sample_size.dual,
        DualPerturbation,
        2,
    ),
    ("000, Theorem 5", "records for primal minimisers", sample_size.primal_minimiser, PrimalPerturbation, 2),
    (
        "000, Theorem 6, Corollary 6.1",
        "records for primal releases",
        sample_size.primal_release,
        PrimalPerturbation,
        3,
    ),
)
"""Source, name, terms, the algorithms that it speaks about, how often delta is spent. Corollary 6.2 joins 4 and 6."""


def sample_sizes(subject: Subject) -> list[Bound]:
    """Theorems 3 to 6 with their corollaries: the records that an accuracy asks for."""
    kind = _kind(subject)
    if kind is None or not any(subject.records) or _own(subject).regulariser_form != "squared":
        return []
    agent = _smallest(subject)
    charges = _charges(subject, agent)
    own, norm = _own(subject), float(np.linalg.norm(_reference(subject)))
    alpha = _alpha(subject, charges) if charges else math.inf
    penalty = own.penalty if own.penalty is not None else max(own.penalties or [1.0])
    found = []
    for source, name, terms, speaks_about, spent in THEOREMS:
        if not issubclass(kind, speaks_about) or (speaks_about is not Admm and not charges):
            continue
        for reading in READINGS:
            needed = [
                max(
                    terms(
                        Demand(
                            norm=norm,
                            accuracy=own.capacity * float(accuracy),
                            delta=FAILURE,
                            capacity=own.capacity,
                            dimension=subject.public[agent].dimension,
                            alpha=alpha,
                            penalty=penalty,
                            degree=len(subject.public[agent].neighbours),
                            c1=subject.problems[agent].loss.curvature_bound,
                            c4=subject.problems[agent].loss.curvature_bound,
                        ),
                        as_published=reading == "as published",
                    ).values()
                )
                for accuracy in ACCURACIES
            ]
            constants = {"beta": 1.0, "|f0|": norm, "C": own.capacity, "eta": penalty, "delta": FAILURE}
            found.append(
                Bound(
                    name,
                    source,
                    "with more than beta times so many records the expected loss is within the accuracy of the "
                    f"reference model's, with probability 1 - {spent:g} delta; the agent with the fewest records has "
                    f"{subject.records[agent]}. The bound Delta(t) of what ADMM has left to converge is added to it.",
                    reading,
                    "accuracy of the mean loss",
                    "records",
                    ACCURACIES,
                    np.array(needed),
                    constants | ({"alpha": alpha} if charges else {}),
                    ("beta",),
                    np.full(len(ACCURACIES), float(subject.records[agent])),
                )
            )
    return found


# --- what noise does to a round --------------------------------------------------------------------------------------


def noise_in_an_objective(subject: Subject) -> list[Bound]:
    """Lemma 11, on which Theorem 4 rests: by how much fresh noise lifts the first round's objective."""
    kind = _kind(subject)
    if kind is None or not subject.configuration.private or not issubclass(kind, DualPerturbation):
        return []
    if _own(subject).regulariser_form != "squared":
        return []
    agent = _smallest(subject)
    charge, code = _charges(subject, agent)[0], kind(subject.setting(agent))
    if not isinstance(charge, ObjectivePerturbation) or charge.name != NAME:
        return []
    phi, _ = code._perturbation(0)
    convexity, problem = code.curvature(0) + phi, subject.problems[agent]
    levels = 1.0 - (np.arange(DRAWS) + 0.5) / DRAWS
    lifted = np.sort(_lifted(subject, agent, charge, convexity, levels))
    alpha, dimension = 1.0 / charge.multiplier, problem.dimension
    bounds = {
        "as published": sample_size.printed_noise_excess(levels, dimension, problem.records, alpha, convexity),
        "as true": sample_size.noise_excess(levels, dimension, charge.scale, convexity),
    }
    return [
        Bound(
            "noise lifts an objective",
            "000, Lemma 11",
            "the objective of the first round at its noisy minimiser exceeds its least value by more than this with "
            f"the stated probability at most; measured: {DRAWS} noises whose lengths are the quantiles of their law",
            reading,
            "probability of more",
            "excess of the objective",
            levels,
            bounds[reading],
            {"convexity": convexity, "alpha": alpha, "noise scale": charge.scale},
            measured=lifted,
            held=holds(lifted, bounds[reading]),
        )
        for reading in READINGS
    ]


def _lifted(
    subject: Subject, agent: int, charge: ObjectivePerturbation, convexity: float, levels: FloatArray
) -> FloatArray:
    problem, capacity = subject.problems[agent], _own(subject).capacity
    solver, random = LocalSolver(problem, capacity), np.random.default_rng(0)
    start = np.zeros(problem.dimension)

    def value(model: FloatArray) -> float:
        loss = capacity * float(problem.loss.values(model, problem.x, problem.y).mean())
        return loss + convexity / 2.0 * float(model @ model)

    least = solver.minimise(convexity, start, start)
    found = []
    for length in charge.scale * gammainccinv(problem.dimension, levels):
        direction = random.normal(size=problem.dimension)
        noisy = solver.minimise(convexity, direction * (length / float(np.linalg.norm(direction))), least)
        found.append(value(noisy) - value(least))
    return np.array(found)


def spread_of_releases(subject: Subject) -> list[Bound]:
    """Propositions 7 and 8: the iterates do not converge to a point."""
    kind = _kind(subject)
    if kind is None or not subject.releases or not subject.configuration.private:
        return []
    target, rounds = _reference(subject), max(release.round or 0 for release in subject.releases) + 1
    squares, floors, counts = np.zeros(rounds), np.zeros(rounds), np.zeros(rounds)
    codes = [kind(subject.setting(agent)) if subject.records[agent] else None for agent in range(subject.agents)]
    for release in subject.releases:
        code = codes[release.sender]
        if code is None:
            continue
        at = release.round or 0
        squares[at] += float(np.square(release.vector - target).sum())
        floors[at] += _floor(code, release.index, subject) ** 2
        counts[at] += 1
    measured, floor = (np.sqrt(values / np.maximum(counts, 1)) for values in (squares, floors))
    far = bool(squares.sum() >= floors.sum() * _by_chance(counts.sum() * len(target)))
    number = "Proposition 8" if issubclass(kind, PrimalPerturbation) else "Proposition 7"
    common = {
        "x_label": "round",
        "y_label": "root mean square distance of releases from the reference model",
        "at": np.arange(1.0, rounds + 1.0),
        "measured": measured,
    }
    return [
        Bound(
            "distance of the releases",
            f"000, {number}",
            "the iterates converge (printed: in distribution, to the minimiser), so the distance falls to 0",
            "as published",
            bound=np.zeros(rounds),
            held=not far,
            **common,  # type: ignore[arg-type]
        ),
        Bound(
            "distance of the releases",
            f"000, {number}",
            "fresh noise in each round keeps the releases on average at least so far from any point that is known "
            "before it; held: all rounds together are no closer than chance brings them once in 1,000 runs",
            "as true",
            bound=floor,
            held=far,
            **common,  # type: ignore[arg-type]
        ),
    ]


def _by_chance(numbers: float) -> float:
    """What a mean of the squares of so many noise numbers falls below once in 1,000 runs, in units of its expectation.

    That of half as many normal numbers: the square of a Gamma length varies up to twice as much as a normal vector's.
    """
    return float(chi2.ppf(1e-3, 0.5 * numbers) / (0.5 * numbers))


def _floor(code: Admm, index: int, subject: Subject) -> float:
    charge: Any = code.charge(index)
    dimension = code._setting.dimension
    gamma = charge.name in (NAME, "gamma-norm")
    noise = charge.scale * math.sqrt(dimension * (dimension + 1.0) if gamma else dimension)
    if not isinstance(charge, ObjectivePerturbation):
        return sample_size.least_spread(noise, 1.0)
    phi, _ = code._perturbation(index)  # type: ignore[attr-defined]
    curved = (
        code.beyond.largest_curvature + code._problem.loss.curvature_bound * code.row_bound**2 * _own(subject).capacity
    )
    return sample_size.least_spread(noise, curved + code.curvature(index) + phi)


# --- groups of records -----------------------------------------------------------------------------------------------


def groups(subject: Subject) -> list[Bound]:
    """Corollaries 1.2 and 2.2: datasets that differ in c2 records."""
    if _kind(subject) is None or not subject.configuration.private or not any(subject.records):
        return []
    charges, delta = _charges(subject, _smallest(subject)), float(subject.configuration.privacy.delta or 0.0)
    one, at = total(charges, delta).epsilon, np.array(GROUPS, dtype=np.float64)
    bounds = {
        "as published": one * at,
        "as true": np.array([group_epsilon(charges, delta, records) for records in GROUPS]),
    }
    return [
        Bound(
            "epsilon for groups of records",
            "000, Corollaries 1.2 and 2.2",
            "epsilon of all rounds at delta, for datasets that differ in c2 records; c2 times epsilon, as printed, "
            "holds at delta = 0 alone",
            reading,
            "c2, records of the group",
            "epsilon",
            at,
            bounds[reading],
            {"delta": delta, "epsilon for one record": one},
        )
        for reading in READINGS
    ]


BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = (
    sample_sizes,
    noise_in_an_objective,
    spread_of_releases,
    groups,
)
