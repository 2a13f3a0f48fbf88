"""Optimal privacy design: how much privacy to give up for how much accuracy (Zhang and Zhu 2017, Definition 3).

    L_acc(alpha)  = c4 exp(-c5 alpha) + c6                              (Eq. 30), fitted to measured losses
    U_priv(alpha) = w1 ln( w2 / (w3 alpha + w4 alpha^2) )               (Eq. 29)
    alpha*        = argmin  L_acc(alpha) - U_priv(alpha),  alpha_L <= alpha <= alpha_U,  L_acc(alpha) <= c3

Rules that hold here:
- A fit that the measurements cannot determine is refused: too few levels, no visible fall, or a rate c5 that the error
  bars leave open.
- As alpha goes to 0 the utility goes to infinity, so a design needs a lower end: alpha_L, or one that c3 implies.
- The printed stationarity condition has w3 - 2 w4 alpha where the derivative of Eq. 29 has w3 + 2 w4 alpha; the latter
  is used.
- The measured losses come from private records: a published design is itself a release, unless the losses were private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import f as fisher

from coordinator_free.release import FloatArray

FEWEST_LEVELS = 4
LARGEST_ERROR = 0.5
"""Largest standard error of ln c5 in a fit that is not refused."""
SIGNIFICANCE = 0.01
"""Probability of seeing such a fall by chance, above which there is none."""


class DesignError(ValueError):
    """Measurements that determine no curve, or limits that leave no design."""


@dataclass(frozen=True)
class Curve:
    """A fitted L_acc. ``rate_error`` is the standard error of ln c5; ``residual`` the deviation of a measurement."""

    c4: float
    c5: float
    c6: float
    rate_error: float
    residual: float

    def loss(self, alpha: float) -> float:
        """L_acc(alpha) = c4 exp(-c5 alpha) + c6."""
        return self.c4 * math.exp(-self.c5 * alpha) + self.c6


def fit(alphas: FloatArray, losses: FloatArray) -> Curve:
    """Fit a curve to measurements (alpha, loss) by least squares; several of one alpha are welcome.

    For each c5 the rest is linear; c5 is searched on a logarithmic scale.

    Raises
    ------
    DesignError
        The measurements do not determine the curve.
    """
    alphas, losses = np.asarray(alphas, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if alphas.shape != losses.shape or alphas.ndim != 1:
        raise DesignError(f"alphas have shape {alphas.shape}, losses {losses.shape}: give one loss for each alpha")
    if not (np.isfinite(losses).all() and np.isfinite(alphas).all() and (alphas > 0).all()):
        raise DesignError("alphas must be finite and > 0, losses finite")
    levels = np.unique(alphas)
    if len(levels) < FEWEST_LEVELS:
        raise DesignError(f"{len(levels)} different alphas: three constants need at least {FEWEST_LEVELS}")
    gaps = np.diff(levels)
    # Slower than over the whole range it is a line, faster than between two levels a step: neither has a rate.
    low, high = math.log(0.05 / (levels[-1] - levels[0])), math.log(20.0 / float(gaps.min()))

    def remainder(log_rate: float) -> float:
        return _linear(alphas, losses, math.exp(log_rate))[2]

    starts = np.linspace(low, high, 60)
    best = int(np.argmin([remainder(start) for start in starts]))
    found = minimize_scalar(
        remainder, bounds=(starts[max(0, best - 1)], starts[min(len(starts) - 1, best + 1)]), method="bounded"
    )
    c5 = math.exp(float(found.x))
    c4, c6, squares = _linear(alphas, losses, c5)
    spread = float(np.square(losses - losses.mean()).sum())
    free = len(losses) - 3
    if free < 1:
        raise DesignError(f"{len(losses)} measurements for three constants: error bars need at least 4")
    variance = squares / free
    fall = (spread - squares) / 2.0
    if c4 <= 0 or (variance > 0 and fisher.sf(fall / variance, 2, free) > SIGNIFICANCE):
        raise DesignError(
            "the losses do not visibly fall with alpha: nothing to fit; measure a wider range or more runs"
        )
    error = _rate_error(alphas, c4, c5, variance)
    if not error <= LARGEST_ERROR or best in (0, len(starts) - 1):
        raise DesignError(
            f"the rate c5 = {c5:.3g} is not determined by the measurements (standard error of its logarithm "
            f"{error:.2g}, at most {LARGEST_ERROR:g}): measure where the loss bends"
        )
    if c6 < 0:
        raise DesignError(f"the losses level off at c6 = {c6:.3g} < 0: measure larger alphas, where the loss is flat")
    return Curve(c4, c5, c6, error, math.sqrt(variance))


def _linear(alphas: FloatArray, losses: FloatArray, rate: float) -> tuple[float, float, float]:
    """The best c4 and c6 for c5 = ``rate``, and the sum of squares that is left."""
    columns = np.stack([np.exp(-rate * alphas), np.ones_like(alphas)], axis=1)
    c4, c6 = np.linalg.lstsq(columns, losses, rcond=None)[0]
    return float(c4), float(c6), float(np.square(columns @ np.array([c4, c6]) - losses).sum())


def _rate_error(alphas: FloatArray, c4: float, c5: float, variance: float) -> float:
    decay = np.exp(-c5 * alphas)
    sensitivities = np.stack([decay, -c4 * c5 * alphas * decay, np.ones_like(alphas)], axis=1)
    scale = np.linalg.norm(sensitivities, axis=0)
    _, singular, turned = np.linalg.svd(sensitivities / scale, full_matrices=False)
    if singular[-1] < 1e-9 * singular[0]:
        return math.inf
    return math.sqrt(variance * float(np.square(turned[:, 1] / singular).sum())) / float(scale[1])


@dataclass(frozen=True)
class Utility:
    """U_priv of Eq. 29; the defaults are the paper's experiment. All four > 0."""

    w1: float = 0.02
    w2: float = 6.0
    w3: float = 9.0
    w4: float = 1.0

    def __post_init__(self) -> None:
        for name in ("w1", "w2", "w3", "w4"):
            if not 0 < getattr(self, name) < math.inf:
                raise DesignError(f"utility {name} = {getattr(self, name)}: needs a finite number > 0")

    def value(self, alpha: float) -> float:
        """U_priv(alpha) = w1 ln(w2 / (w3 alpha + w4 alpha^2))."""
        return self.w1 * math.log(self.w2 / (self.w3 * alpha + self.w4 * alpha**2))

    def slope(self, alpha: float) -> float:
        """The derivative of `value` in alpha."""
        return -self.w1 * (self.w3 + 2.0 * self.w4 * alpha) / (self.w3 * alpha + self.w4 * alpha**2)


@dataclass(frozen=True)
class Design:
    """``alpha`` is the optimal privacy parameter, ``objective`` L_acc - U_priv there; ``interior``: no limit binds."""

    alpha: float
    objective: float
    loss: float
    interior: bool


def optimal(
    curve: Curve, utility: Utility, *, alpha_low: float = 0.0, alpha_high: float = 1.0, loss_limit: float = math.inf
) -> Design:
    """alpha* of Definition 3; raises `DesignError` where the limits leave nothing, or no lower end."""
    low = max(alpha_low, _least(curve, loss_limit))
    if not low > 0:
        raise DesignError(
            "no lower limit: the utility grows without bound as alpha goes to 0; give alpha_low or a loss limit"
        )
    if not low <= alpha_high:
        raise DesignError(f"no alpha up to {alpha_high:g} keeps the loss at or below {loss_limit:g}: raise a limit")

    def slope(alpha: float) -> float:
        return -curve.c4 * curve.c5 * math.exp(-curve.c5 * alpha) - utility.slope(alpha)

    grid = np.geomspace(low, alpha_high, 2000)
    signs = np.sign([slope(float(alpha)) for alpha in grid])
    turns = [float(brentq(slope, grid[k], grid[k + 1])) for k in np.flatnonzero((signs[:-1] < 0) & (signs[1:] > 0))]
    best = min([low, alpha_high, *turns], key=lambda alpha: curve.loss(alpha) - utility.value(alpha))
    return Design(best, curve.loss(best) - utility.value(best), curve.loss(best), best in turns)


def _least(curve: Curve, loss_limit: float) -> float:
    """The smallest alpha whose loss keeps the limit."""
    if loss_limit <= curve.c6:
        raise DesignError(f"loss limit {loss_limit:g}: the fitted loss never falls to it (c6 = {curve.c6:.3g})")
    if loss_limit >= curve.c4 + curve.c6:
        return 0.0
    return math.log(curve.c4 / (loss_limit - curve.c6)) / curve.c5
