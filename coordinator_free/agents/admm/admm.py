"""Consensus by ADMM in synchronous rounds: Algorithm 1 of Zhang and Zhu (2017), and what its private kin share.

    f_i(t+1)      = argmin  C/m_i sum_k loss(f . x_k, y_k) + rho_i/2 |f|^2 + 2 lambda_i(t) . f
                            + eta sum_j |f - (V_i(t) + V_j(t))/2|^2                                       (Eq. 11)
    V_i(t+1)      = what the agent releases: f_i(t+1), or a noisy version of it
    lambda_i(t+1) = lambda_i(t) + theta/2 sum_j (V_i(t+1) - V_j(t+1))                                     (Eq. 10)

The papers' C is the `capacity`, eta the `penalty`, the dual step theta equals eta unless given. rho_i is ``rho``
("per-node", Zhang and Zhu) or ``rho`` / agents ("shared", Zhang, Khalili and Liu 2018). The regulariser may add to
rho_i/2 |f|^2 (``regulariser_form``); proofs of privacy use the strong convexity of the square alone.

Rules that hold here:
- What everything starts from is public (`coordinator_free.agents.admm.settings`): the first release (index 0, round 0)
  is already the first minimiser. A neighbour that has released nothing yet stands at its start.
- Duals come from released values only, the agent's own included. So does the start of the solver.
- Agreement needs both ends of an edge to take the same dual step. Where a neighbour released nothing in a round, or
  this agent was carried past one, the edge's step is left out; ``used`` shows it, and the other end takes its own back.
- In a private run what neighbours sent, and the dual made of it, are projected onto public boxes before they are used:
  beside larger numbers the noise would lose its digits, and the solver its end.
- A receiver jumps: the next release's round follows the newest round received, its index follows the agent's last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from coordinator_free.agent import Activation, Setting
from coordinator_free.agents.admm.settings import AdmmSettings, start_of
from coordinator_free.agents.checks import longer_row
from coordinator_free.algorithm import Algorithm, Attack
from coordinator_free.inbox import used
from coordinator_free.privacy.mechanism import GRID, Mechanism, boxed
from coordinator_free.problem.own_part import Received, around
from coordinator_free.problem.regularisers import Beyond, beyond_square
from coordinator_free.problem.solver import BENT_STEPS, FIXED_STEPS, LocalSolver
from coordinator_free.release import FloatArray, Release
from coordinator_free.settings import AgentNumbers, SettingError, Settings

if TYPE_CHECKING:
    from topology.network import Network

LARGEST_PENALTY = 1e12
"""Beyond it nothing of the records is left in float64."""


REACH = 2.0**16
"""How far received values reach in a private round: what enters the solver then resolves 2^-15 of the grid's step."""


class AdmmError(SettingError):
    """A setting that the ADMM family cannot run with."""


class Admm(Algorithm):
    """One agent of conventional ADMM, which has no privacy, and the frame of its private kin."""

    name: ClassVar[str] = "admm"
    settings: ClassVar[type[Settings] | None] = AdmmSettings
    uses_smoothness: ClassVar[bool] = False
    activation: ClassVar[Activation] = Activation.ROUNDS
    needs_convex_loss: ClassVar[bool] = True
    finish_weight: ClassVar[str | None] = "kappa"
    finishes_by_evidence: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[str, ...]] = ()
    carries_on: ClassVar[bool] = True
    releases_its_model: ClassVar[bool] = True
    attacked_by: ClassVar[Attack] = Attack.MINIMISERS
    varying_penalty: ClassVar[bool] = False
    """Whether the penalty may change from round to round and differ from the dual step."""

    beyond: Beyond
    """What the regulariser adds to rho_i/2 |f|^2; no record touches it."""
    _own: FloatArray
    """V_i, the agent's last release."""
    _others: FloatArray
    """V_j, shape (neighbours, d)."""
    _dual: FloatArray
    """lambda_i."""
    _received: npt.NDArray[np.int64]
    """The newest round received from each neighbour; -1: none."""
    _received_index: npt.NDArray[np.int64]
    """The index of that release."""
    _edge_steps: FloatArray
    """The last dual step along each edge, shape (neighbours, d)."""
    _stepped: npt.NDArray[np.int64]
    """The own index of that step, until the neighbour's next release tells whether it took it too; -1: none."""
    _counted: npt.NDArray[np.int64]
    """The newest round of each neighbour that the time average holds."""
    _sum: FloatArray
    _count: int
    _round: int
    _next: int
    _own_last: int | None
    _consumed: list[Release]

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._problem = setting.problem
        self._private = setting.mechanism != "none" and setting.problem.records > 0
        if not self._problem.loss.convex:
            raise AdmmError(
                f'learning.loss = "{self._problem.loss.name}": {self.name} needs exact minimisers, and so a convex loss'
            )
        if self._problem.loss.has_own_penalty:
            raise AdmmError(
                f'learning.loss = "{self._problem.loss.name}": its own regulariser would change nothing, because '
                f"{self.name} has rho and learning.regulariser_form; accepted are losses without one"
            )
        own, self._numbers = AdmmSettings.of(setting.learning), AgentNumbers.of(setting.learning)
        self._capacity, self._kappa = own.capacity, own.kappa
        self._rho = own.rho / self._sharers(own)
        self._penalties = self._schedule(own)
        self._theta = own.theta or float(self._penalties[0])
        if not self.varying_penalty and not (self._penalties == self._theta).all():
            raise AdmmError(f"learning.theta = {self._theta:g}: {self.name} needs it equal to a constant penalty")
        if setting.mechanism != "none":
            self._check_private()
        self.beyond = beyond_square(own.regulariser_form, self._rho)
        self._solver = LocalSolver(setting.problem, self._capacity, self.beyond)
        self._guarded = setting.mechanism != "none"
        fixed = BENT_STEPS if self.beyond.bends else FIXED_STEPS
        self._steps = fixed if self._guarded else None
        self._place = {j: k for k, j in enumerate(setting.neighbours)}
        self._start = own.start
        self._reset(0)

    # -- what differs between the algorithms ----------------------------------------------------------------------

    @classmethod
    def foresee(cls, learning: Mapping[str, Any], updates: int, network: Network) -> tuple[str, ...]:
        """What theory warns of before a run with these settings in every agent; raises `AdmmError`."""
        from coordinator_free.problem.losses import LOGISTIC
        from coordinator_free.problem.objective import LocalProblem
        from coordinator_free.theory.admm_convergence import conditions

        nothing = LocalProblem(np.empty((0, 1)), np.empty(0), LOGISTIC, 0.0)
        own = {**learning, "agents": network.agents}
        agents = [
            cls(Setting(i, network.neighbours(i), network.weights_of(i), nothing, 1, updates, own))
            for i in range(network.agents)
        ]
        penalties = np.stack([agent._penalties for agent in agents])
        return conditions(network, penalties, agents[0]._theta, agents[0]._rho).warnings

    def _anchor(self) -> FloatArray:
        """The agent's own value in the penalty term: its last release."""
        return self._own

    def _next_release(self, index: int) -> FloatArray:
        """Minimise, and make public."""
        return self._minimise(index, self._linear(index))

    def charge(self, index: int) -> Mechanism | None:  # noqa: ARG002
        """What release ``index`` costs, from public numbers."""
        return None

    # -- one round ------------------------------------------------------------------------------------------------

    def curvature(self, index: int) -> float:
        """w = rho_i + 2 eta N_i: the curvature of round ``index`` that no record touches."""
        return self._rho + 2.0 * float(self._penalties[index]) * len(self._place)

    @property
    def capacity(self) -> float:
        """The papers' C."""
        return self._capacity

    @property
    def schedule(self) -> tuple[FloatArray, float, float]:
        """The penalty of each round (updates,), the dual step, and the agent's own rho."""
        return self._penalties, self._theta, self._rho

    def _linear(self, index: int) -> FloatArray:
        """b = 2 lambda - eta sum_j (V_i + V_j)."""
        total: FloatArray = len(self._place) * self._anchor() + self._others.sum(axis=0)
        total *= -self._penalties[index]
        total += 2.0 * self._dual
        return total

    def _minimise(self, index: int, linear: FloatArray, extra: float = 0.0) -> FloatArray:
        return self._solver.minimise(self.curvature(index) + extra, linear, self._own, self._steps)

    def _dual_step(self) -> None:
        together = self._received == self._round
        if together.any():
            count = int(np.count_nonzero(together))
            self._dual += (0.5 * self._theta) * (count * self._own - self._others[together].sum(axis=0))
            self._edge_steps[together] = (0.5 * self._theta) * (self._own - self._others[together])
            self._stepped[together] = -1 if self._own_last is None else self._own_last
        self._average_in()
        self._guard_dual()

    def _guard_dual(self) -> None:
        """Keep 2 |lambda| / w within `REACH`, w the curvature of the next round."""
        if self._guarded:
            self._dual = boxed(self._dual, 0.5 * REACH * self.curvature(self._next))

    def _take_back(self, place: int, release: Release) -> None:
        """Undo the edge's last step if the neighbour, as its next release shows, did not take it."""
        index, self._stepped[place] = int(self._stepped[place]), -1
        follows = release.index == self._received_index[place] + 1
        if index >= 0 and follows and (self._setting.agent, index) not in release.used:
            self._dual -= self._edge_steps[place]

    def _average_in(self) -> None:
        """Add what was received since the last call to the time average, own release included."""
        fresh = self._received > self._counted
        self._sum += self._others[fresh].sum(axis=0)
        self._count += int(np.count_nonzero(fresh))
        self._counted[fresh] = self._received[fresh]

    def _release(self, round_: int) -> Release:
        index = self._next
        vector = self._next_release(index)
        release = Release(
            sender=self._setting.agent,
            index=index,
            vector=vector,
            used=used(self._consumed, self._setting.agent, self._own_last),
            round=round_,
        )
        self._own, self._round, self._own_last, self._next = vector, round_, index, index + 1
        self._sum = self._sum + vector
        self._count += 1
        self._consumed.clear()
        return release

    # -- the agent's interface ------------------------------------------------------------------------------------

    def start(self) -> Release | None:
        if self._next > 0 or self.finished:
            return None
        return self._release(0)

    def receive(self, release: Release) -> None:
        place = self._place[release.sender]
        if release.round is None or release.round <= self._received[place]:
            return
        self._take_back(place, release)
        self._others[place] = boxed(release.vector, REACH) if self._guarded else release.vector
        self._received[place] = release.round
        self._received_index[place] = release.index
        self._consumed.append(release)

    def wake(self) -> Release | None:
        if self.finished:
            return None
        self._dual_step()
        newest = int(self._received.max(initial=-1))
        return self._release(max(self._round, newest) + 1)

    @property
    def finished(self) -> bool:
        return self._next >= self._setting.updates or self._round + 1 >= self._setting.updates

    @property
    def model(self) -> FloatArray:
        return self._own

    def time_average(self) -> FloatArray:
        """The mean of all that the agent released and received, over rounds: post-processing, so it costs nothing."""
        fresh = self._received > self._counted
        total: FloatArray = self._sum + self._others[fresh].sum(axis=0)
        return total / max(1, self._count + int(np.count_nonzero(fresh)))

    def finish(self) -> FloatArray | None:
        """argmin  mean loss + kappa/2 |f - c|^2 around the time average c, with the agent's real data.

        Without ``kappa`` evidence weighs the average (`coordinator_free.problem.own_part`).
        """
        centre = Received.unknown(self.time_average())
        return around(self._problem, centre, self._kappa) if self._numbers.finish else None

    def snapshot(self) -> dict[str, FloatArray]:
        own_last = -1 if self._own_last is None else self._own_last
        return {
            "own": self._own,
            "others": self._others.copy(),
            "dual": self._dual.copy(),
            "heard": self._received.astype(np.float64),
            "heard_index": self._received_index.astype(np.float64),
            "edge_steps": self._edge_steps.copy(),
            "stepped": self._stepped.astype(np.float64),
            "counted": self._counted.astype(np.float64),
            "sum": self._sum,
            "counters": np.array([own_last, self._round, self._count], dtype=np.float64),
        }

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        self._reset(next_index)
        if not state:
            return
        self._own = np.array(state["own"])
        self._others = np.array(state["others"]).reshape(self._others.shape)
        self._dual = np.array(state["dual"])
        self._received = np.array(state["heard"]).astype(np.int64)
        self._received_index = np.array(state["heard_index"]).astype(np.int64)
        self._edge_steps = np.array(state["edge_steps"]).reshape(self._edge_steps.shape)
        self._stepped = np.array(state["stepped"]).astype(np.int64)
        self._counted = np.array(state["counted"]).astype(np.int64)
        self._sum = np.array(state["sum"])
        own_last, self._round, self._count = (int(number) for number in state["counters"])
        self._own_last = own_last if own_last >= 0 else None

    def _reset(self, next_index: int) -> None:
        neighbours, dimension = len(self._place), self._setting.dimension
        self._own = start_of(self._start, self._numbers.seed, self._setting.agent, dimension)
        self._others = np.zeros((neighbours, dimension))
        for j, place in self._place.items():
            self._others[place] = start_of(self._start, self._numbers.seed, j, dimension)
        self._dual = np.zeros(dimension)
        self._received = np.full(neighbours, -1, dtype=np.int64)
        self._received_index = np.full(neighbours, -1, dtype=np.int64)
        self._edge_steps = np.zeros((neighbours, dimension))
        self._stepped = np.full(neighbours, -1, dtype=np.int64)
        self._counted = np.full(neighbours, -1, dtype=np.int64)
        self._sum = np.zeros(dimension)
        self._count = 0
        self._round = -1
        self._own_last = None
        self._next = next_index
        self._consumed = []

    # -- settings -------------------------------------------------------------------------------------------------

    def _sharers(self, own: AdmmSettings) -> int:
        agents = self._numbers.agents if own.regulariser == "shared" else 1
        if agents < 1:
            raise AdmmError('learning.regulariser = "shared": needs the number of agents')
        return agents

    def _schedule(self, own: AdmmSettings) -> FloatArray:
        """eta of each index, shape (updates,)."""
        updates = self._setting.updates
        if own.penalties is not None:
            penalties = np.array(own.penalties, dtype=np.float64)
            if penalties.shape != (updates,) or not (np.isfinite(penalties).all() and (penalties > 0).all()):
                raise AdmmError(f"learning.penalties: needs {updates} finite numbers > 0, one a round")
        elif own.penalty is None:
            raise AdmmError(f"learning.penalty is missing: {self.name} needs a finite number > 0")
        else:
            with np.errstate(over="ignore"):
                penalties = own.penalty * own.penalty_growth ** np.arange(updates, dtype=np.float64)
        if not (penalties <= LARGEST_PENALTY).all():
            first = int(np.argmax(~(penalties <= LARGEST_PENALTY)))
            raise AdmmError(
                f"learning.penalty_growth: the penalty passes {LARGEST_PENALTY:g} in round {first} of {updates}; "
                "take fewer rounds or a growth closer to 1"
            )
        if not self.varying_penalty and not (penalties == penalties[0]).all():
            raise AdmmError(
                f"learning.penalty_growth: {self.name} has a constant penalty; m-admm, pvp and pp may vary it"
            )
        return penalties

    # -- privacy --------------------------------------------------------------------------------------------------

    def _check_private(self) -> None:
        """What every private member of the family needs: bounded record gradients, exactly as the charge says."""
        setting = self._setting
        if setting.mechanism not in self.mechanisms:
            known = ", ".join(self.mechanisms) or 'only "none"; pvp, dvp and pp are private'
            raise AdmmError(f'privacy.mechanism = "{setting.mechanism}": {self.name} accepts {known}')
        loss = self._problem.loss
        if not math.isfinite(loss.slope_bound):
            raise AdmmError(f'learning.loss = "{loss.name}": its gradients are unbounded, so {self.name} has no noise')
        if len(setting.multipliers) < setting.updates:
            raise AdmmError(f"{len(setting.multipliers)} noise multipliers for {setting.updates} rounds")
        bound = self.row_bound
        if longer_row(self._problem, bound):
            # How long the row is stays with the agent.
            raise AdmmError(
                f"privacy.clip = {loss.slope_bound * bound:g}: a row is longer than {bound:g}; {self.name} releases "
                "exact minimisers, which cannot clip: scale the rows, or raise the bound"
            )

    @property
    def row_bound(self) -> float:
        """Public bound R of the rows' L2 norm: ``clip`` (default 1) bounds the record gradients, slope times row."""
        clip = 1.0 if self._setting.clip is None else self._setting.clip
        bound, public = clip / self._problem.loss.slope_bound, self._setting.row_bound
        return bound if public is None else min(bound, public)

    def _gradient_shift(self) -> float:
        """2 C L / m: how far C times the mean gradient moves when one record is replaced."""
        lipschitz = self._problem.loss.slope_bound * self.row_bound
        return 2.0 * self._capacity * lipschitz / self._problem.records

    def _on_grid(self, vector: FloatArray) -> FloatArray:
        """Rounded to the public grid within its box: post-processing, which also hides how exact the solver was."""
        rounded: FloatArray = np.rint(boxed(vector) / GRID) * GRID + 0.0
        return rounded
