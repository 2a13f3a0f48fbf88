"""The settings of the ADMM family, and where its models start.

Rules that hold here:
- A start is public: zeros, or drawn from the run's seed, which every agent has. No record enters. So each agent knows
  the starts of its neighbours before anything is sent, and a start costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coordinator_free.problem.regularisers import Form
from coordinator_free.release import FloatArray
from coordinator_free.settings import NonNegative, Positive, Settings

STARTS = 0x737461
"""Keeps the starts apart from the other uses of the same seed."""


@dataclass(frozen=True, kw_only=True)
class AdmmSettings(Settings):
    """Of the ADMM family."""

    capacity: Positive
    """The constant C of the papers."""
    rho: Positive
    penalty: Positive | None = None
    """eta of the first round. Needed unless ``penalties`` are given."""
    penalty_growth: Positive = 1.0
    """A factor a round."""
    penalties: list[float] | None = None
    """eta of each round."""
    theta: Positive | None = None
    """The dual step. Default: the first penalty."""
    regulariser: Literal["per-node", "shared"] = "per-node"
    """Whether every agent has ``rho``, or all together."""
    regulariser_form: Form = "squared"
    """Which regulariser ``rho`` weighs: `coordinator_free.problem.regularisers`."""
    start: Literal["zero", "random"] = "zero"
    """Where models start: at zero, or each at a point of its own, drawn from the run's seed. Duals start at zero."""
    kappa: NonNegative | None = None
    """Weighs the free finish around the time average. Default: evidence of the agent's own records weighs it."""

    def idle(self) -> Mapping[str, str]:
        if self.penalties is None:
            return {}
        return dict.fromkeys(("penalty", "penalty_growth"), "learning.penalties has those of each round")


def start_of(start: Literal["zero", "random"], seed: int, agent: int, dimension: int) -> FloatArray:
    """Where the model of ``agent`` starts, shape (d,).

    "random": independent standard normal coordinates. Zhang and Zhu (2017), Algorithms 1 to 3, start at random, and do
    not print a law.
    """
    if start == "zero":
        return np.zeros(dimension)
    return np.random.default_rng([seed, STARTS, agent]).standard_normal(dimension)
