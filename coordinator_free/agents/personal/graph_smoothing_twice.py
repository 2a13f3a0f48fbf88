"""Graph smoothing in two rounds, for the squared loss.

Round 1 releases  G_i = mean_k clip(y_k x_k) + noise, with sensitivity 2 clip / m_i in L2. From all G_j any receiver
forms a preliminary model A_i of each agent. Round 2 releases the mean of clip_2((y_k - x_k . A_i) x_k) plus noise, with
sensitivity 2 clip_2 / m_i: what A_i leaves unexplained is small, so it needs less of a clip and so less noise. Each
round gets half of the budget, mu / sqrt(2). A_i is released along with round 2, being post-processing.

With S, what is publicly known of the mean of x x^T, G_i and S A_i plus round 2 both observe S theta_i; they are
combined by their precision and smoothed in the eigenbasis of S, where the coordinates differ in size (prior
"per-coordinate").

Rules that hold here:
- The second release is made at a fixed index, half of the updates, from what is known by then: nothing waits.
- Only releases 0 and updates // 2 hold anything of the data; all others pass on what was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.graph_smoothing import NOTHING, GraphSmoothing
from coordinator_free.agents.personal.large_smoothing import Posterior, smoothed
from coordinator_free.agents.personal.smoothing import AtAgent
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.problem.losses import Squared
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.own_part import Received, own_part
from coordinator_free.release import FloatArray
from coordinator_free.settings import PARAMETER, Positive, SettingError, Settings
from topology.network import Network, from_edges


@dataclass(frozen=True, kw_only=True)
class GraphSmoothingTwiceSettings(Settings):
    """Of graph smoothing in two rounds."""

    finish_mu: Positive | None = None
    """Weight of the own loss in the free finish. Default: evidence of the agent's own records weighs it."""
    prior: Literal["shared", "per-coordinate"] = field(default="per-coordinate", metadata=PARAMETER)
    """Whether all coordinates have one gamma."""
    clip_2: Positive | None = field(default=None, metadata=PARAMETER)
    """The clip of the second round. Default: half of ``privacy.clip``."""


@dataclass(frozen=True, kw_only=True)
class _Moment(Settings):
    """What `GraphSmoothingTwice.arranged` gives every agent besides the graph."""

    second_moment: Sequence[Sequence[float]] | None = None
    """S: what is publicly known of the mean of x x^T."""


class GraphSmoothingTwice(GraphSmoothing):
    """One agent of graph smoothing in two rounds.

    A release's vector has 2 p + 2 numbers: the origin (plus the number of agents in round 2), the deviation of its
    noise and sampling, the origin's released vector, and A_i (round 1: zeros).
    """

    name: ClassVar[str] = "graph-smoothing-2r"
    settings: ClassVar[type[Settings] | None] = GraphSmoothingTwiceSettings
    allocates: ClassVar[bool] = True
    finish_weight: ClassVar[str | None] = "finish_mu"
    finishes_by_evidence: ClassVar[bool] = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        if not isinstance(setting.problem.loss, Squared):
            raise SettingError(f'learning.loss = "{setting.problem.loss.name}": {self.name} accepts squared')
        own = GraphSmoothingTwiceSettings.of(setting.learning)
        self._prior, self._finish_mu = own.prior, own.finish_mu
        self._clip_1 = setting.clip
        self._clip_2 = own.clip_2 or (None if setting.clip is None else setting.clip / 2.0)
        self._moment = np.array(_Moment.of(setting.learning).second_moment, dtype=np.float64)
        self._sampling = float(np.trace(self._moment)) / setting.dimension
        self._origins = 2 * self._agents

    @staticmethod
    def charged(updates: int) -> int:
        """How many releases are charged: the two that each agent makes of its data."""
        return min(updates, 2)

    @staticmethod
    def release_dimension(dimension: int) -> int:
        """The length of a release's vector for models of that dimension."""
        return 2 * dimension + 2

    @classmethod
    def arranged(
        cls, network: Network, sizes: Sequence[int], dimension: int, updates: int, learning: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Public parameters that every agent is given: the whole graph, and S."""
        moment = _Moment.of(learning).second_moment
        if moment is None:
            raise SettingError(f"learning.algorithm = {cls.name!r}: the data has no publicly known mean of x x^T")
        found = super().arranged(network, sizes, dimension, updates, learning)
        found["learning"]["second_moment"] = moment
        return found

    @property
    def _second(self) -> int:
        """Index of the second release."""
        return max(1, self._setting.updates // 2)

    def charge(self, index: int) -> Mechanism | None:
        setting = self._setting
        if setting.mechanism == "none" or setting.problem.records == 0 or index >= setting.updates:
            return None
        if index not in (0, self._second):
            return None
        turn, clip = (0, self._clip_1) if index == 0 else (1, self._clip_2)
        sensitivity = 2.0 * float(clip or np.nan) / setting.problem.records
        return mechanism(setting.mechanism, sensitivity, float(setting.multipliers[turn]), setting.dimension)

    def _observed(self, index: int, model: FloatArray, clip: float | None) -> FloatArray:
        """The release of index 0 or ``_second``: deviation, noised mean, ``model``."""
        setting, charge = self._setting, self.charge(index)
        if setting.problem.records == 0:
            return np.concatenate((np.zeros(setting.dimension + 1), model))
        # The gradient of (x . theta - y)^2 is 2 (x . theta - y) x; the regulariser is left out.
        plain = replace(setting.problem, regularisation=0.0)
        mean = -0.5 * (plain.gradient(model) if clip is None else plain.clipped_gradient(model, 2.0 * clip, "l2"))
        noise = 0.0
        if charge is not None:
            mean = charge.perturb(mean, setting.stream(index))
            noise = charge.scale**2
        variance = noise + self._sampling / setting.problem.records
        deviation = np.ceil(np.sqrt(variance) / GRID) * GRID
        return np.concatenate(([deviation], mean, model))

    def _own(self) -> FloatArray:
        first = self._observed(0, np.zeros(self._setting.dimension), self._clip_1)
        return np.concatenate(([self._setting.agent], first))

    def _origin(self) -> int:
        mine, again = self._setting.agent, self._setting.agent + self._agents
        if self._next == self._second and again not in self._known:
            model = np.rint(self._estimates().with_own / GRID) * GRID + 0.0
            self._known[again] = np.concatenate(([again], self._observed(self._next, model, self._clip_2)))
            return again
        if mine not in self._known:
            self._known[mine] = self._own()
        if self._next > 0 and self._ahead:
            # What belongs to round 2 goes first: only its deadline is still ahead.
            latest = max(self._ahead, key=lambda origin: origin >= self._agents)
            self._ahead.remove(latest)
            return latest
        return again if again in self._known else mine

    def _estimates(self) -> AtAgent:
        """Mean and variance of the own model by the others' releases, and its mean by all releases."""
        setting, n = self._setting, self._agents
        silent = np.zeros(2 * setting.dimension + 2)
        origins = sorted({origin % n for origin in self._known} | {setting.agent})
        first = np.stack([self._known.get(i, silent)[1:] for i in origins])
        second = np.stack([self._known.get(i + n, silent)[1:] for i in origins])
        found, sizes, basis = _estimated(
            np.array(self._numbers.edges, dtype=np.float64).tobytes(),
            n,
            tuple(origins),
            first.tobytes(),
            second.tobytes(),
            self._moment.tobytes(),
            self._prior,
        )
        own = found.at(origins.index(setting.agent))
        return AtAgent(
            mean=(own.mean / sizes) @ basis.T,
            variance=(own.variance / sizes**2) @ np.square(basis.T),
            with_own=(own.with_own / sizes) @ basis.T,
        )

    @property
    def model(self) -> FloatArray:
        """Once it has finished, what all releases show of its model; zero before."""
        return self._estimates().with_own if self.finished else np.zeros(self._setting.dimension)

    def finish(self) -> FloatArray | None:
        """argmin 1/2 |theta - mean|^2 + finish_mu c_i L_i(theta), ``mean`` by the others' releases; never released.

        Without ``finish_mu`` evidence weighs that mean (`coordinator_free.problem.own_part`).
        """
        if not self._numbers.finish:
            return None
        problem: LocalProblem = self._setting.problem
        if self._finish_mu is None:
            return own_part(problem, Received.unknown(self._estimates().mean))
        return problem.proximal(self._estimates().mean, self._finish_mu * self._setting.confidence)


@lru_cache(maxsize=2)
def _estimated(
    edges: bytes, agents: int, origins: tuple[int, ...], first: bytes, second: bytes, moment: bytes, prior: str
) -> tuple[Posterior, FloatArray, FloatArray]:
    """What is known of both rounds, smoothed in the eigenbasis of S, and the sizes and columns of that basis.

    It is remembered, because in the twin all agents ask for the same.
    """
    one = np.frombuffer(first).reshape(len(origins), -1)
    two = np.frombuffer(second).reshape(len(origins), -1)
    p = (one.shape[1] - 1) // 2
    sizes, basis = np.linalg.eigh(np.frombuffer(moment).reshape(p, p))
    sizes = np.maximum(sizes, 1e-9 * sizes[-1])
    observed_1 = one[:, 1 : p + 1] @ basis
    observed_2 = (two[:, p + 1 :] @ basis) * sizes + two[:, 1 : p + 1] @ basis
    precision_1, precision_2 = _precision(one[:, 0]), _precision(two[:, 0])
    variances = 1.0 / (precision_1 + precision_2)
    observed = variances[:, None] * (precision_1[:, None] * observed_1 + precision_2[:, None] * observed_2)
    network = from_edges(agents, np.frombuffer(edges).reshape(-1, 3).tolist())
    found = smoothed(network, np.array(origins), observed, variances, per_coordinate=prior == "per-coordinate")
    return found, sizes, basis


def _precision(deviations: FloatArray) -> FloatArray:
    precision: FloatArray = np.where(deviations > 0, deviations, NOTHING) ** -2.0
    return precision
