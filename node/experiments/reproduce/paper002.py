"""Zhang and Zhu (AISec 2016), *A Dual Perturbation Approach ...*: figures 2 and 3, dual variable perturbation alone."""

from __future__ import annotations

from node.experiments.reproduce.dual_and_primal import convergence, trade_off
from node.experiments.reproduce.paper000 import TRADE_OFF

FIGURES = [
    convergence(
        "paper002/figure2",
        "convergence of dual perturbation for alpha 0.01, 0.1, 0.5 and 1",
        "larger alpha converges faster and better (a plot)",
        ("dvp",),
        (0.01, 0.1, 0.5, 1.0),
    ),
    trade_off("paper002/figure3", "dvp", TRADE_OFF, (0.2, 25.0), (2, 100), errors=True),
]
