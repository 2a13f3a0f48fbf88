"""Model propagation: each agent releases one anchor, and the network smooths them (Bellet et al. 2018, appendix C).

The first release is the anchor A_i; every later one is the exact minimiser of the agent's block of

    Q(Theta) = 1/2 ( sum_{i<j} W_ij |Theta_i - Theta_j|^2 + mu sum_i D_ii c_i |Theta_i - A_i|^2 )          (Eq. 15)
    Theta_i <- ( sum_j W_ij/D_ii Theta_j + mu c_i A_i ) / (1 + mu c_i)                                     (Eq. 16)

Only the anchor is a function of the data, so it is all that is charged: with a private anchor this is the one-shot
algorithm, the whole budget on one release. The free finish then pulls with the real data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.agents.personal.asynchronous import Asynchronous
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import Positive, Settings
from topology.network import Network


@dataclass(frozen=True, kw_only=True)
class PropagationSettings(AnchorSettings):
    """Of every algorithm that smooths anchors."""

    mu: Positive
    """Weight of the anchors, or of the local losses, against the graph's smoothness."""
    finish_mu: Positive | None = None
    """Of the free finish. Default: evidence of the agent's own records weighs it."""


class Propagation(Asynchronous):
    """One agent of model propagation. In a private run ``setting.multipliers`` has one entry, for the anchor."""

    name: ClassVar[str] = "propagation"
    settings: ClassVar[type[Settings] | None] = PropagationSettings
    uses_smoothness: ClassVar[bool] = False
    allocates: ClassVar[bool] = False
    needs_clip: ClassVar[bool] = True
    releases_its_model: ClassVar[bool] = True
    attacked_by: ClassVar[Attack] = Attack.ANCHORS

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, self.charged(setting.updates))
        own = PropagationSettings.of(setting.learning)
        self._anchored = Anchor(setting, own)
        self._pull = own.mu * setting.confidence  # mu c_i
        self._anchor: FloatArray | None = None

    @staticmethod
    def calibrate(
        mechanism: str,
        releases: int,  # noqa: ARG004
        epsilon: float,
        delta: float,
        learning: Mapping[str, Any],
        dimension: int,  # noqa: ARG004
    ) -> FloatArray | None:
        """The anchor's. None: as for any single release."""
        return Anchor.calibrate(mechanism, epsilon, delta, AnchorSettings.of(learning), learning)

    @staticmethod
    def charged(updates: int) -> int:
        """How many releases are charged, the first ones."""
        return min(updates, 1)

    def wake(self) -> Release | None:
        if self.finished:
            return None
        if self._anchor is None:
            self._anchor = self._anchored.vector(self.charge(0))
        if self._next == 0:
            return self._release(self._anchor)
        model = self._mixture()
        model += self._pull * self._anchor
        model /= 1.0 + self._pull
        return self._release(model)

    def charge(self, index: int) -> Mechanism | None:
        return self._anchored.charge() if index < self.charged(self._setting.updates) else None

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        super().restore(state, next_index)
        self._anchor = None


def propagated(network: Network, anchors: FloatArray, confidences: FloatArray, mu: float) -> FloatArray:
    """argmin of Eq. 15, shape (n, p): what propagation converges to, by one sparse solve per call."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    pulls = mu * network.degrees * confidences
    matrix = sparse.diags_array(network.degrees + pulls) - network.weights
    return np.asarray(splu(sparse.csc_array(matrix)).solve(pulls[:, None] * anchors), dtype=np.float64)
