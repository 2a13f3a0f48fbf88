"""Zhang and Zhu (AISec 2016), *A Dual Perturbation Approach ...*: figures 2 and 3, dual variable perturbation alone."""

from __future__ import annotations

from node.experiments.reproduce import Reproduction, Request
from node.experiments.reproduce.adult import sweep
from node.experiments.reproduce.paper000 import convergence, trade_off

ALPHAS = (0.01, 0.1, 0.5, 1.0)


def figure2(request: Request) -> Reproduction:
    found, base = sweep(request, ("dvp",), ALPHAS, request.runs(1))
    return convergence(
        "paper002/figure2",
        "convergence of dual perturbation for alpha 0.01, 0.1, 0.5 and 1",
        "larger alpha converges faster and better (a plot)",
        found,
        base,
    )


def figure3(request: Request) -> Reproduction:
    return trade_off(request, "paper002/figure3", "dvp", 0.2, 25.0, errors=True)
