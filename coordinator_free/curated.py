"""Private baselines with a trusted party: whoever holds the records, or the parties' models, adds the noise.

Rules that hold here:
- What such a party makes public may be private; what the parties handed over to it is not, whatever epsilon says.
- The noise is a baseline's, from a generator that others may hold: nothing is released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coordinator_free.objective import LocalProblem
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanisms import Laplace
from coordinator_free.privacy.observer import noise_deviation
from coordinator_free.release import FloatArray


def everybody(problems: Sequence[LocalProblem], regularisation: float) -> LocalProblem:
    """The problem of whoever holds all records; lambda = ``regularisation`` / all records."""
    x = np.concatenate([problem.x for problem in problems])
    y = np.concatenate([problem.y for problem in problems])
    return replace(problems[0], x=x, y=y, regularisation=regularisation / max(len(y), 1))


def noisy_descent(
    problems: Sequence[LocalProblem],
    epsilon: float,
    delta: float,
    *,
    clip: float,
    step: float,
    steps: int,
    random: np.random.Generator,
) -> FloatArray:
    """Gradient descent on all records from zero, Gaussian noise in every step (Wang, Ye and Xu 2017), shape (p,).

    (epsilon, delta)-private for who sees all iterates: the mean gradient moves by 2 clip / n when one of the n records
    is replaced.
    """
    records = sum(problem.records for problem in problems)
    deviation = noise_deviation(epsilon, delta, clip, records, steps)
    theta = np.zeros(problems[0].dimension)
    for _ in range(steps):
        gradient = random.normal(scale=deviation, size=theta.shape)
        for problem in problems:
            gradient += (problem.records / records) * problem.clipped_gradient(theta, clip, "l2")
        theta = theta - step * gradient
    return theta


def output_perturbation(
    problems: Sequence[LocalProblem], epsilon: float, convexity: float, random: np.random.Generator
) -> FloatArray:
    """Pathak, Rane and Raj (2010) as printed: the equal average of the parties' minimisers, plus one Laplace noise.

    Each party minimises its mean loss + convexity/2 |theta|^2. The noise has the scale 2 / (n_(1) epsilon convexity)
    in each coordinate, n_(1) the smallest party: for what it truly gives see `output_perturbation_epsilon`. Rows of
    norm at most 1 and slopes of at most 1 are assumed. Shape (p,).
    """
    local = [replace(problem, regularisation=convexity / 2.0).minimiser() for problem in problems if problem.records]
    smallest = min(problem.records for problem in problems if problem.records)
    scale = 2.0 / (smallest * epsilon * convexity)
    return np.asarray(np.mean(local, axis=0) + random.laplace(scale=scale, size=problems[0].dimension))


def output_perturbation_epsilon(epsilon: float, delta: float, parties: int, dimension: int) -> float:
    """The true epsilon of that average at ``delta``, for who sees nothing but it.

    The average moves by 2 / (parties n_(1) convexity) in L2, so by sqrt(dimension) times that in L1, which is the norm
    that Laplace noise needs: the printed scale drops 1 / parties and takes the L2 distance for the L1 one.
    """
    shift = math.sqrt(dimension) / parties
    return total([Laplace(shift, 1.0 / epsilon)], delta).epsilon
