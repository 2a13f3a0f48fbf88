"""What an agent of the ADMM family minimised in each round, from recorded releases.

    J(f) = C/m sum_k loss(f . x_k, y_k) + w/2 |f|^2 + b . f  (+ what the regulariser adds to the square)

An observer of the run knows w and b: they come from released values alone.

Rules that hold here:
- The agent is the real one, observed: where it minimises, it notes w and b; where it releases, it gives the recorded
  release.
- Noise that enters the objective is left out of b: an observer does not have it.
- Where an algorithm never releases its minimiser, its release stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm
from coordinator_free.attacks.inversion import Follower, Heard
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.regularisers import Beyond
from coordinator_free.release import FloatArray, Release


@dataclass(frozen=True, eq=False)
class Objective:
    """A release and the objective it comes from: J's ``curvature`` w and ``linear`` b (d,).

    ``beyond``: what the regulariser adds to the square.
    """

    release: Release
    curvature: float
    linear: FloatArray
    beyond: Beyond

    def pull(self, f: FloatArray) -> FloatArray:
        """The gradient of J without its records at each f (..., d)."""
        pull: FloatArray = self.curvature * f + self.linear + self.beyond.slope(f)
        return pull

    def remainder(self, problem: LocalProblem, capacity: float, released: FloatArray | None = None) -> FloatArray:
        """-grad J at each f (..., d), by default the recorded release.

        Zero at J's minimiser; where noise is in the objective, that noise.
        """
        f = self.release.vector if released is None else released
        slopes = problem.loss.slope(f @ problem.x.T, problem.y)
        left: FloatArray = -((capacity / problem.records) * (slopes @ problem.x) + self.pull(f))
        return left


class _Silent:
    """A mechanism whose noise is left out."""

    def __init__(self, mechanism: Any) -> None:
        self._mechanism = mechanism

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mechanism, name)

    def noise(self, dimension: int, stream: Stream) -> FloatArray:  # noqa: ARG002
        return np.zeros(dimension)


@dataclass(frozen=True, eq=False)
class Terms:
    """The same objective without its penalty: w = ``rest`` + 2 eta ``degree``, b = ``dual`` - eta ``towards``.

    ``dual`` is 2 lambda, and ``towards`` the sum of N times the agent's and of its neighbours' releases, both (d,).
    ``beyond`` as in `Objective`.
    """

    release: Release
    rest: float
    degree: int
    dual: FloatArray
    towards: FloatArray
    beyond: Beyond

    def known(self, f: FloatArray) -> FloatArray:
        """The gradient at each f (..., d) of what neither a record nor the penalty touches."""
        known: FloatArray = self.rest * f + self.dual + self.beyond.slope(f)
        return known


def observe(algorithm: type[Admm], setting: Setting, recorded: Sequence[Release], heard: Heard) -> list[Objective]:
    """Lead the agent along its recorded releases and note each round's objective. Raises `InversionError`."""
    watched, beyond = _watched(algorithm, setting, recorded, heard)
    return [Objective(release, *seen[:2], beyond) for release, seen in watched]


def observe_terms(algorithm: type[Admm], setting: Setting, recorded: Sequence[Release], heard: Heard) -> list[Terms]:
    """What an observer that knows the dual step, but no penalty, knows of each round's objective."""
    watched, beyond = _watched(algorithm, setting, recorded, heard)
    return [
        Terms(release, rest, len(setting.neighbours), dual, towards, beyond)
        for release, (_, _, rest, dual, towards) in watched
    ]


_Seen = tuple[float, FloatArray, float, FloatArray, FloatArray]


def _watched(
    algorithm: type[Admm], setting: Setting, recorded: Sequence[Release], heard: Heard
) -> tuple[list[tuple[Release, _Seen]], Beyond]:
    class Observed(algorithm):  # type: ignore[misc, valid-type]
        answer: FloatArray
        seen: _Seen

        def _next_release(self, index: int) -> FloatArray:
            super()._next_release(index)
            return self.answer

        def _perturbation(self, index: int) -> tuple[float, Any]:
            phi, mechanism = super()._perturbation(index)
            return phi, _Silent(mechanism)

        def _minimise(self, index: int, linear: FloatArray, extra: float = 0.0) -> FloatArray:
            towards = len(self._place) * self._anchor() + self._others.sum(axis=0)
            rest = self._rho + extra
            self.seen = self.curvature(index) + extra, linear, rest, 2.0 * self._dual, towards
            return self.answer

    agent = Observed(setting)
    follower = Follower(agent)
    seen = []
    for release in recorded:
        agent.answer = release.vector
        follower.step(release, heard)
        seen.append((release, agent.seen))
    return seen, agent.beyond
