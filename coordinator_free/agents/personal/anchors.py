"""Anchors: what an agent first releases of its data, once, and what its network then smooths for free.

Rules that hold here:
- An anchor is computed from the agent's own records, public numbers and the noise of its release 0, and from nothing
  else. So it can be computed again after a restart: the same bytes, never a second draw.
- A private anchor lies on the public grid. All that follows from released anchors is post-processing and costs nothing.
- The private local models are exact minimisers; their bounds hold for nothing less. They need public bounds of the
  rows: ``clip`` bounds the record gradients in L2, so rows must not be longer than clip / slope bound.

Sources: output and objective perturbation, Chaudhuri, Monteleoni and Sarwate (2011); their place in the network, Bellet
et al. (2018), appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.checks import bounded, longer_row
from coordinator_free.privacy.families import NORMS, mechanism
from coordinator_free.privacy.gaussian_objective_perturbation import (
    GaussianObjectivePerturbation,
    ObjectivePerturbationError,
    gaussian_objective_deviation,
)
from coordinator_free.privacy.mechanism import GRID, Mechanism, boxed
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation, jacobian_loss, penalised
from coordinator_free.problem import losses
from coordinator_free.problem.public_model import PublicModelSensitivity
from coordinator_free.problem.solver import FIXED_STEPS, LocalSolver
from coordinator_free.release import FloatArray
from coordinator_free.settings import Positive, SettingError, Settings

PROTECTED = ("gradient", "output-perturbation", "objective-perturbation", "zero")
"""Those that a private run accepts."""
MINIMISERS = ("output-perturbation", "objective-perturbation")
"""Those that are exact minimisers."""
SOLVED = 1e-10
"""The gradient norm to which a local model is minimised."""


@dataclass(frozen=True, kw_only=True)
class AnchorSettings(Settings):
    """Of an anchor."""

    anchor: Literal["local", "gradient", "output-perturbation", "objective-perturbation", "zero"] | None = None
    """Its kind. Default: "local" without privacy, else "gradient"."""
    anchor_scale: Positive = 1.0
    """What the mean gradient is multiplied with."""
    anchor_regularisation: Positive = 1.0
    """Of a private local model; divided by the agent's number of records."""

    def idle(self) -> Mapping[str, str]:
        used = {"gradient": ("anchor_scale",), **dict.fromkeys(MINIMISERS, ("anchor_regularisation",))}
        if self.anchor is None:
            return {"anchor_regularisation": f"learning.anchor should be {' or '.join(MINIMISERS)}"}
        why = f'learning.anchor = "{self.anchor}" has none'
        return {key: why for key in ("anchor_scale", "anchor_regularisation") if key not in used.get(self.anchor, ())}


@dataclass(frozen=True, kw_only=True)
class _Bounds(Settings):
    """What bounds the record gradients, as a calibration is given."""

    loss: str
    clip: Positive


class Anchor:
    """One agent's anchor.

    - ``local``: the local model, unprotected; no private run accepts it.
    - ``gradient``: -anchor_scale times the mean clipped gradient at zero, plus noise. Sensitivity
      anchor_scale 2 clip / m_i in the mechanism's norm, or less where rows have a public bound.
    - ``output-perturbation``: the local model at lambda = anchor_regularisation / m_i, plus noise. The local loss is
      2 lambda strongly convex, so the sensitivity is clip / (lambda m_i) in L2 (Chaudhuri et al. 2011, Corollary 8).
    - ``objective-perturbation``: the exact minimiser of the local loss plus a noisy linear term.
    - ``zero``: nothing.
    """

    def __init__(self, setting: Setting, own: AnchorSettings) -> None:
        self._setting = setting = bounded(setting)
        self._problem = setting.problem
        kind = own.anchor or ("local" if setting.mechanism == "none" else "gradient")
        self._kind = kind
        if kind in MINIMISERS and not setting.problem.loss.convex:
            raise SettingError(
                f'learning.loss = "{setting.problem.loss.name}": {kind} protects the exact minimiser of a convex loss, '
                "which this is not"
            )
        if kind in MINIMISERS and setting.problem.loss.has_own_penalty:
            raise SettingError(
                f'learning.loss = "{setting.problem.loss.name}": {kind} takes the square as regulariser, and this loss '
                "has another; accepted are losses without a regulariser of their own"
            )
        self._private = setting.mechanism != "none" and kind != "zero" and setting.problem.records > 0
        if setting.mechanism != "none":
            self._check_private()
        self._lambda = own.anchor_regularisation / max(1, setting.problem.records)
        self._scale = own.anchor_scale

    def _check_private(self) -> None:
        kind, family = self._kind, self._setting.mechanism
        if kind == "local":
            raise SettingError(
                'learning.anchor = "local": unprotected local models would be released in a private run; '
                f"accepted are {', '.join(PROTECTED)}"
            )
        if kind not in MINIMISERS:
            return
        if family not in ("gaussian", "gamma-norm"):
            raise SettingError(f'privacy.mechanism = "{family}": the anchor {kind} accepts gaussian, gamma-norm')
        judge, clip = self._problem.loss, float(self._setting.clip or math.nan)
        if not math.isfinite(judge.slope_bound):
            raise SettingError(f'learning.loss = "{judge.name}": its gradients are unbounded, so no {kind} protects it')
        row_bound = self.row_bound
        if longer_row(self._problem, row_bound):
            # How long the row is stays with the agent.
            raise SettingError(
                f"privacy.clip = {clip:g}: a row is longer than {row_bound:g}, and exact minimisers cannot clip; "
                "scale the rows, or raise the clip"
            )

    @property
    def row_bound(self) -> float:
        """How long a row may be: exact minimisers cannot clip."""
        return float(self._setting.clip or math.nan) / self._problem.loss.slope_bound

    @staticmethod
    def calibrate(
        mechanism: str, epsilon: float, delta: float, own: AnchorSettings, learning: Mapping[str, Any]
    ) -> FloatArray | None:
        """Objective perturbation with gamma-norm noise is pure: it gets all of epsilon, whatever delta.

        With Gaussian noise its multiplier is that of the bound for one release; ``learning`` then needs ``loss`` and
        ``clip``. None: as for any single release. Raises `SettingError` where that bound cannot be kept.
        """
        if own.anchor != "objective-perturbation":
            return None
        if mechanism != "gaussian":
            return np.array([1.0 / (epsilon * (1.0 - 1e-9))])
        regularisation, bounds = own.anchor_regularisation, _Bounds.of(learning)
        jacobian = _jacobian(losses.loss(bounds.loss), bounds.clip, regularisation)
        try:
            deviation = gaussian_objective_deviation(epsilon * (1.0 - 1e-9), delta, 1.0, jacobian)
        except ObjectivePerturbationError:
            least = regularisation * math.expm1(jacobian) / math.expm1(epsilon)
            raise SettingError(
                f"learning.anchor_regularisation = {regularisation:g}: the objective's curvature alone loses epsilon "
                f"{jacobian:.4g} of privacy.epsilon = {epsilon:g}; accepted: above {least:.4g}"
            ) from None
        return np.array([deviation])

    def charge(self) -> Mechanism | None:
        """What the anchor costs; None if nothing of the data is in it, or nothing protects it."""
        if not self._private:
            return None
        if self._kind == "objective-perturbation":
            return self.perturbation()[1]
        setting, records = self._setting, self._problem.records
        clip = float(setting.clip or math.nan)
        if self._kind == "gradient":
            norm = NORMS[setting.mechanism]
            moved = PublicModelSensitivity(self._problem.loss, clip, norm, setting.row_bound).at(self._zero)
            exact = self._scale * moved / records
        else:
            exact = (clip / records + SOLVED) / self._lambda  # the solver's own error moves it too
        return mechanism(setting.mechanism, exact, float(setting.multipliers[0]), setting.dimension)

    @property
    def _zero(self) -> FloatArray:
        return np.zeros(self._setting.dimension)

    def vector(self, charge: Mechanism | None) -> FloatArray:
        """The anchor, shape (p,): the vector of release 0, which costs ``charge``."""
        setting, problem = self._setting, self._problem
        if self._kind == "zero" or problem.records == 0:
            return np.zeros(setting.dimension)
        if self._kind == "local":
            return problem.minimiser()
        if self._kind == "objective-perturbation":
            return self._perturbed_minimiser()
        if self._kind == "output-perturbation":
            exact = self._minimise(2.0 * self._lambda, np.zeros(setting.dimension))
        else:
            zero, norm = self._zero, NORMS.get(setting.mechanism)
            clip = float(setting.clip or math.nan)
            plain = replace(problem, regularisation=0.0)
            exact = -self._scale * (plain.gradient(zero) if norm is None else plain.clipped_gradient(zero, clip, norm))
        return exact if charge is None else charge.perturb(exact, setting.stream(0))

    def _minimise(self, curvature: float, linear: FloatArray) -> FloatArray:
        """argmin 1/m sum_k loss + curvature/2 |theta|^2 + linear . theta, to a gradient norm of `SOLVED`.

        The number of steps is fixed in a private run, so that time shows nothing of the records.
        """
        solver = LocalSolver(self._problem, 1.0)
        steps = FIXED_STEPS if self._private else None
        return solver.minimise(curvature, linear, np.zeros(self._setting.dimension), steps)

    def perturbation(self) -> tuple[float, ObjectivePerturbation]:
        """The quadratic's curvature, and the mechanism, of the one release.

        With gamma-norm noise it is pure 1 / multiplier; with Gaussian noise its deviation is multiplier sensitivities.
        """
        judge, records = self._problem.loss, self._problem.records
        clip = float(self._setting.clip or math.nan)
        if self._setting.mechanism == "gaussian":
            moved = 2.0 * clip / records
            jacobian = _jacobian(judge, clip, self._lambda * records)
            scale = float(self._setting.multipliers[0]) * moved
            return 2.0 * self._lambda, GaussianObjectivePerturbation(moved, scale, jacobian, self._setting.dimension)
        extra, mechanism = penalised(
            2.0 * clip / records,
            1.0 / float(self._setting.multipliers[0]),
            judge.curvature_bound * self.row_bound**2 / records,
            2.0 * self._lambda,
            self._setting.dimension,
        )
        return 2.0 * self._lambda + extra, mechanism

    def _perturbed_minimiser(self) -> FloatArray:
        if not self._private:
            return self._minimise(2.0 * self._lambda, np.zeros(self._setting.dimension))
        curvature, perturbation = self.perturbation()
        noise = perturbation.noise(self._setting.dimension, self._setting.stream(0))
        exact = self._minimise(curvature, noise)
        rounded: FloatArray = np.rint(boxed(exact) / GRID) * GRID + 0.0  # post-processing
        return rounded


def _jacobian(judge: losses.Loss, clip: float, regularisation: float) -> float:
    """ln(1 + c1 R^2/k) with k = 2 lambda m = 2 ``regularisation``, whatever m is."""
    return jacobian_loss(judge.curvature_bound, clip / judge.slope_bound, 2.0 * regularisation)
