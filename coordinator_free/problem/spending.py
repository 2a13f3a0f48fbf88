"""How to spend a budget on noisy gradient steps: how many, how long, and where to clip, by public numbers alone.

The steps are  theta <- theta - h (average of clipped gradients + noise),  the model is the mean of the later half of
them, and the noise of each step has the deviation s_T in every coordinate: more steps share one budget, so s_T grows
with T, for Gaussian noise as sqrt(T). With few steps the model has not arrived, with many it is mostly noise.

*Model.* A quadratic loss with p directions of curvature k_1, ..., k_p, in each of which the best model is b long.
Descent is linear there, so what arrived and what became of the noise are known exactly
(`coordinator_free.theory.descent`), and the expected excess of the loss is

    sum_j k_j / 2 ( b^2 (1 - kept_j)^2  +  s_T^2 sum_t weight_tj^2 ).

The number of steps is the one with the smallest excess. In orders of magnitude: the first term is b^2 / (2 h T), the
second h s_T^2, and for Gaussian noise T = b / (sqrt(2) h s_1). The label's unit and the rows' length cancel: with every
release seen T is about 0.4 mu (records of all) / sqrt(agents), with mu the Gaussian parameter of the budget. So T
shrinks with epsilon.

*Public numbers.* The loss's slope at the zero model for a label of usual size, and its curvature bound c, give the
usual prediction slope / c (for the squared loss the usual label, for the logistic loss 2). With R the bound of rows,

    b = slope / (c R)           a direction explains labels of the usual size
    k_j = c R^2 / 3 / (j H_p)   rows are on average 0.6 of their bound long, and no two directions are alike
    clip = slope R / 2          the gradient at the zero model of a row of half the greatest length
    h = 1.8 / L                 L, the public smoothness: steps are stable below 2 / L

with H_p = 1 + 1/2 + ... + 1/p. Momentum m makes the same way of fewer steps, (1 - m) T. It costs no privacy, because it
is computed from releases. It is used where it makes the excess smaller by a tenth or more.

The model is one of orders of magnitude, but the excess is flat around its minimum: half or twice the best T costs
about a quarter more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray
from coordinator_free.theory.descent import mean_of_iterates

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Numbers of steps that are considered."""
MOMENTA = (0.0, 0.5, 0.8)
"""Momenta that are considered."""
STEP = 1.8
"""h L."""
FILLED = 1.0 / 3.0
"""The mean square of a row's length, as a share of its bound's square."""
_WORTH = 0.9


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
    """Excess of the loss for want of steps, as a share of that of the zero model."""
    noise: float
    """Excess of the loss for the noise, as a share of that of the zero model."""

    @property
    def lost(self) -> float:
        """The share that bias and noise take of what a common model could gain; 1 and more: there is no gain."""
        return self.bias + self.noise


def usual_slope(loss: Loss, label: float) -> float:
    """The absolute slope of the loss at prediction 0 for a label of size ``label``."""
    return float(np.abs(loss.slope(np.zeros(1), np.array([label])))[0])


def usual_model(loss: Loss, label: float, row_bound: float) -> float:
    """b: how long a common model is in one direction."""
    return usual_slope(loss, label) / (loss.curvature_bound * row_bound)


def curvatures(loss: Loss, row_bound: float, dimension: int) -> FloatArray:
    """k_j, shape (p,): the curvatures that the rule takes a common loss to have, largest first."""
    falling = 1.0 / np.arange(1.0, dimension + 1.0)
    found: FloatArray = loss.curvature_bound * row_bound**2 * FILLED * falling / falling.sum()
    return found


def spend(
    loss: Loss,
    label: float,
    bounds: tuple[float, float],
    dimension: int,
    smoothness: float,
    deviation: Callable[[int, float], float],
) -> Spending:
    """The number of steps, the clip, the step and the momentum that the rule of this module finds.

    Parameters
    ----------
    loss
        Of one record.
    label
        The usual size of a label, a public number: 1 for labels -1 and 1.
    bounds
        Public bounds of a row's Euclidean norm, and of its norm in the mechanism's, in which gradients are clipped.
    dimension
        p.
    smoothness
        L, the largest of the agents' public ones.
    deviation
        (T, clip) -> s_T: the deviation of one coordinate of the noise in each of T averages.
    """
    slope = usual_slope(loss, label)
    size, clip, step = usual_model(loss, label, bounds[0]), slope * bounds[1] / 2.0, STEP / smoothness
    bent = curvatures(loss, bounds[0], dimension)
    nothing = float(bent.sum()) * size**2
    noises = {updates: deviation(updates, clip) for updates in COUNTS}

    def found(updates: int, momentum: float) -> Spending:
        later = 2 * np.arange(updates) >= updates - 1
        descent = mean_of_iterates(bent, step, momentum, later / later.sum())
        return Spending(
            updates=updates,
            clip=clip,
            step=step,
            momentum=momentum,
            model_size=size,
            deviation=noises[updates],
            bias=size**2 * float(bent @ (1.0 - descent.kept) ** 2) / nothing,
            noise=noises[updates] ** 2 * float(bent @ (descent.weights**2).sum(axis=0)) / nothing,
        )

    best = [min((found(updates, momentum) for updates in COUNTS), key=lambda one: one.lost) for momentum in MOMENTA]
    chosen = best[0]
    for faster in best[1:]:
        if faster.lost < _WORTH * chosen.lost:
            chosen = faster
    return chosen
