"""One agent's local problem (Bellet et al. 2018, Eq. 1).

    L_i(theta) = 1/m_i sum_k loss(theta; x_k, y_k) + lambda_i |theta|^2

Rules that hold here:
- ``lambda_i |theta|^2`` has gradient ``2 lambda_i theta``; an agent without records has ``L_i = lambda_i |theta|^2``.
  A loss may put another regulariser in the place of ``|theta|^2``.
- Clipping touches the record gradients only: the regulariser's gradient is a function of the public model and sizes.
- Arrays are float64 and C-contiguous, so that the same numbers come out wherever the same problem is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coordinator_free.problem.losses import Loss, Squared
from coordinator_free.release import FloatArray

_SMALLEST_SQUARE, _LARGEST_SQUARE = 1e-280, 1e300
"""Between them a sum of squares has all its digits."""


class ProblemError(ValueError):
    """Records or settings that make no local problem."""


@dataclass(frozen=True, eq=False)
class LocalProblem:
    """The local loss L_i of one agent: its private records, and how they are judged.

    Parameters
    ----------
    x
        Features, shape (m, p); m may be 0.
    y
        Labels, shape (m,).
    loss
        The loss of one record.
    regularisation
        lambda_i, 0 or more.

    Raises
    ------
    ProblemError
        Shapes do not fit, a number is not finite, or ``regularisation`` is negative.
    LossError
        The loss cannot take a label.
    """

    x: FloatArray
    y: FloatArray
    loss: Loss
    regularisation: float

    def __post_init__(self) -> None:
        x = np.ascontiguousarray(self.x, dtype=np.float64)
        y = np.ascontiguousarray(self.y, dtype=np.float64)
        if x.ndim != 2 or y.shape != (x.shape[0],):
            raise ProblemError(f"x has shape {x.shape} and y {y.shape}: expected (m, p) and (m,)")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ProblemError("features and labels must be finite: found NaN or infinity")
        if not (np.isfinite(self.regularisation) and self.regularisation >= 0):
            raise ProblemError(f"regularisation = {self.regularisation}: must be a finite number >= 0")
        self.loss.check_labels(y)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)

    @property
    def records(self) -> int:
        """m_i, the number of records."""
        return len(self.y)

    @property
    def dimension(self) -> int:
        """p, the number of coordinates."""
        return int(self.x.shape[1])

    @cached_property
    def _row_norms(self) -> dict[str, FloatArray]:
        with np.errstate(over="ignore", under="ignore"):
            return {"l1": np.abs(self.x).sum(axis=1), "l2": _lengths(self.x)}

    @cached_property
    def _limits(self) -> dict[tuple[float, str], tuple[FloatArray, FloatArray]]:
        return {}

    def _slope_limits(self, clip: float, norm: str) -> tuple[FloatArray, FloatArray]:
        """Least and largest slope of each record with which its gradient is not longer than ``clip``."""
        limits = self._limits.get((clip, norm))
        if limits is None:
            norms = self._row_norms[norm]
            with np.errstate(over="ignore", divide="ignore"):
                # The largest float where no slope makes the gradient too long: an infinite one times 0 is no number.
                largest = np.minimum(clip / norms, np.finfo(np.float64).max)
            limits = self._limits[clip, norm] = -largest, largest
        return limits

    def within(self, row_bound: float, norm: str) -> LocalProblem:
        """The same problem, rows longer than ``row_bound`` (in ``norm``) shortened to it; itself where none is."""
        norms = self._row_norms[norm]
        if not (norms > row_bound * (1.0 + 1e-9)).any():
            return self
        x = self.x * (row_bound / np.maximum(norms, row_bound))[:, None]
        return LocalProblem(x, self.y, self.loss, self.regularisation)

    def value(self, theta: FloatArray) -> float:
        """L_i(theta)."""
        fit = float(np.mean(self.loss.values(theta, self.x, self.y))) if self.records else 0.0
        return fit + self.regularisation * self.loss.penalty(theta)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """The gradient of L_i, shape (p,)."""
        gradient = self.loss.gradient(theta, self.x, self.y)
        gradient += self.regularisation * self.loss.penalty_gradient(theta)
        return gradient

    def clipped_gradient(self, theta: FloatArray, clip: float, norm: str) -> FloatArray:
        """The mean of the record gradients, each clipped, plus the regulariser's, shape (p,).

        Replacing one record moves the result by at most ``2 clip / m_i`` in ``norm``.

        Parameters
        ----------
        theta
            The model, shape (p,).
        clip
            The largest norm that a record's gradient keeps.
        norm
            "l1" or "l2".
        """
        regular = self.regularisation * self.loss.penalty_gradient(theta)
        if self.records == 0:
            return regular
        slopes = self.loss.derivatives(theta, self.x, self.y)
        least, largest = self._slope_limits(clip, norm)
        # A slope beyond float64 (infinite, or no number) ends at a limit too: the clip holds for every row and model.
        np.fmin(slopes, largest, out=slopes)
        np.fmax(slopes, least, out=slopes)
        mean: FloatArray = slopes.dot(self.x)
        mean /= self.records
        mean += regular
        return mean

    def hessian(self, theta: FloatArray) -> FloatArray:
        """The Hessian of L_i, shape (p, p)."""
        regular = np.diag(self.regularisation * self.loss.penalty_curvature(theta))
        if self.records == 0:
            return regular
        weights = self.loss.curvatures(theta, self.x, self.y) / self.records
        curved: FloatArray = (self.x.T * weights) @ self.x + regular
        return curved

    def smoothness_of_data(self) -> float:
        """c1 times the largest eigenvalue of X^T X / m, plus 2 lambda_i. Reads the records: never in a private run."""
        return self.loss.curvature_bound * _largest_square(self.x) + 2.0 * self.regularisation

    def smoothness_bound(self, row_bound: float) -> float:
        """c1 R^2 + 2 lambda_i for rows of Euclidean norm at most the public R: safe in a private run."""
        return self.loss.curvature_bound * row_bound**2 + 2.0 * self.regularisation

    def minimiser(self) -> FloatArray:
        """The minimiser of L_i, shape (p,), which the agent would learn alone (Eq. 1). The shortest, if several.

        Of a loss that is not convex, the local minimum that a descent from zero reaches.

        Raises
        ------
        ProblemError
            lambda_i is 0 and the loss alone may have no minimiser.
        """
        if self.records == 0:
            return np.zeros(self.dimension)
        if isinstance(self.loss, Squared):
            if self.regularisation == 0:
                return np.asarray(np.linalg.lstsq(self.x, self.y, rcond=None)[0], dtype=np.float64)
            return self._ridge(np.zeros(self.dimension), None)
        if self.regularisation == 0:
            raise ProblemError(f"regularisation = 0: the {self.loss.name} loss alone may have no minimiser; give > 0")
        return minimise(self.value, self.gradient, self.hessian, np.zeros(self.dimension))

    def proximal(self, centre: FloatArray, pull: float) -> FloatArray:
        """The minimiser of 1/2 |theta - centre|^2 + pull L_i(theta), shape (p,), to machine precision."""
        if self.records == 0 and self.loss.convex:
            return centre / (1.0 + 2.0 * pull * self.regularisation)
        if isinstance(self.loss, Squared):
            return self._ridge(centre, pull)

        def value(theta: FloatArray) -> float:
            return 0.5 * float((theta - centre) @ (theta - centre)) + pull * self.value(theta)

        def gradient(theta: FloatArray) -> FloatArray:
            return theta - centre + pull * self.gradient(theta)

        def hessian(theta: FloatArray) -> FloatArray:
            return np.eye(self.dimension) + pull * self.hessian(theta)

        return minimise(value, gradient, hessian, np.array(centre))

    def _ridge(self, centre: FloatArray, pull: float | None) -> FloatArray:
        """Closed form for the squared loss; ``pull`` None: no centre, only L_i."""
        anchor, scale = (0.0, 1.0) if pull is None else (1.0, pull)
        ridge = anchor + 2.0 * scale * self.regularisation
        fit = 2.0 * scale / self.records
        if self.dimension <= self.records:
            matrix = fit * (self.x.T @ self.x)
            matrix[np.diag_indices(self.dimension)] += ridge
            right = anchor * centre + fit * (self.x.T @ self.y)
            return _solve(matrix, right)
        # Fewer records than coordinates: solve for the residuals instead, an (m, m) system.
        start = anchor * centre / ridge
        matrix = fit * (self.x @ self.x.T)
        matrix[np.diag_indices(self.records)] += ridge
        dual = _solve(matrix, self.y - self.x @ start)
        return start + fit * (self.x.T @ dual)


def minimise(
    value: Callable[[FloatArray], float],
    gradient: Callable[[FloatArray], FloatArray],
    hessian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
) -> FloatArray:
    """Minimise a smooth function of few coordinates by Newton's method with backtracking.

    The method goes on until the gradient cannot be made smaller in float64. Where the Hessian is not positive definite,
    the step takes its eigenvalues' absolute values, so that it descends: to a local minimum, if the function is not
    convex.
    """
    theta, here = start, gradient(start)
    for _ in range(100):
        size = float(np.linalg.norm(here))
        if size == 0.0:
            break
        step = -_downhill(hessian(theta), here)
        slope, now, length = float(here @ step), value(theta), 1.0
        while length > 1e-10 and value(theta + length * step) > now + 1e-4 * length * slope + 1e-15 * abs(now):
            length *= 0.5
        trial = theta + length * step
        there = gradient(trial)
        # Close to the minimum the value no longer resolves progress; the gradient does.
        if -slope <= 1e-14 * abs(now) and not float(np.linalg.norm(there)) < size:
            break
        theta, here = trial, there
    return theta


def _lengths(x: FloatArray) -> FloatArray:
    """The Euclidean length of each row of ``x``, shape (m, p), also where its square is no float64; shape (m,)."""
    squares: FloatArray = np.einsum("ij,ij->i", x, x)
    lengths: FloatArray = np.sqrt(squares)
    extreme = ~((squares > _SMALLEST_SQUARE) & (squares < _LARGEST_SQUARE))
    if extreme.any():
        rows = x[extreme]
        largest = np.abs(rows).max(axis=1, initial=0.0)
        unit = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
        lengths[extreme] = largest * np.sqrt(np.einsum("ij,ij->i", unit, unit))
    return lengths


def _largest_square(x: FloatArray) -> float:
    """The largest eigenvalue of X^T X / m."""
    if x.shape[0] == 0:
        return 0.0
    gram = x @ x.T if x.shape[0] < x.shape[1] else x.T @ x
    return float(np.linalg.eigvalsh(gram)[-1]) / len(x)


def _downhill(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    """|H|^-1 gradient; for a positive definite H the Newton direction."""
    try:
        return _solve(hessian, gradient)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(hessian)
        sizes = np.abs(values)
        step: FloatArray = vectors @ ((vectors.T @ gradient) / np.maximum(sizes, 1e-8 * sizes.max() + 1e-300))
        return step


def _solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a symmetric positive definite system; raises `numpy.linalg.LinAlgError` for any other."""
    np.linalg.cholesky(matrix)
    solution: FloatArray = np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    return solution
