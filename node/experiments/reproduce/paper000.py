"""Zhang and Zhu, *Dynamic Privacy for Distributed Machine Learning over Network*: figures 4 to 8."""

from __future__ import annotations

from node.experiments.reproduce.dual_and_primal import convergence, final, trade_off

CONVERGENCE = (0.1, 0.5, 1.0)
FINAL = (0.05, 0.2, 0.5, 1.0)
TRADE_OFF = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Enough levels for a fit of three constants."""
AT = (2, 20, 100)
"""Rounds of the trade-offs."""

FIGURES = [
    convergence(
        "paper000/figure4",
        "convergence of dual and primal perturbation for several alpha",
        "larger alpha gives better convergence; the dual variant has the smaller variance of the loss (a plot)",
        ("dvp", "pvp"),
        CONVERGENCE,
    ),
    trade_off("paper000/figure5", "dvp", TRADE_OFF, (0.2, 25.0), AT),
    trade_off("paper000/figure6", "pvp", TRADE_OFF, (20.0, 20.0), AT),
    final(
        "paper000/figure7",
        "empirical loss of the final model over alpha",
        "loss falls with alpha; primal slightly better than dual in loss, dual more stable (a plot)",
        "loss",
        FINAL,
    ),
    final(
        "paper000/figure8",
        "misclassification rate of the final model over alpha",
        "error falls with alpha; dual perturbation has the better error rate for most alpha (a plot)",
        "error",
        FINAL,
    ),
]
