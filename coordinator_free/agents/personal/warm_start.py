"""Coordinate descent from a private warm start (Bellet et al. 2018, section 5.1 and appendix C).

Each agent first releases a private anchor, then the network smooths them (Eq. 16) for ``warm_updates`` - 1 releases
that cost nothing, then it descends as in coordinate descent (Eq. 6). The anchor's epsilon is part of the budget.

Rules that hold here:
- Only the anchor and the descending updates hold anything of the data, and each of them is charged.
- The descent starts from the agent's own last *released* model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.anchors import Anchor
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.personal.propagation import PropagationSettings
from coordinator_free.algorithm import Attack
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import PARAMETER, Count, Positive, SettingError, Settings


@dataclass(frozen=True, kw_only=True)
class WarmStartSettings(PropagationSettings):
    """Of a private warm start."""

    warm_updates: Count = field(default=10, metadata=PARAMETER)
    """Releases of the warm start, the anchor included; below ``clock.updates``."""
    warm_epsilon: Positive | None = field(default=None, metadata=PARAMETER)
    """The anchor's part of the budget. A private run needs it."""
    warm_mechanism: str | None = field(default=None, metadata=PARAMETER)
    """The anchor's. Default: ``privacy.mechanism``."""
    warm_clip: Positive | None = field(default=None, metadata=PARAMETER)
    """The anchor's. Default: ``privacy.clip``."""

    def releases(self, updates: int) -> int:
        """How many releases the warm start has; raises `SettingError` unless it leaves some to the descent."""
        if not self.warm_updates < updates:
            raise SettingError(
                f"learning.warm_updates = {self.warm_updates}: must be 1 or more and below clock.updates = {updates}"
            )
        return self.warm_updates


class WarmStart(CoordinateDescent):
    """One agent that descends from propagated anchors.

    ``setting.multipliers`` has one entry for each release; those of free releases are not used.
    """

    name: ClassVar[str] = "warm-start"
    settings: ClassVar[type[Settings] | None] = WarmStartSettings
    allocates: ClassVar[bool] = False
    rate_is_known: ClassVar[bool] = False
    events: ClassVar[frozenset[str]] = frozenset()
    takes_arrivals: ClassVar[bool] = False
    attacked_by: ClassVar[Attack] = Attack.RELEASES

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        own = WarmStartSettings.of(setting.learning)
        self._warm = own.releases(setting.updates)
        private = setting.mechanism != "none"
        family = own.warm_mechanism or setting.mechanism if private else "none"
        if family == "gaussian" and own.anchor == "objective-perturbation":
            raise SettingError(
                'learning.anchor = "objective-perturbation": the bound for its Gaussian noise is of a single release; '
                'here it accepts learning.parameters.warm_mechanism = "gamma-norm"'
            )
        self._anchored = Anchor(
            replace(
                setting,
                multipliers=setting.multipliers[:1],
                mechanism=family,
                clip=own.warm_clip or setting.clip,
                row_bound=setting.row_bound if NORMS.get(family) == NORMS.get(setting.mechanism) else None,
            ),
            own,
        )
        self._anchor: FloatArray | None = None

    @staticmethod
    def calibrate(
        mechanism: str, releases: int, epsilon: float, delta: float, learning: Mapping[str, Any], dimension: int
    ) -> FloatArray:
        """The multipliers of ``releases`` releases: the anchor's, then those of the descent, together in the budget.

        Gaussian releases share the budget exactly (1/scale^2 adds up); where the anchor has another mechanism, or none
        of them is Gaussian, epsilons add.
        """
        from coordinator_free.privacy.accounting import AccountingError, calibrate
        from coordinator_free.privacy.analytic_gaussian import gaussian_mu

        own = WarmStartSettings.of(learning)
        first = own.warm_epsilon or math.nan
        if not 0.0 < first < epsilon:
            raise AccountingError(
                f"learning.warm_epsilon = {first}; accepted: above 0, below privacy.epsilon {epsilon}"
            )
        family = own.warm_mechanism or mechanism
        warm = own.releases(releases)
        if mechanism == family == "gaussian":
            ours, whole = gaussian_mu(first, delta), gaussian_mu(epsilon, delta)
            anchor = 1.0 / ours
            rest = np.full(releases - warm, math.sqrt((releases - warm) / (whole**2 - ours**2)) * (1.0 + 1e-9))
        else:
            # A pure anchor leaves all of delta to the descent.
            split = delta / 2.0 if family == "gaussian" else 0.0
            anchor = float(calibrate(family, 1, first, split, dimension=dimension)[0])
            rest = calibrate(mechanism, releases - warm, epsilon - first, delta - split, dimension=dimension)
        return np.concatenate(([anchor], np.ones(warm - 1), rest))

    def wake(self) -> Release | None:
        if self._next >= self._warm:
            return super().wake()
        if self._next == 0:
            return self._release(self._own_anchor())
        model = self._mixture()
        pull = self._at(self._next).pull
        model += pull * self._own_anchor()
        model /= 1.0 + pull
        return self._release(model)

    def surrogate(self, curvature: float) -> tuple[float, FloatArray] | None:  # noqa: ARG002
        return None  # its first releases are of another kind

    def _own_anchor(self) -> FloatArray:
        """The anchor, the same every time; after a restart it is computed again, with the same noise."""
        if self._anchor is None:
            self._anchor = self._anchored.vector(self.charge(0))
        return self._anchor

    def charge(self, index: int) -> Mechanism | None:
        if index == 0:
            return self._anchored.charge()
        return super().charge(index) if index >= self._warm else None

    def made_with(self, index: int) -> Mechanism | None:
        return super().made_with(index) if index >= self._warm else self.charge(index)

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        super().restore(state, next_index)
        self._anchor = None
