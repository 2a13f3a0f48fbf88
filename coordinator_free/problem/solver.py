"""The exact local solver of the ADMM family: Newton's method with Cholesky.

Every member of the family minimises, in every round, a function of one shape (Zhang and Zhu 2017, Eq. 11 and 16; Zhang,
Khalili and Liu 2018, Eq. 10 and 24):

    F(f) = C/m sum_k loss(f . x_k, y_k) + w/2 |f|^2 + b . f

``C`` is the capacity, ``w`` the curvature that no record touches (regulariser, penalty), ``b`` what the duals, the
neighbours and the noise add up to. A regulariser of another form adds more (`coordinator_free.problem.regularisers`).

Rules that hold here:
- The minimiser is exact: the gradient's norm ends at most at `tolerance`. Objective perturbation and the sensitivity of
  the minimiser hold for nothing less.
- With ``steps`` the number of steps, of factorisations and of line evaluations is fixed, so that time reveals
  nothing about the records. Only where that is too few does the solver go on: it happens where noise or capacity dwarf
  the penalty, and then the time can reveal something. No setting of the examples needs it.
- The last steps of a fixed number solve with the Hessian that is already factorised: so close to the minimiser it
  hardly changes, each step gains several digits, and costs a fifth.
- With ``steps`` nothing raises: how far the solver comes depends on the records, so an error would show something of
  them without noise. Callers bound ``b`` and the start by public numbers, within which the solver converges.
- Working memory is one block of rows and one (d, d) or (m, m) matrix, never a second copy of the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import blas, lapack

from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.regularisers import SQUARE, Beyond
from coordinator_free.release import FloatArray

BLOCK = 1024
"""Rows that are weighted at a time: a block of 100 columns stays in the processor's cache."""
LENGTHS = np.array([1.0, 0.5, 0.125, 0.015625])
"""Step lengths that a fixed line search looks at."""
FIXED_STEPS = 10
"""Steps of a private round: on census data 3 to 8 are needed, with penalties and noise of any size."""
BENT_STEPS = 20
"""The same with a regulariser that adds curvature of its own to the square: 10 to 13 are needed where rho is large."""
REUSED_STEPS = 4
"""Those of them, the last, that solve with the Hessian as it was factorised before."""
LIMIT = 100
"""Newton steps after which the solver gives up."""


class SolverError(ArithmeticError):
    """The stop rule was not met: the problem is too badly conditioned for float64."""


def tolerance(quadratic: float, at: FloatArray, linear: FloatArray) -> float:
    """The gradient norm to stop at: 1e-10, or what float64 resolves where the terms of the gradient are huge."""
    return max(1e-10, 1e-15 * (quadratic * _norm(at) + _norm(linear)))


class LocalSolver:
    """Minimises F for one agent's records, again and again with other ``w`` and ``b``."""

    def __init__(self, problem: LocalProblem, capacity: float, beyond: Beyond = SQUARE) -> None:
        self._x = problem.x
        self._y = problem.y
        self._loss = problem.loss
        self._beyond = beyond
        self._capacity = capacity if problem.records else 0.0
        self._share = capacity / problem.records if problem.records else 0.0
        records, dimension = problem.x.shape
        # With fewer records than coordinates the Newton system is solved in the space of the records.
        self._gram = problem.x @ problem.x.T if 0 < records < dimension else None
        self._block = np.empty((min(BLOCK, records), dimension))
        self._labels = np.tile(problem.y, len(LENGTHS))
        self.steps_taken = 0
        """Steps of the last call."""

    def minimise(self, quadratic: float, linear: FloatArray, start: FloatArray, steps: int | None = None) -> FloatArray:
        """argmin F with w = ``quadratic`` > 0 and b = ``linear``, shape (d,), from ``start``.

        ``steps`` fixes the number of steps; None: as many Newton steps as the stop rule asks for. Raises `SolverError`
        where `LIMIT` steps are too few, but only without ``steps``.
        """
        if not quadratic > 0:
            raise ValueError(f"quadratic = {quadratic}: must be > 0, or there may be no minimiser")
        f = np.array(start, dtype=np.float64)
        margins = self._x @ f
        met = False
        refuses = steps is None
        fresh = 0 if steps is None else steps - REUSED_STEPS
        solve = self._factorised(margins, quadratic, f, refuses=refuses)
        stiff = quadratic + self._beyond.largest_curvature
        for taken in range(LIMIT):
            gradient = self._share * (self._loss.slope(margins, self._y) @ self._x) + quadratic * f + linear
            if self._beyond.bends:
                gradient += self._beyond.slope(f)
            self.steps_taken = taken
            before, met = met, _norm(gradient) <= tolerance(stiff, f, linear)
            # One step more than the rule asks for costs little and brings float64's last digits.
            if met and (taken >= steps if steps is not None else before):
                return f
            fixed = steps is not None and taken < steps
            reuse = taken >= fresh if fixed else met
            if taken and not reuse:
                solve = self._factorised(margins, quadratic, f, refuses=refuses)
            step = -solve(gradient)
            along = self._x @ step
            length = self._length(margins, along, f, step, gradient, quadratic, linear, fixed=fixed)
            f += length * step
            # Margins are computed afresh: adding up would let rounding errors grow.
            margins = self._x @ f
        if not refuses:
            return f
        raise SolverError(
            f"gradient norm {_norm(gradient):.1e} after {LIMIT} Newton steps, wanted "
            f"{tolerance(stiff, f, linear):.1e}: learning.capacity, rho or penalty are too far apart"
        )

    def _factorised(
        self, margins: FloatArray, quadratic: float, f: FloatArray, *, refuses: bool
    ) -> Callable[[FloatArray], FloatArray]:
        """Solves (C/m X^T S X + w I) s = gradient for s, S the records' curvatures at ``margins``; at ``f``."""
        weights = np.sqrt(self._share * self._loss.curvature(margins, self._y))
        if self._beyond.bends:
            return self._bent(weights, quadratic + self._beyond.curvature(f), refuses=refuses)
        if self._gram is not None:
            inner = (weights[:, None] * self._gram) * weights
            inner[np.diag_indices_from(inner)] += quadratic
            solve = _cholesky(inner, refuses=refuses)

            def in_records(gradient: FloatArray) -> FloatArray:
                dual = weights * solve(weights * (self._x @ gradient))
                step: FloatArray = (gradient - dual @ self._x) / quadratic
                return step

            return in_records
        return self._in_coordinates(weights, quadratic, refuses=refuses)

    def _bent(self, weights: FloatArray, diagonal: FloatArray, *, refuses: bool) -> Callable[[FloatArray], FloatArray]:
        """The same with ``diagonal`` (d,) in the place of w I."""
        if self._gram is None:
            return self._in_coordinates(weights, diagonal, refuses=refuses)
        inner = weights[:, None] * ((self._x / diagonal) @ self._x.T) * weights
        inner[np.diag_indices_from(inner)] += 1.0
        solve = _cholesky(inner, refuses=refuses)

        def in_records(gradient: FloatArray) -> FloatArray:
            dual = weights * solve(weights * (self._x @ (gradient / diagonal)))
            step: FloatArray = (gradient - dual @ self._x) / diagonal
            return step

        return in_records

    def _in_coordinates(
        self, weights: FloatArray, diagonal: FloatArray | float, *, refuses: bool
    ) -> Callable[[FloatArray], FloatArray]:
        dimension = self._x.shape[1]
        matrix = np.zeros((dimension, dimension), order="F")
        matrix[np.diag_indices(dimension)] = diagonal
        for first in range(0, len(weights), BLOCK):
            rows = self._x[first : first + BLOCK]
            block = self._block[: len(rows)]
            np.multiply(rows, weights[first : first + BLOCK, None], out=block)
            matrix = blas.dsyrk(1.0, block.T, beta=1.0, c=matrix, lower=1, overwrite_c=1)
        return _cholesky(matrix, refuses=refuses)

    def _length(
        self,
        margins: FloatArray,
        along: FloatArray,
        f: FloatArray,
        step: FloatArray,
        gradient: FloatArray,
        quadratic: float,
        linear: FloatArray,
        *,
        fixed: bool,
    ) -> float:
        """The first of 1, 1/2, 1/4, ... where F's slope along the step is at most half of what it was, upwards.

        F is convex: its slope along a descent direction starts negative and grows. The slope resolves progress close to
        the minimum, where the value no longer does.
        """
        flat = float(f @ step) * quadratic + float(linear @ step)
        bend = quadratic * float(step @ step)
        allowed = -0.5 * float(gradient @ step)

        def slopes(lengths: FloatArray) -> FloatArray:
            # All lengths in one call: an array of a few hundred margins costs less than the call does.
            there = (margins + lengths[:, None] * along).reshape(-1)
            labels = self._labels[: len(there)]
            records = self._loss.slope(there, labels).reshape(len(lengths), -1) @ along
            total: FloatArray = self._share * records + flat + lengths * bend
            if self._beyond.bends:
                total += self._beyond.slope(f + lengths[:, None] * step) @ step
            return total

        if fixed:
            good = LENGTHS[slopes(LENGTHS) <= allowed]
            # None is good at the minimum itself, where slopes are rounding errors, or very far away: it stays there.
            return float(good[0]) if good.size else 0.0
        length = 1.0
        while slopes(np.array([length])) > allowed and length > 1e-12:
            length *= 0.5
        return length


def _norm(vector: FloatArray) -> float:
    return math.sqrt(vector @ vector)


def _cholesky(matrix: FloatArray, *, refuses: bool) -> Callable[[FloatArray], FloatArray]:
    """Solves systems with a symmetric positive definite matrix, whose lower triangle is given and overwritten.

    Where float64 has no factor, `SolverError` if it ``refuses``; otherwise divides by the trace, a step downhill.
    """
    trace = float(np.einsum("ii->", matrix))
    factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    if failed and not refuses:
        return lambda right: right / trace
    if failed:
        raise SolverError("the Newton system is not positive definite: a feature is too large for float64")

    def solve(right: FloatArray) -> FloatArray:
        solution: FloatArray = lapack.dpotrs(factor, right, lower=1)[0]
        return solution

    return solve
