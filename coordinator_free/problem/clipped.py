"""The local problem that an agent with clipped record gradients truly has.

A record's gradient is slope(x . theta, y) x. Clipping it at ``clip`` keeps the slope within clip / |x| of zero. For a
convex loss that is the slope of another convex loss: the record's own one, continued by straight lines from where its
slope reaches a limit. So an agent that takes steps along clipped gradients descends on that loss, and what theorems say
of a descent holds for it, with the same smoothness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator_free.problem.objective import LocalProblem, ProblemError
from coordinator_free.release import FloatArray

_DOUBLINGS, _HALVINGS = 64, 80


@dataclass(frozen=True, eq=False)
class ClippedProblem(LocalProblem):
    """The same records, with slopes limited to ``clip`` / |x| in ``norm`` ("l1" or "l2").

    Raises
    ------
    ProblemError
        The loss is not convex.
    """

    clip: float
    norm: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.loss.convex:
            raise ProblemError(f"the {self.loss.name} loss is not convex: clipped, it is the gradient of no loss")

    @classmethod
    def of(cls, problem: LocalProblem, clip: float, norm: str) -> ClippedProblem:
        """The problem with its record gradients clipped."""
        return cls(problem.x, problem.y, problem.loss, problem.regularisation, clip, norm)

    def value(self, theta: FloatArray) -> float:
        """The mean of the records' continued losses, plus the regulariser."""
        regular = self.regularisation * self.loss.penalty(theta)
        if self.records == 0:
            return regular
        predictions = self.x @ theta
        slopes = self.loss.slope(predictions, self.y)
        limits = np.clip(slopes, *self._slope_limits(self.clip, self.norm))
        at, beyond = np.array(predictions), slopes != limits
        if beyond.any():
            at[beyond] = self._reached(predictions[beyond], self.y[beyond], limits[beyond])
        values = self.loss.value(at, self.y) + limits * (predictions - at)
        return float(np.mean(values)) + regular

    def gradient(self, theta: FloatArray) -> FloatArray:
        """The clipped gradient, shape (p,)."""
        return self.clipped_gradient(theta, self.clip, self.norm)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """The Hessian, shape (p, p); records beyond a limit have none."""
        regular = np.diag(self.regularisation * self.loss.penalty_curvature(theta))
        if self.records == 0:
            return regular
        slopes = self.loss.derivatives(theta, self.x, self.y)
        least, largest = self._slope_limits(self.clip, self.norm)
        inside = (slopes > least) & (slopes < largest)
        weights = np.where(inside, self.loss.curvatures(theta, self.x, self.y), 0.0) / self.records
        curved: FloatArray = (self.x.T * weights) @ self.x + regular
        return curved

    def _reached(self, beyond: FloatArray, y: FloatArray, limits: FloatArray) -> FloatArray:
        """The prediction at which each slope is at its limit; a slope rises with its prediction."""
        side = np.sign(limits)  # the limit lies towards smaller predictions for an upper limit
        inner, step = np.array(beyond), 1.0
        for _ in range(_DOUBLINGS):
            outside = side * (self.loss.slope(inner, y) - limits) > 0
            if not outside.any():
                break
            inner = np.where(outside, inner - side * step, inner)
            step *= 2.0
        outer = np.array(beyond)
        for _ in range(_HALVINGS):
            middle = 0.5 * (inner + outer)
            outside = side * (self.loss.slope(middle, y) - limits) > 0
            outer, inner = np.where(outside, middle, outer), np.where(outside, inner, middle)
        return inner
