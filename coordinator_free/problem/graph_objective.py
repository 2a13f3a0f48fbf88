"""The objective of the whole network and its optimum (Bellet et al. 2018, Eq. 2).

Q(Theta) = 1/2 sum_{i<j} W_ij |Theta_i - Theta_j|^2 + mu sum_i D_ii c_i L_i(Theta_i)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

if TYPE_CHECKING:
    from topology.network import Network


def graph_objective(
    network: Network,
    problems: Sequence[LocalProblem],
    confidences: FloatArray,
    mu: float,
    models: FloatArray,
) -> float:
    """Q(Theta), Eq. 2.

    Parameters
    ----------
    network
        The graph, of n agents.
    problems
        The local problem of each agent, p coordinates each.
    confidences
        c_i = m_i / max m, shape (n,).
    mu
        Weight of the local losses against agreement.
    models
        Theta, shape (n, p).
    """
    pulls = mu * network.degrees * confidences
    local = np.array([problem.value(model) for problem, model in zip(problems, models, strict=True)])
    return 0.5 * _disagreement(network, models) + float(pulls @ local)


def optimum(network: Network, problems: Sequence[LocalProblem], confidences: FloatArray, mu: float) -> FloatArray:
    """The minimiser of Q, shape (n, p), to a relative gap far below 1e-10; for convex losses.

    Newton's method on all blocks at once; each Newton system is solved by conjugate gradients with the exact diagonal
    blocks as preconditioner.

    Parameters
    ----------
    network
        The graph, of n agents.
    problems
        The local problem of each agent, p coordinates each.
    confidences
        c_i = m_i / max m, shape (n,).
    mu
        Weight of the local losses against agreement.
    """
    if network.agents == 1:
        return problems[0].minimiser()[None, :]
    degrees = network.degrees
    pulls = mu * degrees * confidences
    models = np.zeros((network.agents, problems[0].dimension))

    def value(at: FloatArray) -> float:
        return graph_objective(network, problems, confidences, mu, at)

    def gradient(at: FloatArray) -> FloatArray:
        local = np.stack([problem.gradient(model) for problem, model in zip(problems, at, strict=True)])
        spread: FloatArray = degrees[:, None] * at - network.weights @ at
        return spread + pulls[:, None] * local

    here = gradient(models)
    first = float(np.linalg.norm(here))
    for _ in range(60):
        size = float(np.linalg.norm(here))
        if size == 0.0:
            break
        blocks = np.stack([problem.hessian(model) for problem, model in zip(problems, models, strict=True)])
        blocks *= pulls[:, None, None]
        blocks[:, np.arange(models.shape[1]), np.arange(models.shape[1])] += degrees[:, None]
        # Solving the early systems loosely keeps the quadratic convergence (Dembo, Eisenstat and Steihaug 1982).
        step = -_block_conjugate_gradients(network, blocks, here, min(0.1, size / first))
        slope, now, length = float(np.vdot(here, step)), value(models), 1.0
        while length > 1e-10 and value(models + length * step) > now + 1e-4 * length * slope + 1e-15 * abs(now):
            length *= 0.5
        trial = models + length * step
        there = gradient(trial)
        if -slope <= 1e-14 * abs(now) and not float(np.linalg.norm(there)) < size:
            break
        models, here = trial, there
        if -slope <= 1e-20 * abs(now):
            break
    return models


def relative_gap(
    network: Network,
    problems: Sequence[LocalProblem],
    confidences: FloatArray,
    mu: float,
    models: FloatArray,
    best: FloatArray | None = None,
) -> float:
    """(Q(models) - Q*) / (Q(0) - Q*): 1 for the zero models, 0 at the optimum; NaN if the zero models are optimal.

    Parameters
    ----------
    network
        The graph, of n agents.
    problems
        The local problem of each agent, p coordinates each.
    confidences
        c_i = m_i / max m, shape (n,).
    mu
        Weight of the local losses against agreement.
    models
        Shape (n, p).
    best
        The optimum, shape (n, p); computed if it is not given.
    """
    if best is None:
        best = optimum(network, problems, confidences, mu)
    lowest = graph_objective(network, problems, confidences, mu, best)
    start = graph_objective(network, problems, confidences, mu, np.zeros_like(models))
    reached = graph_objective(network, problems, confidences, mu, models)
    return float((reached - lowest) / gap_at_start(start, lowest))


def gap_at_start(start: float, lowest: float) -> float:
    """Q(0) - Q*; NaN where rounding alone tells them apart, so that no gap can be measured by it."""
    gap = start - lowest
    return gap if gap > 1e-12 * max(abs(start), abs(lowest)) else math.nan


def _disagreement(network: Network, models: FloatArray) -> float:
    """sum_{i<j} W_ij |Theta_i - Theta_j|^2, without the cancellation of the Laplacian's quadratic form."""
    coordinates = network.weights.tocoo()
    upper = coordinates.row < coordinates.col
    differences = models[coordinates.row[upper]] - models[coordinates.col[upper]]
    return float(coordinates.data[upper] @ np.einsum("ij,ij->i", differences, differences))


def _block_conjugate_gradients(network: Network, blocks: FloatArray, right: FloatArray, precision: float) -> FloatArray:
    """Solve (blocks - W) s = right, shape (n, p), to a relative residual of ``precision`` (preconditioned norm)."""
    inverses = np.linalg.inv(blocks)

    def product(of: FloatArray) -> FloatArray:
        whole: FloatArray = np.matmul(blocks, of[:, :, None])[:, :, 0] - network.weights @ of
        return whole

    solution = np.zeros_like(right)
    residual = right.copy()
    ahead = np.matmul(inverses, residual[:, :, None])[:, :, 0]
    direction = ahead.copy()
    size = float(np.vdot(residual, ahead))
    goal = max(precision, 1e-14) ** 2 * size
    for _ in range(10 * right.size + 100):
        if size <= goal:
            break
        image = product(direction)
        length = size / float(np.vdot(direction, image))
        solution += length * direction
        residual -= length * image
        ahead = np.matmul(inverses, residual[:, :, None])[:, :, 0]
        previous, size = size, float(np.vdot(residual, ahead))
        direction = ahead + (size / previous) * direction
    return solution
