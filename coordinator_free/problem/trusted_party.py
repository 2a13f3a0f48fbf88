"""Private baselines with a trusted party, which holds the records or the parties' models and adds the noise.

Rules that hold here:
- What such a party makes public may be private; what the parties handed over to it is not, for any epsilon.
- The noise is a baseline's, from a generator that others may hold: nothing is released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanisms import Laplace
from coordinator_free.privacy.observer import noise_deviation
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

_TOGETHER = 4096
"""Steps whose noise is drawn at once."""


def everybody(problems: Sequence[LocalProblem], regularisation: float) -> LocalProblem:
    """The problem of a party that holds all records; lambda = ``regularisation`` / all records."""
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

    (epsilon, delta)-private against an observer of all iterates: the mean gradient moves by 2 clip / n when one record
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


def random_round_deviation(epsilon: float, delta: float, clip: float, records: int) -> float:
    """The printed noise of `random_round_descent`: G sqrt(log(n/delta) log(1/delta)) / epsilon.

    Table 1 of Kang, Liu and Wang has it as O(...); its constant is taken as 1.
    """
    return clip * math.sqrt(math.log(records / delta) * math.log(1.0 / delta)) / epsilon


def random_round_descent(
    problems: Sequence[LocalProblem],
    *,
    clip: float,
    deviation: float,
    steps: int,
    reach: float,
    random: np.random.Generator,
) -> FloatArray:
    """Steps on single records drawn at random from all, with noise, and of their iterates a random one, shape (p,).

    The round that counts is uniform over the ``steps``, which is the printed law where the step is the same in all. It
    is h = min(1/L, sqrt(2 d / (L s T))), with d = ``reach`` a public bound of the start's gap, s = G^2 + p deviation^2
    the second moment of a noisy gradient, and L the smoothness of losses of rows of norm at most 1 (Ghadimi and Lan
    2013, Corollary 2.2). What the steps cost: `coordinator_free.privacy.random_records`.

    References
    ----------
    Zhang, Zheng, Mou and Wang (2017), *Efficient private ERM for smooth objectives*.
    """
    whole = everybody(problems, 0.0)
    records, p, loss = whole.records, whole.dimension, whole.loss
    decay = 2.0 * sum(problem.regularisation * problem.records for problem in problems) / records
    smoothness = loss.curvature_bound + decay
    moment = clip**2 + p * deviation**2
    step = min(1.0 / smoothness, math.sqrt(2.0 * reach / (smoothness * moment * steps)))
    theta = np.zeros(p)
    longest = clip / np.maximum(np.linalg.norm(whole.x, axis=1), 1e-300)
    left = int(random.integers(1, steps + 1))
    while left:
        together = min(left, _TOGETHER)
        left -= together
        noise = random.normal(scale=step * deviation, size=(together, p))
        for k, z in zip(random.integers(records, size=together), noise, strict=True):
            slope = float(loss.slope(whole.x[k : k + 1] @ theta, whole.y[k : k + 1])[0])
            slope = min(max(slope, -longest[k]), longest[k])
            theta = (1.0 - step * decay) * theta - (step * slope) * whole.x[k] - z
    return theta


def average_of_minimisers(problems: Sequence[LocalProblem], convexity: float) -> FloatArray:
    """The equal average of the parties' minimisers of mean loss + convexity/2 |theta|^2, shape (p,)."""
    local = [replace(problem, regularisation=convexity / 2.0).minimiser() for problem in problems if problem.records]
    return np.asarray(np.mean(local, axis=0))


def output_perturbation_scale(problems: Sequence[LocalProblem], epsilon: float, convexity: float) -> float:
    """The printed scale of the Laplace noise in each coordinate: 2 / (n_(1) epsilon convexity).

    n_(1) is the smallest party's size. An encrypted protocol adds the noise to the equal average of the minimisers.

    References
    ----------
    Pathak, Rane and Raj (2010), *Multiparty differential privacy via aggregation of locally trained classifiers*.
    """
    smallest = min(problem.records for problem in problems if problem.records)
    return 2.0 / (smallest * epsilon * convexity)


def output_perturbation_epsilon(epsilon: float, delta: float, parties: int, dimension: int) -> float:
    """The true epsilon of that noisy average at ``delta``, against an observer of it alone.

    From first principles, for rows of norm at most 1 and slopes of at most 1: let F = 1/n sum_k loss_k +
    convexity/2 |theta|^2, and F' with one record replaced. Their gradients differ by (g - g')/n anywhere, of length at
    most 2/n. At the minimiser of F' the gradient of F is therefore at most 2/n long, and F is strongly convex, so the
    minimisers are at most 2 / (n convexity) apart in L2, and the average over the parties moves by at most
    2 / (parties n_(1) convexity). Independent Laplace noise of scale b loses |shift|_1 / b, and in L1 the shift is up
    to sqrt(dimension) times as long. Over the printed scale that is sqrt(dimension) / parties times epsilon: the
    printed one drops 1 / parties, which is too much noise, and takes L2 for L1, which is too little.
    """
    shift = math.sqrt(dimension) / parties
    return total([Laplace(shift, 1.0 / epsilon)], delta).epsilon
