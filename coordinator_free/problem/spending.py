"""How to spend a budget on noisy gradient steps: how many, how long, and where to clip, by public numbers alone.

The steps are  theta <- theta - h (average of clipped gradients + noise),  the model is the mean of the later half of
them, and the noise of each step has the deviation s_T in every coordinate: more steps share one budget, so s_T grows
with T, for Gaussian noise as sqrt(T).

*Model.* Let b be the size of the model in a direction of curvature k. After the time t = h T, gradient descent has
found the direction where k t > 1, and noise is all that it knows where k t < 1. At k = 1 / t, where the one turns into
the other, the excess of the loss is

    bias   k b^2 / 2 = b^2 / (2 h T)                    (too few steps)
    noise  k / 2 * 2 s_T^2 / (k^2 T) = h s_T^2           (too many)

The second is the variance of a mean of T / 2 noisy steps in a direction that has been found. T minimises the sum. With
Gaussian noise, s_T = s_1 sqrt(T), that is T = b / (sqrt(2) h s_1).

*Public numbers.* The loss's slope at the zero model for a label of usual size, and its curvature bound c, give the
usual prediction slope / c (for the squared loss the usual label, for the logistic loss 2). Rows no longer than R give

    b = slope / (c R)      a direction explains labels of the usual size
    clip = slope R / 2     the gradient at the zero model of a row of half the greatest length
    h = 1.8 / L            L = c R^2 + 2 lambda, the public smoothness; steps are stable below 2 / L

Where that asks for more than 100 steps, momentum m makes the same time of fewer steps: t = h T / (1 - m), and
h / (1 - m) stands for h in the sum. It costs no privacy, because it is computed from releases.

In T the label's unit, R and c cancel: with every release seen, T is about 0.4 mu (records of all) / sqrt(agents), with
mu the Gaussian parameter of the budget. So T shrinks with epsilon.

The model is one of orders of magnitude. Near its minimum the sum is flat: with twice or half of the best T it is a
quarter larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coordinator_free.problem.losses import Loss

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Numbers of steps that are considered."""
MOMENTA = (0.0, 0.5, 0.8, 0.9)
"""Momenta that are considered: the first with which no more than the most steps are enough."""
_BEYOND = 150
"""Steps that are considered only to see whether more than the most were better."""
STEP = 1.8
"""h L."""


@dataclass(frozen=True)
class Spending:
    """How to spend a budget, and the figures behind it."""

    updates: int
    """T."""
    clip: float
    """In the norm of the mechanism."""
    step: float
    """h."""
    momentum: float
    """m."""
    model_size: float
    """b, in one direction."""
    deviation: float
    """s_T: of the noise in one coordinate of an average of gradients."""
    bias: float
    """Excess of the loss for want of time, b^2 / (2 t)."""
    noise: float
    """Excess of the loss for the noise, t s_T^2 / T."""
    nothing: float
    """Excess of the loss of the zero model in a direction of curvature L, L b^2 / 2: where the sum of the others is not
    below it, the common model is mostly noise."""


def usual_slope(loss: Loss, label: float) -> float:
    """The absolute slope of the loss at prediction 0 for a label of size ``label``."""
    return float(np.abs(loss.slope(np.zeros(1), np.array([label])))[0])


def spend(
    loss: Loss,
    label: float,
    row_bound: float,
    norm_bound: float,
    smoothness: float,
    deviation: Callable[[int, float], float],
) -> Spending:
    """The number of steps, the clip and the step that the rule of this module finds.

    Parameters
    ----------
    loss
        Of one record.
    label
        The usual size of a label, a public number: 1 for labels -1 and 1.
    row_bound
        R, public bound of a row's Euclidean norm.
    norm_bound
        The same in the norm of the mechanism, in which gradients are clipped.
    smoothness
        L, the largest of the agents' public ones.
    deviation
        (T, clip) -> s_T: the deviation of one coordinate of the noise in each of T averages.

    Returns
    -------
    Spending
        Of the counts in `COUNTS` the best.
    """
    slope = usual_slope(loss, label)
    size = slope / (loss.curvature_bound * row_bound)
    clip, step = slope * norm_bound / 2.0, STEP / smoothness
    noises = {updates: deviation(updates, clip) for updates in (*COUNTS, _BEYOND)}

    def found(updates: int, momentum: float) -> Spending:
        noise, time = noises[updates], step * updates / (1.0 - momentum)
        return Spending(
            updates=updates,
            clip=clip,
            step=step,
            momentum=momentum,
            model_size=size,
            deviation=noise,
            bias=size**2 / (2.0 * time),
            noise=time * noise**2 / updates,
            nothing=smoothness * size**2 / 2.0,
        )

    def cost(one: Spending) -> float:
        return one.bias + one.noise

    for momentum in MOMENTA:
        best = min((found(updates, momentum) for updates in COUNTS), key=cost)
        if cost(best) <= cost(found(_BEYOND, momentum)):
            break
    return best
