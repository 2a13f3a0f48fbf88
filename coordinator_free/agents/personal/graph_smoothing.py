"""Graph smoothing: one noisy release of each agent, flooded to all agents, then smoothed by any receiver.

Release 0 is minus the mean clipped record gradient at zero in units of the clip, plus noise: for the logistic loss and
short clips the mean of y x / |x|, whose sensitivity is 2 / m_i in L2. All later releases pass on what others released,
the same numbers, each once; an agent that has nothing to pass on releases its own again. So only release 0 is charged.

The smoothing (`coordinator_free.agents.personal.smoothing`) is post-processing that any receiver could do. The free
finish minimises the own loss under the prior that all other agents' releases make, and is not covered by epsilon.

Rules that hold here:
- No agent waits for another: after ``updates`` releases an agent is finished, and works with what it knows by then.
  With n agents, some more than n updates let every agent receive everything.
- The graph and each release's noise are public; an origin or a deviation that no agent can have is ignored.
- What an agent made of its data comes from that agent alone: no other agent's claim counts for its own releases. Where
  the run has keys of signatures (``signers``), a release counts only with the signature of its origin. Without them,
  of a neighbour's releases only what came from that neighbour counts.
- Of another agent's release that arrives in two forms neither is used or passed on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from coordinator_free.agent import Activation, Setting
from coordinator_free.agents.checks import checked
from coordinator_free.agents.personal import signatures
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.agents.personal.large_smoothing import Posterior, smoothed
from coordinator_free.algorithm import Algorithm
from coordinator_free.inbox import used
from coordinator_free.privacy.mechanism import GRID, LARGEST_SCALE, Mechanism
from coordinator_free.problem.scaled_prior import minimise_under
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import PARAMETER, AgentNumbers, Positive, SettingError, Settings
from topology.network import Network, from_edges

RELAYS = 2
"""Which rules an agent has for what others pass on, in runs that are dealt now; 1: whatever arrives first is taken."""
NORM = 4.0
"""The models' norm where nothing says more: with labels -1 and 1 and rows of norm 1, predictions of a few units."""
NOTHING = 1e3
"""Deviation of the release of an agent without records: its zeros weigh nothing."""


@dataclass(frozen=True, kw_only=True)
class GraphSmoothingSettings(Settings):
    """Of graph smoothing."""

    prior: Literal["per-coordinate", "shared"] = field(default="per-coordinate", metadata=PARAMETER)
    """Whether each coordinate has a gamma of its own, or all have one."""
    model_norm: Positive | None = field(default=None, metadata=PARAMETER)
    """The models' expected norm. Default: see `GraphSmoothing._in_units_of_models`."""


@dataclass(frozen=True, kw_only=True)
class GraphNumbers(AgentNumbers):
    """What `GraphSmoothing.arranged` gives every agent."""

    edges: Sequence[Sequence[float]]
    """The whole graph: two agents and a weight each."""
    relays: int = 1
    """The rules for what others pass on, see `RELAYS`."""
    signers: Sequence[str] = ()
    """The key in hexadecimal digits that checks each agent's signature; empty: releases are not signed."""


class GraphSmoothing(Algorithm):
    """One agent of graph smoothing.

    A release's vector has p + 2 numbers, all of a private release on the grid: the origin, the deviation of its noise
    and sampling in each coordinate (0: it has no records), and the origin's released vector. With ``signers`` the 16
    numbers of the origin's signature follow.
    """

    name: ClassVar[str] = "graph-smoothing"
    settings: ClassVar[type[Settings] | None] = GraphSmoothingSettings
    uses_smoothness: ClassVar[bool] = False
    allocates: ClassVar[bool] = False
    activation: ClassVar[Activation] = Activation.POISSON
    resumes: ClassVar[bool] = False
    needs_clip: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[str, ...]] = ("gaussian",)
    signs: ClassVar[bool] = True
    releases_models: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self._setting = checked(setting, self.charged(setting.updates))
        if setting.mechanism not in ("none", "gaussian"):
            raise SettingError(f'privacy.mechanism = "{setting.mechanism}": graph-smoothing accepts none and gaussian')
        own = GraphSmoothingSettings.of(setting.learning)
        self._prior = own.prior
        self._norm = own.model_norm or (NORM if self._step_of_descent() is None else None)
        self._numbers = GraphNumbers.of(setting.learning)
        self._agents = self._numbers.agents
        self._origins = self._agents
        self._signers = [bytes.fromhex(key) for key in self._numbers.signers]
        if self._signers and not signatures.available():
            raise SettingError(
                f"learning.algorithm = {self.name!r}: releases of this run are signed, which needs the package "
                "cryptography: pip install 'sottovoce[secure]'"
            )
        self._checks = self._numbers.relays >= RELAYS
        unit = 1.0 if setting.clip is None else 1.0 / setting.clip
        self._anchor = Anchor(setting, AnchorSettings(anchor="gradient", anchor_scale=unit))
        self._begin(0)

    @staticmethod
    def charged(updates: int) -> int:
        """How many releases are charged, the first ones."""
        return min(updates, 1)

    @staticmethod
    def release_dimension(dimension: int) -> int:
        """The length of a release's vector for models of that dimension."""
        return dimension + 2

    @classmethod
    def foresee(cls, learning: Mapping[str, Any], updates: int, network: Network) -> tuple[str, ...]:
        """Too few updates for the flood, and models whose scale nothing decides."""
        found = []
        if updates < network.agents:
            found.append(
                f"clock.updates = {updates}: a flood of {network.agents} agents' releases needs somewhat more than "
                f"{network.agents}, and what arrives too late is missing from some agents' view"
            )
        if not learning.get("finish") and learning.get("model_norm") is None and learning.get("loss") == "squared":
            found.append(
                "learning.finish = false: a release of graph smoothing shows the direction of a model, and its length "
                "only as far as no gradient is clipped; with learning.finish = true the agents' own records decide it"
            )
        return tuple(found)

    @classmethod
    def arranged(
        cls, network: Network, _sizes: Sequence[int], _dimension: int, _updates: int, _learning: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Public parameters that every agent is given: the whole graph."""
        return {
            "learning": {
                "agents": network.agents,
                "edges": [list(edge) for edge in network.edges],
                "relays": RELAYS,
            }
        }

    def _begin(self, next_index: int) -> None:
        self._known: dict[int, FloatArray] = {}
        self._signatures: dict[int, FloatArray] = {}
        self._disputed: set[int] = set()
        self._ahead: deque[int] = deque()
        self._next = next_index
        self._own_last: int | None = None
        self._consumed: list[Release] = []

    def _own(self) -> FloatArray:
        """The vector of release 0: all but the anchor is public."""
        setting, charge = self._setting, self.charge(0)
        deviation = 0.0
        if setting.problem.records > 0:
            noise = 0.0 if charge is None else charge.scale**2
            variance = noise + 1.0 / (setting.dimension * setting.problem.records)
            deviation = np.ceil(np.sqrt(variance) / GRID) * GRID
        return np.concatenate(([setting.agent, deviation], self._anchor.vector(charge)))

    def start(self) -> Release | None:
        return None

    def receive(self, release: Release) -> None:
        self._consumed.append(release)
        content, signed = self._parted(release.vector)
        origin, deviation = content[:2]
        if deviation != 0.0 and not GRID <= deviation <= LARGEST_SCALE:
            return
        if not 0 <= origin < self._origins or origin != int(origin) or not self._takes(int(origin), release):
            return
        if origin not in self._known:
            self._known[int(origin)] = content
            self._signatures[int(origin)] = signed
            self._ahead.append(int(origin))

    def _parted(self, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What a release's vector says, and its signature (empty where the run has none)."""
        end = len(vector) - (signatures.NUMBERS if self._signers else 0)
        return vector[:end], vector[end:]

    def noised(self, index: int, vector: FloatArray) -> FloatArray:  # noqa: ARG002
        return self._parted(vector)[0][2 : 2 + self._setting.dimension]

    def _takes(self, origin: int, release: Release) -> bool:
        """Whether this release counts for ``origin``; one that contradicts an earlier one makes both void."""
        if not self._checks:
            return origin != self._setting.agent
        author = origin % self._agents
        if author == self._setting.agent or origin in self._disputed:
            return False
        content, signed = self._parted(release.vector)
        known = self._known.get(origin)
        if known is not None and np.array_equal(known, content):
            return True
        if self._signers:
            if not signatures.is_signed(self._signers[author], self._setting.run, content, signed):
                return False
        elif author in self._setting.neighbours and author != release.sender:
            return False
        if known is None or author == release.sender:
            return True
        self._disputed.add(origin)
        del self._known[origin]
        self._ahead = deque(ahead for ahead in self._ahead if ahead != origin)
        return False

    def wake(self) -> Release | None:
        if self.finished:
            return None
        release = Release(
            sender=self._setting.agent,
            index=self._next,
            vector=self._passed_on(self._origin()),
            used=used(self._consumed, self._setting.agent, self._own_last),
        )
        self._own_last, self._next = self._next, self._next + 1
        self._consumed.clear()
        return release

    def _passed_on(self, origin: int) -> FloatArray:
        """What is known of ``origin``, with its signature where there are any."""
        content = self._known[origin]
        if not self._signers:
            return content
        if origin not in self._signatures:
            self._signatures[origin] = signatures.signature(self._setting.secret, self._setting.run, content)
        return np.concatenate((content, self._signatures[origin]))

    def _origin(self) -> int:
        """The origin of the next release."""
        mine = self._setting.agent
        if mine not in self._known:
            self._known[mine] = self._own()
        return self._ahead.popleft() if self._ahead and self._next > 0 else mine

    @property
    def finished(self) -> bool:
        return self._next >= self._setting.updates

    def _smoothed(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the own model, by all other agents' releases; each (p,)."""
        mine = self._setting.agent
        silent = np.concatenate(([mine], np.zeros(self._setting.dimension + 1)))
        known = {mine: silent, **self._known}
        origins = sorted(known)
        vectors = np.stack([known[i] for i in origins])
        edges = np.array(self._numbers.edges, dtype=np.float64)
        result = _smoothing(edges.tobytes(), self._agents, vectors.tobytes(), len(origins), self._prior)
        found, factor = result.at(origins.index(mine)), self._in_units_of_models(result)
        return factor * found.mean, factor**2 * found.variance

    def _step_of_descent(self) -> float | None:
        """1 / L in units of the clip, for a loss whose labels have a scale and rows with a public bound; else None."""
        setting, judge = self._setting, self._setting.problem.loss
        if math.isfinite(judge.slope_bound) or setting.row_bound is None or setting.clip is None:
            return None
        return setting.clip / (judge.curvature_bound * setting.row_bound**2)

    def _in_units_of_models(self, result: Posterior) -> float:
        """From the units of releases to those of models, by public numbers and releases alone.

        With ``model_norm`` the signal's expected norm becomes that. Otherwise, where labels have a scale, the smoothed
        gradient at zero becomes one step of gradient descent of length 1 / L, which is too short rather than too long.
        """
        step = self._step_of_descent()
        if self._norm is not None or step is None:
            return (self._norm or NORM) / float(np.sqrt(result.gammas.sum()))
        return step

    @property
    def model(self) -> FloatArray:
        """Once it has finished, what the others' releases show of its model; zero before."""
        return self._smoothed()[0] if self.finished else np.zeros(self._setting.dimension)

    def finish(self) -> FloatArray | None:
        """The own loss minimised, with the real data, under the prior that the others' releases make.

        With the squared loss the own records decide the scales of that prior: the releases show little of them.
        """
        if not self._numbers.finish:
            return None
        return minimise_under(self._setting.problem, *self._smoothed())

    def charge(self, index: int) -> Mechanism | None:
        return self._anchor.charge() if index < self.charged(self._setting.updates) else None

    def snapshot(self) -> dict[str, FloatArray]:
        return {}

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:  # noqa: ARG002
        self._begin(next_index)


@lru_cache(maxsize=1)
def _smoothing(edges: bytes, agents: int, known: bytes, count: int, prior: str) -> Posterior:
    """The smoothing of ``count`` known releases; remembered, because in the twin all agents ask for the same."""
    network = from_edges(agents, np.frombuffer(edges).reshape(-1, 3).tolist())
    vectors = np.frombuffer(known).reshape(count, -1)
    origins = vectors[:, 0].astype(np.intp)
    deviations = np.where(vectors[:, 1] > 0, vectors[:, 1], NOTHING)
    return smoothed(network, origins, vectors[:, 2:], deviations**2, per_coordinate=prior == "per-coordinate")
