"""Profiles: one noisy vector of each agent, released before a run, from which the graph of the run is made.

A profile is minus the mean clipped record gradient at zero, plus noise: for the logistic loss it points where the
labels are, for the squared loss along the mean of y x. Agents whose models resemble each other have similar profiles.
Everything that is made of profiles, a graph among it, is post-processing and costs nothing more.

Rules that hold here:
- Neighbouring datasets differ in the value of one record. One record moves the exact vector by at most 2 clip / m_i in
  the mechanism's norm, or by less where rows have a public bound.
- The noise comes from a secret of its own, `coordinator_free.privacy.noise.profile_secret`.
- A profile is charged like a release, and takes its part of the budget from the releases that follow.

Source: Bellet et al. (2018), section 2.1, asks for weights that are computed in private and names no mechanism. This
one is the first step of a gradient descent with noise (Abadi et al. 2016), like the anchor of
`coordinator_free.agents.personal.anchors`.
"""

from __future__ import annotations

import math

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import profile_secret
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

_BELOW = 1.0 - 1e-9
"""What is left is rounded down, so that both parts together stay within the budget."""


def divided(family: str, epsilon: float, delta: float, share: float) -> tuple[float, float]:
    """Divide a budget between a profile and the releases of a run.

    Gaussian noise: 1/scale^2 adds up, so the profile gets ``share`` of that. Other noise: epsilons add up, and the
    profile, which is private with delta = 0, gets ``share`` of epsilon.

    Parameters
    ----------
    family
        The mechanism's name.
    epsilon, delta
        What the profile and all releases may cost together.
    share
        Between 0 and 1.

    Returns
    -------
    multiplier, epsilon
        The profile's noise scale in units of its sensitivity, and what is left for the releases at ``delta``.
    """
    if family != "gaussian":
        return 1.0 / (share * epsilon), (1.0 - share) * epsilon * _BELOW
    from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu

    whole = gaussian_mu(epsilon, delta)
    return 1.0 / (math.sqrt(share) * whole), gaussian_epsilon(math.sqrt(1.0 - share) * whole * _BELOW, delta)


class Profile:
    """One agent's profile.

    Parameters
    ----------
    problem
        Its records, p columns.
    mechanism, multiplier
        The family of the noise, and its scale in units of the sensitivity.
    clip
        The clipping norm of a record's gradient, in the mechanism's norm.
    row_bound
        Public bound of every row's norm; None where there is none.
    secret
        The agent's own.
    """

    def __init__(
        self,
        problem: LocalProblem,
        mechanism: str,
        multiplier: float,
        clip: float,
        row_bound: float | None,
        secret: bytes,
    ) -> None:
        setting = Setting(
            agent=0,
            neighbours=(),
            weights=np.empty(0),
            problem=problem,
            dimension=problem.dimension,
            updates=1,
            learning={},
            mechanism=mechanism,
            multipliers=np.array([multiplier]),
            clip=clip,
            row_bound=row_bound,
            secret=profile_secret(secret),
        )
        self._anchor = Anchor(setting, AnchorSettings(anchor="gradient"))

    @property
    def charge(self) -> Mechanism | None:
        """What it costs; None for an agent without records."""
        return self._anchor.charge()

    def vector(self) -> FloatArray:
        """The profile, shape (p,); zeros for an agent without records."""
        return self._anchor.vector(self.charge)

    def exact(self) -> FloatArray:
        """The vector without its noise, on the grid, shape (p,): private."""
        return self._anchor.vector(None)
