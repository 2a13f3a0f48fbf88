"""Regularisers of the ADMM family: rho/2 |f|^2, and what one of them adds to it.

    squared     R(f) = 1/2 |f|^2
    smooth-l1   R(f) = 1/2 |f|^2 + sum_k (sqrt(f_k^2 + s^2) - s),   s = `WIDTH`

Both satisfy what Zhang and Zhu (2017, Assumption 2) and Zhang, Khalili and Liu (2018, Assumption 5) ask for: they have
two continuous derivatives and are 1-strongly convex.

Rules that hold here:
- What is added to the square is convex, and no record touches it. So the square's strong convexity is all that a
  sensitivity or a Jacobian rests on: at one model f, the gradient and the Hessian of what is added are the same for
  any two datasets.
- Its second derivative is at most 1/s, so that Newton's method meets no kink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from coordinator_free.release import FloatArray

WIDTH: Final = 0.1
"""s: well beyond it a coordinate is pulled as by |f_k|, well within it as by f_k^2 / (2 s)."""

Form: TypeAlias = Literal["squared", "smooth-l1"]


class Beyond:
    """What a regulariser adds to rho/2 |f|^2: here nothing."""

    bends: ClassVar[bool] = False
    """Whether it adds something."""

    @property
    def largest_curvature(self) -> float:
        """A bound of its second derivatives."""
        return 0.0

    def value(self, f: FloatArray) -> FloatArray:
        """Its value at models (..., d), shape (...)."""
        return np.zeros(f.shape[:-1])

    def slope(self, f: FloatArray) -> FloatArray:
        """Its gradient at models (..., d), the same shape."""
        return np.zeros_like(f)

    def curvature(self, f: FloatArray) -> FloatArray:
        """The diagonal of its Hessian at models (..., d), the same shape; elements are at least 0."""
        return np.zeros_like(f)


@dataclass(frozen=True)
class SmoothL1(Beyond):
    """``weight`` * sum_k (sqrt(f_k^2 + s^2) - s), the pseudo-Huber function; ``weight`` is the agent's rho, above 0."""

    weight: float
    bends: ClassVar[bool] = True

    @property
    def largest_curvature(self) -> float:
        """``weight`` / s, at f_k = 0."""
        return self.weight / WIDTH

    def value(self, f: FloatArray) -> FloatArray:
        """``weight`` * sum_k (sqrt(f_k^2 + s^2) - s)."""
        total: FloatArray = self.weight * (np.hypot(f, WIDTH) - WIDTH).sum(axis=-1)
        return total

    def slope(self, f: FloatArray) -> FloatArray:
        """``weight`` * f_k / sqrt(f_k^2 + s^2)."""
        slope: FloatArray = self.weight * (f / np.hypot(f, WIDTH))
        return slope

    def curvature(self, f: FloatArray) -> FloatArray:
        """``weight`` * s^2 / (f_k^2 + s^2)^(3/2)."""
        curvature: FloatArray = self.weight * (WIDTH**2 / np.hypot(f, WIDTH) ** 3)
        return curvature


SQUARE: Final = Beyond()


def beyond_square(form: Form, rho: float) -> Beyond:
    """What ``rho`` times the regulariser of that form adds to rho/2 |f|^2."""
    return SmoothL1(rho) if form == "smooth-l1" else SQUARE
