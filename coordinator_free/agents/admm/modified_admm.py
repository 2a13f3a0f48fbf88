"""M-ADMM: each agent chooses its own penalty in each round (Zhang, Khalili and Liu 2018, Eq. 10 and 11).

The update is that of `coordinator_free.agents.admm.admm` with eta_i(t) in the penalty term and a dual step theta of
its own. It converges where the penalties are bounded, do not decrease, and stay at or above theta (Theorem 3.1:
sufficient, not necessary); a penalty that grows without bound freezes short of the optimum.
`coordinator_free.theory.admm_convergence` checks both. It has no privacy of its own: an observer that
knows no penalty finds a record all the same (`coordinator_free.attacks.hidden_penalties`).
"""

from __future__ import annotations

from typing import ClassVar

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.own_penalties import OwnPenaltySettings, with_own_penalties
from coordinator_free.settings import Settings


class ModifiedAdmm(Admm):
    """One agent of M-ADMM; parameters as in `OwnPenaltySettings`."""

    name: ClassVar[str] = "m-admm"
    settings: ClassVar[type[Settings] | None] = OwnPenaltySettings
    varying_penalty: ClassVar[bool] = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(with_own_penalties(setting))
