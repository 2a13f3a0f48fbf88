"""Where agents that agree on one model come to rest: the optimum of the sum of their objectives.

    sum_i v_i ( C/m_i sum_k loss(f . x_k, y_k) + rho_i R(f) )

With v_i = 1 it is the optimum of Eq. 1 of Zhang, Khalili and Liu (2018). Where each agent has a dual step theta_i of
its own, sum_i lambda_i / theta_i stays 0 instead of sum_i lambda_i: the agents then agree on the optimum with
v_i = 1 / theta_i.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coordinator_free.problem.objective import LocalProblem, minimise
from coordinator_free.problem.regularisers import Form, beyond_square
from coordinator_free.release import FloatArray


def consensus_gradients(problems: Sequence[LocalProblem], capacity: float, rho: float, at: FloatArray) -> FloatArray:
    """The gradient of each agent's objective at one model ``at`` (d,), shape (n, d); ``rho`` is an agent's own."""
    return np.stack([_share(p, capacity) * (p.loss.slope(p.x @ at, p.y) @ p.x) + rho * at for p in problems])


def consensus_optimum(
    problems: Sequence[LocalProblem],
    capacity: float,
    rho: float,
    weights: FloatArray | None = None,
    form: Form = "squared",
) -> FloatArray:
    """The optimum, shape (d,); ``weights`` are the v_i > 0 (n,), by default all 1; ``form`` is that of R."""
    v = np.ones(len(problems)) if weights is None else weights
    total = rho * float(v.sum())
    beyond = beyond_square(form, total)
    zero = np.zeros(problems[0].dimension)

    def value(f: FloatArray) -> float:
        fits = [_share(p, capacity) * float(p.loss.value(p.x @ f, p.y).sum()) for p in problems]
        return float(v @ np.array(fits)) + 0.5 * total * float(f @ f) + float(beyond.value(f))

    def gradient(f: FloatArray) -> FloatArray:
        found: FloatArray = v @ consensus_gradients(problems, capacity, rho, f)
        found += beyond.slope(f)
        return found

    def hessian(f: FloatArray) -> FloatArray:
        bent = [
            w * _share(p, capacity) * ((p.x.T * p.loss.curvature(p.x @ f, p.y)) @ p.x)
            for w, p in zip(v, problems, strict=True)
        ]
        found: FloatArray = np.sum(bent, axis=0) + np.diag(total + beyond.curvature(f))
        return found

    return minimise(value, gradient, hessian, zero)


def _share(problem: LocalProblem, capacity: float) -> float:
    return capacity / problem.records if problem.records else 0.0
