"""Losses of one record: functions of a linear prediction ``x . theta`` and a label ``y``.

Rules that hold here:
- A record's gradient is ``slope(x . theta, y) * x``. So its norm is ``|slope| * |x|`` in any norm, and clipping
  needs no (m, p) array.
- ``curvature_bound`` is a bound over all predictions and labels (c1 in the papers): with rows of Euclidean norm at most
  R the mean loss is ``c1 R^2``-smooth. It is public; nothing of the data is in it.
- The regulariser's form belongs to the loss, its weight lambda_i to the local problem. It touches no record, so it
  adds nothing to a sensitivity. Its second derivatives are at most 2: the objective is (c1 R^2 + 2 lambda_i)-smooth.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coordinator_free.release import FloatArray


class LossError(ValueError):
    """A loss that does not exist, or labels that a loss cannot take."""


class Loss(ABC):
    """A convex or smooth loss of a linear prediction.

    A subclass gives the public constants and the four scalar functions, which work elementwise on arrays of shape (m,).
    Shapes below: theta (p,), x (m, p), y (m,).
    """

    name: ClassVar[str]
    curvature_bound: ClassVar[float]
    """c1: the largest second derivative in the prediction."""
    slope_bound: ClassVar[float]
    """The largest absolute first derivative in the prediction; infinity if there is none."""
    metric: ClassVar[str]
    larger_is_better: ClassVar[bool]
    convex: ClassVar[bool] = False
    """Whether it is convex, regulariser included. Exact minimisers are sought, and protected, for such losses alone."""

    @abstractmethod
    def value(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """The loss at a prediction."""

    @abstractmethod
    def slope(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """Its first derivative in the prediction."""

    @abstractmethod
    def curvature(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """Its second derivative in the prediction."""

    @abstractmethod
    def score(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> float:
        """The metric of a model on records; NaN where there is no record."""

    @abstractmethod
    def check_labels(self, y: FloatArray) -> None:
        """Raise `LossError` if this loss cannot take the labels."""

    def penalty(self, theta: FloatArray) -> float:
        """The regulariser at a model (p,), to be weighted with lambda_i: |theta|^2 unless a loss has another."""
        return float(theta @ theta)

    def penalty_gradient(self, theta: FloatArray) -> FloatArray:
        """Its gradient, elementwise on models (..., p)."""
        return 2.0 * theta

    def penalty_curvature(self, theta: FloatArray) -> FloatArray:
        """The diagonal of its Hessian, elementwise on models (..., p)."""
        return np.full_like(theta, 2.0)

    @property
    def has_own_penalty(self) -> bool:
        """Whether the regulariser is another than |theta|^2, which exact minimisers and their proofs take."""
        return type(self).penalty_gradient is not Loss.penalty_gradient

    def values(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """The loss of each record, shape (m,)."""
        return self.value(x @ theta, y)

    def derivatives(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """The factor of ``x`` in each record's gradient, shape (m,)."""
        return self.slope(x.dot(theta), y)

    def curvatures(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """The factor of ``x x^T`` in each record's Hessian, shape (m,)."""
        return self.curvature(x @ theta, y)

    def record_gradients(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """The gradient of each record, shape (m, p)."""
        gradients: FloatArray = self.derivatives(theta, x, y)[:, None] * x
        return gradients

    def gradient(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
        """The mean gradient, shape (p,); zero where there is no record."""
        if len(y) == 0:
            return np.zeros_like(theta)
        mean: FloatArray = self.derivatives(theta, x, y).dot(x)
        mean /= len(y)
        return mean

    def lipschitz(self, row_bound: float) -> float:
        """A bound of every record gradient's norm, where rows have at most the norm ``row_bound`` (same norm)."""
        return self.slope_bound * row_bound

    def gradient_spread(self, model_norm: float, row_bound: float, norm: str = "l2") -> float:  # noqa: ARG002
        """How far apart, in ``norm``, the gradients of any two records can be at one model.

        It does not decrease as the model gets longer. A loss that knows nothing better has twice the longest gradient,
        for every model.

        Parameters
        ----------
        model_norm
            The model's size, 0 or more: Euclidean for "l2", its largest coordinate for "l1".
        row_bound
            The largest ``norm`` of a row.
        norm
            "l1" or "l2".
        """
        return 2.0 * self.lipschitz(row_bound)


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y x.theta)), y in {-1, 1}."""

    name: ClassVar[str] = "logistic"
    convex: ClassVar[bool] = True
    curvature_bound: ClassVar[float] = 0.25
    slope_bound: ClassVar[float] = 1.0
    metric: ClassVar[str] = "accuracy"
    larger_is_better: ClassVar[bool] = True

    def value(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """log(1 + exp(-y z)) at predictions z, shape (m,)."""
        loss: FloatArray = np.logaddexp(0.0, -y * prediction)
        return loss

    def slope(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """-y sigmoid(-y z), shape (m,)."""
        against = -y
        slope: FloatArray = _sigmoid(against * prediction)
        slope *= against
        return slope

    def curvature(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """sigmoid(z) sigmoid(-z), shape (m,)."""
        curvature: FloatArray = _sigmoid(y * prediction) * _sigmoid(-y * prediction)
        return curvature

    def gradient_spread(self, model_norm: float, row_bound: float, norm: str = "l2") -> float:
        """R for the zero model, and up to 2 R as the model gets long, R the ``row_bound``.

        With v = -y x a gradient is sigmoid(v . theta) v, and |v . theta| is at most b = R |theta|. In L1 each gradient
        is at most R sigmoid(b) long. In L2 see `logistic_spread`.
        """
        reach = row_bound * model_norm
        if norm == "l1":
            return 2.0 * row_bound / (1.0 + math.exp(-reach))
        return row_bound * logistic_spread(reach)

    def score(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> float:
        """Accuracy of the sign; a prediction of exactly zero is a coin toss and counts one half."""
        if len(y) == 0:
            return math.nan
        agreement = np.sign(x @ theta) * y
        return float(np.mean(0.5 * (agreement + 1.0)))

    def check_labels(self, y: FloatArray) -> None:
        """Raise `LossError` for a label other than -1 and 1."""
        wrong = y[np.abs(y) != 1.0]
        if wrong.size:
            raise LossError(f"label {wrong[0]:g}: the logistic loss takes labels -1 and 1")


@dataclass(frozen=True)
class Squared(Loss):
    """(x.theta - y)^2."""

    name: ClassVar[str] = "squared"
    convex: ClassVar[bool] = True
    curvature_bound: ClassVar[float] = 2.0
    slope_bound: ClassVar[float] = math.inf
    metric: ClassVar[str] = "rmse"
    larger_is_better: ClassVar[bool] = False

    def value(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """(z - y)^2 at predictions z, shape (m,)."""
        return (prediction - y) ** 2

    def slope(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """2 (z - y), shape (m,)."""
        return 2.0 * (prediction - y)

    def curvature(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """2, shape (m,)."""
        return np.full_like(prediction - y, 2.0)

    def score(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> float:
        """Root of the mean squared error."""
        return float(np.sqrt(np.mean((x @ theta - y) ** 2))) if len(y) else math.nan

    def check_labels(self, y: FloatArray) -> None:
        """Raise `LossError` for a label that is not finite."""
        wrong = y[~np.isfinite(y)]
        if wrong.size:
            raise LossError(f"label {wrong[0]:g}: the squared loss takes finite numbers")


@dataclass(frozen=True)
class SigmoidSquared(Loss):
    """(sigmoid(x.theta) - (1 + y)/2)^2, y in {-1, 1}: not convex, but smooth and with bounded gradients.

    With t = sigmoid(y x.theta) the loss is (1 - t)^2. The slope is at most 8/27 (at t = 1/3) and the second derivative
    at most 0.1541 in absolute value, so for rows of norm at most 1 both bound the record's gradient and smoothness.
    """

    name: ClassVar[str] = "sigmoid-squared"
    curvature_bound: ClassVar[float] = 0.1541
    slope_bound: ClassVar[float] = 8.0 / 27.0
    metric: ClassVar[str] = "accuracy"
    larger_is_better: ClassVar[bool] = True

    def value(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """(1 - sigmoid(y z))^2 at predictions z, shape (m,)."""
        loss: FloatArray = _sigmoid(-y * prediction) ** 2
        return loss

    def slope(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """-2 y (1 - t)^2 t with t = sigmoid(y z), shape (m,)."""
        right = _sigmoid(y * prediction)
        slope: FloatArray = -2.0 * y * (1.0 - right) ** 2 * right
        return slope

    def curvature(self, prediction: FloatArray, y: FloatArray) -> FloatArray:
        """2 t (1 - t)^2 (3 t - 1) with t = sigmoid(y z), shape (m,)."""
        right = _sigmoid(y * prediction)
        curvature: FloatArray = 2.0 * right * (1.0 - right) ** 2 * (3.0 * right - 1.0)
        return curvature

    def gradient_spread(self, model_norm: float, row_bound: float, norm: str = "l2") -> float:  # noqa: ARG002
        """Twice the steepest slope that a row reaches: from R/2 for the zero model to 16/27 R, R the ``row_bound``.

        The slope's size 2 t (1 - t)^2 rises up to t = 1/3 and falls from there, and t is at least sigmoid(-R |theta|).
        """
        least = max(1.0 / 3.0, math.exp(-row_bound * model_norm) / (1.0 + math.exp(-row_bound * model_norm)))
        return 4.0 * row_bound * least * (1.0 - least) ** 2

    def score(self, theta: FloatArray, x: FloatArray, y: FloatArray) -> float:
        """Accuracy of the sign."""
        return LOGISTIC.score(theta, x, y)

    def check_labels(self, y: FloatArray) -> None:
        """Raise `LossError` for a label other than -1 and 1."""
        LOGISTIC.check_labels(y)


@dataclass(frozen=True)
class LogisticNonConvex(Logistic):
    """The logistic loss with the non-convex regulariser lambda_i sum_k w_k^2 / (1 + w_k^2) in the place of |w|^2.

    A record's gradient is the logistic one, so its norm is at most that of its row (G = 1 for unit rows). One
    coordinate of the regulariser has a slope of at most 3 sqrt(3)/8 (at w^2 = 1/3) and a second derivative from -1/2
    (at w^2 = 1) to 2 (at 0). So with rows of norm at most R the objective is
    (R + lambda_i sqrt(p) 3 sqrt(3)/8)-Lipschitz and (R^2/4 + 2 lambda_i)-smooth.

    It does not satisfy the Polyak-Lojasiewicz condition in general, so Theorem 3 of Kang, Liu and Wang does not cover
    it: for one record (1, 1) and lambda_i = 1 the gradient vanishes as w grows, while the objective tends to 1, above
    the ln 2 that it is at 0. `SigmoidSquared` is another non-convex loss.
    """

    name: ClassVar[str] = "logistic-nonconvex"
    convex: ClassVar[bool] = False
    penalty_slope_bound: ClassVar[float] = 3.0 * math.sqrt(3.0) / 8.0
    """The largest absolute first derivative of the regulariser in one coordinate."""

    def penalty(self, theta: FloatArray) -> float:
        """sum_k w_k^2 / (1 + w_k^2)."""
        squares = theta * theta
        return float((squares / (1.0 + squares)).sum())

    def penalty_gradient(self, theta: FloatArray) -> FloatArray:
        """2 w_k / (1 + w_k^2)^2, elementwise."""
        gradient: FloatArray = 2.0 * theta / (1.0 + theta * theta) ** 2
        return gradient

    def penalty_curvature(self, theta: FloatArray) -> FloatArray:
        """(2 - 6 w_k^2) / (1 + w_k^2)^3, elementwise."""
        squares = theta * theta
        curvature: FloatArray = (2.0 - 6.0 * squares) / (1.0 + squares) ** 3
        return curvature


_LARGEST_EXPONENT = 709.0
"""exp of 710 is no float64."""

LOGISTIC = Logistic()
SQUARED = Squared()
SIGMOID_SQUARED = SigmoidSquared()
LOGISTIC_NON_CONVEX = LogisticNonConvex()
LOSSES: dict[str, Loss] = {known.name: known for known in (LOGISTIC, SQUARED, SIGMOID_SQUARED, LOGISTIC_NON_CONVEX)}


def _sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)). In numpy alone: with scipy each of a thousand agents would be born with 280 more mappings."""
    odds = np.exp(np.minimum(x, _LARGEST_EXPONENT))
    chance: FloatArray = odds / (odds + 1.0)
    return chance


def logistic_spread(b: float) -> float:
    """S(b) = max over 0 <= u <= 1 of 2 sigmoid(b u) sqrt(1 - u^2), rounded up by less than 1e-11; b >= 0.

    It is the diameter of G = {sigmoid(b v_1) v : |v| <= 1}, the logistic record gradients at a model of length b with
    rows of length at most 1. The two points (u, +-sqrt(1 - u^2)) are that far apart. No two points are further apart,
    because G lies in the ball of radius h = S(b)/2 around (c, 0), with u the maximiser, p = sigmoid(b u), c = p u:

    - For v_1 = s the squared distance from the centre is at most D(s) = q^2 - 2 c q s + c^2, q = sigmoid(b s), and
      D(u) = h^2. The maximiser satisfies u = b (1 - p)(1 - u^2), so c <= b p (1 - p) <= b/4. At
      u = sqrt(1/2) the slope is negative, since b/(1 + exp(b u)) < 0.4 there, so u^2 < 1/2.
    - For s >= 0: D'(s) = 2 q (L(s) - c) with L(s) = b (1 - q)(q - c s), L(u) = c. L falls, because
      2 q - 1 = tanh(b s/2) >= s tanh(b/2) >= c s: c <= b/4 <= tanh(b/2) up to b = 3.8, and c < u < 0.71 beyond. So D is
      largest at u.
    - For s = -t < 0: D(s) <= D(0) if 2 c t <= (1/4 - q^2)/q. With z = b t and e = exp(z) the right side is
      (e - 1)(e + 3)/(4 (e + 1)), convex in z with slope 1/2 at 0, and the left side is at most z/2.

    log sigmoid(b u) + log(1 - u^2)/2 is concave in u, its second derivative at most -1: a point with slope g is within
    g^2/2 of the maximum. S does not decrease in b.
    """
    low, high, u = 0.0, 0.75, min(b / 2.0, 0.5)
    for _ in range(60):  # Newton's steps, and half of the interval where one leaves it: an agent does this as it wakes
        slope, curvature = _spread_slope(b, u)
        if abs(slope) < 1e-7:
            break
        low, high = (u, high) if slope > 0.0 else (low, u)
        u -= slope / curvature
        if not low < u < high:
            u = (low + high) / 2.0
    gap = _spread_slope(b, u)[0] ** 2 / 2.0
    largest = -math.log1p(math.exp(-b * u)) + math.log1p(-u * u) / 2.0 + gap
    return min(2.0, 2.0 * math.exp(largest) * (1.0 + 1e-12))


def _spread_slope(b: float, u: float) -> tuple[float, float]:
    """The first and second derivative of log sigmoid(b u) + log(1 - u^2)/2 in u."""
    against = 1.0 / (1.0 + math.exp(min(b * u, _LARGEST_EXPONENT)))
    rest = 1.0 - u * u
    return b * against - u / rest, -b * b * against * (1.0 - against) - (1.0 + u * u) / (rest * rest)


def loss(name: str) -> Loss:
    """The loss of that name; ``package.module:NAME`` is a user's own instance."""
    if name in LOSSES:
        return LOSSES[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise LossError(f"learning.loss = {name!r}: known are {', '.join(LOSSES)}, or package.module:NAME")
    try:
        own = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LossError(f"learning.loss = {name!r}: {error}") from None
    if not isinstance(own, Loss):
        raise LossError(f"learning.loss = {name!r}: is a {type(own).__name__}, not an instance of a Loss")
    return own
