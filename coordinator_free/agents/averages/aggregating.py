"""What agents that agree on weighted sums in rounds have in common (Kang, Liu and Wang, without their server).

A run is a sequence of *stages*. In each the agent contributes one vector; its aggregation (`learning.aggregation`)
spreads it in a fixed number of rounds; then all agents have the weighted average, and the next stage begins.

Rules that hold here:
- Only the first message of a stage holds anything new of the agent's records, so it alone is charged. All that follows
  is computed from what was received. In a masked sum every message is charged through the sum.
- The graph, the weights n_j/n and the number of rounds are public, and fixed before anything is released.
- An agent sends its message of a round once it has all messages of the round before; over a tree (`Gathering`), once it
  has those of the same round that its place in the tree waits for.
- The last state comes from the last round received: the agent is finished when that is complete.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from coordinator_free.agent import Activation, Setting
from coordinator_free.agents.averages import aggregators
from coordinator_free.agents.averages.aggregators import Aggregator, Gathering, absorb, aggregator_of, bounded
from coordinator_free.agents.averages.arrangement import (
    MASKED,
    AggregatingNumbers,
    AggregatingSettings,
    AggregationError,
    arranged,
    refuse,
    unequal,
    weights,
)
from coordinator_free.agents.checks import checked
from coordinator_free.aggregation import masking, tree
from coordinator_free.aggregation.flood import Flood
from coordinator_free.aggregation.masked_sum import MaskedSum
from coordinator_free.aggregation.masked_tree import MaskedTree
from coordinator_free.aggregation.push_sum import PushSum, opened
from coordinator_free.aggregation.tree import Tree
from coordinator_free.algorithm import Algorithm, Attack
from coordinator_free.inbox import used
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import LARGEST_PLAIN, REACH, Mechanism, boxed
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.privacy.noise import Stream, standard_normal
from coordinator_free.privacy.observer import OBSERVERS, shared_deviation
from coordinator_free.problem.own_part import Received, around
from coordinator_free.release import FloatArray, Release
from topology.network import Network


class Aggregating(Algorithm):
    """Rounds, messages and state; an algorithm adds what it contributes and what it does with an average."""

    _next: int
    _closed: int
    _own_last: int | None

    name: ClassVar[str]
    activation: ClassVar[Activation] = Activation.ROUNDS
    needs_clip: ClassVar[bool] = True
    finish_weight: ClassVar[str | None] = "kappa"
    finishes_by_evidence: ClassVar[bool] = True
    observers: ClassVar[tuple[str, ...]] = OBSERVERS
    releases_models: ClassVar[bool] = False
    attacked_by: ClassVar[Attack] = Attack.AVERAGES

    def __init__(self, setting: Setting, stages: int) -> None:
        self._setting = checked(setting, self.charged(setting.updates))
        self._problem = self._setting.problem
        self._stages = stages
        own, numbers = AggregatingSettings.of(setting.learning), AggregatingNumbers.of(setting.learning)
        self._numbers, self._kind, self._kappa = numbers, own.aggregation, own.kappa
        self._observer, self._sizes, self._stage_rounds = numbers.observer, numbers.sizes, numbers.stage_rounds
        self._shares = weights(numbers.sizes, own.weighting)
        self._dropouts = numbers.dropouts if self._kind == "masked-sum" else 0
        self._private = setting.mechanism != "none" and setting.problem.records > 0
        self._step = numbers.checked_step(own.step)
        refuse(setting, self._kind, numbers)
        self._reset(0)

    # -- what differs between the algorithms ----------------------------------------------------------------------

    @staticmethod
    def charged(updates: int) -> int:
        """Stages with noise of their own."""
        raise NotImplementedError

    @staticmethod
    def stages(updates: int) -> int:
        """How many averages are made in a run of ``updates``."""
        raise NotImplementedError

    def _contribution(self, stage: int) -> tuple[FloatArray, Mechanism | None]:
        """The exact vector, and the mechanism still to be applied to it."""
        raise NotImplementedError

    def _apply(self, stage: int, average: FloatArray) -> None:
        """A stage is over, and this is the weighted average."""
        raise NotImplementedError

    def _stage_charge(self, stage: int) -> Mechanism | None:
        """What the contribution to a stage costs, whatever spreads it."""
        raise NotImplementedError

    # -- what a run looks like, from public numbers -----------------------------------------------------------------

    @classmethod
    def arranged(
        cls, network: Network, sizes: Sequence[int], dimension: int, updates: int, learning: Mapping[str, Any]
    ) -> dict[str, Any]:
        return arranged(network, sizes, dimension, cls.stages(updates), learning)

    @classmethod
    def works_with(cls, agent: int, neighbours: Sequence[int], learning: Mapping[str, Any]) -> tuple[int, ...]:
        parents = learning.get("parents")
        return tuple(j for j in neighbours if not parents or agent == parents[j] or j == parents[agent])

    @classmethod
    def foresee(cls, learning: Mapping[str, Any], updates: int, network: Network) -> tuple[str, ...]:  # noqa: ARG003
        return unequal(network, AggregatingSettings.of(learning))

    def aggregator(self) -> Aggregator:
        """A fresh one, which has sent and received nothing."""
        return aggregator_of(self._setting, self._kind, self._numbers, self._shares, self._dropouts)

    # -- one stage ------------------------------------------------------------------------------------------------

    @property
    def _first(self) -> int:
        """Rounds before the first stage."""
        return 1 if self._kind in MASKED else 0

    @property
    def _total_rounds(self) -> int:
        return self._first + self._stages * self._stage_rounds

    def _place(self, round_: int) -> tuple[int, int]:
        """(stage, step within it) of a round; stage -1 for the round of keys."""
        return divmod(round_ - self._first, self._stage_rounds)

    def _message(self, index: int) -> FloatArray:
        stage, step = self._place(index) if index >= self._first else (-1, 0)
        aggregator = self._aggregator
        if isinstance(aggregator, MaskedSum | MaskedTree):
            if stage < 0:
                return aggregator.send_key()
            self._refuse_older_keys(index)
        if isinstance(aggregator, MaskedSum):
            if step == 0:
                aggregator.begin(stage, self._hidden(stage))
            return aggregator.send(step)
        if isinstance(aggregator, Tree | MaskedTree):
            return self._up(stage, aggregator) if step == tree.UP else self._down(stage, aggregator)
        if step == 0:
            self._begin(stage, aggregator)
        elif isinstance(aggregator, PushSum):
            absorb(aggregator, len(self._shares))
        return aggregator.send(step) if isinstance(aggregator, Flood) else aggregator.send()

    def _up(self, stage: int, aggregator: Tree | MaskedTree) -> FloatArray:
        if isinstance(aggregator, MaskedTree):
            return aggregator.send_up(stage, self._hidden(stage))
        return aggregator.send_up(float(self._shares[self._setting.agent]), self._perturbed(stage))

    def _down(self, stage: int, aggregator: Tree | MaskedTree) -> FloatArray:
        self._close(stage)
        return aggregator.send_down()

    def _refuse_older_keys(self, index: int) -> None:
        """Raise `AggregationError` where the pairwise masks are those of an earlier start.

        A copy of this agent may use the same masks on other values, and reveal what this one keeps.
        """
        if self._setting.secret_of(index) != self._setting.secret_of(0):
            raise AggregationError(
                f"round {index}: this agent was started again after it had sent its key. Masks are never used by two "
                "starts, so it takes no part in further sums; deal a new run"
            )

    def _secret(self, stage: int) -> bytes:
        """What the noise of a stage is drawn from."""
        return self._setting.secret_of(self._first + stage * self._stage_rounds)

    def _perturbed(self, stage: int) -> FloatArray:
        """The agent's contribution to a stage, with its own noise."""
        value, noise = self._contribution(stage)
        # Of the same multiplier, at the public model; an auditor may exchange it.
        noise = None if noise is None else self.made_with(self._next)
        return value if noise is None else noise.perturb(value, Stream(self._secret(stage), stage))

    def _begin(self, stage: int, aggregator: Flood | PushSum) -> None:
        value = self._perturbed(stage)
        if isinstance(aggregator, Flood):
            aggregator.begin(value)
        else:
            weight = float(self._shares[self._setting.agent] * len(self._shares))
            aggregator.begin(weight * value, weight)

    def _hidden(self, stage: int) -> FloatArray:
        """The agent's part of a masked sum: its weighted contribution, with its part of the noise."""
        value, _ = self._contribution(stage)
        part = boxed(self._shares[self._setting.agent] * value)
        due = self._stage_charge(stage)
        if due is None:
            return part
        deviation = shared_deviation(due.scale, self._numbers.noisy, self._numbers.missing)
        # The value is rounded to the grid before the noise is added, as its booked sensitivity says.
        rounded = np.rint(part / masking.GRID) * masking.GRID
        noise = standard_normal(Stream(self._secret(stage), stage), self._setting.dimension)
        hidden: FloatArray = rounded + np.rint(noise * (deviation / masking.GRID)) * masking.GRID
        return hidden

    def _sum_charge(self, exact: float, multiplier: float) -> Mechanism:
        """Noise of the whole sum, whose exact value moves by ``exact`` in L2."""
        booked = exact + math.sqrt(self._setting.dimension) * masking.GRID
        return Gaussian(booked, multiplier * booked)

    def _release_charge(self, exact: float, claimed: float, multiplier: float) -> Mechanism:
        """Noise of one agent's vector; ``claimed`` is the sensitivity that the paper has in mind."""
        used_one = claimed if self._observer == "as_published" else exact
        return mechanism(self._setting.mechanism, used_one, multiplier, self._setting.dimension)

    def _close(self, stage: int) -> None:
        aggregator = self._aggregator
        if isinstance(aggregator, MaskedSum):
            average = self._plausible(stage, aggregator.result(), self.kept(aggregator.present))
        elif isinstance(aggregator, Flood):
            if aggregator.disputed:
                raise AggregationError(
                    f"average {stage}: vectors of agents {sorted(aggregator.disputed)} were passed on in more than one "
                    "form; no average is made"
                )
            average = self._shares @ aggregator.table
        elif isinstance(aggregator, MaskedTree):
            average = self._plausible(stage, aggregator.sum, 1.0)
        elif isinstance(aggregator, Tree):
            average = aggregator.average
        else:
            absorb(aggregator, len(self._shares))
            if not aggregator.held[-1] > 0.0:
                raise AggregationError(f"average {stage}: push-sum has no weight; raise learning.push_rounds")
            average = aggregator.ratio
        self._apply(stage, boxed(average, self._reach))
        self._closed = stage + 1

    @property
    def _reach(self) -> float:
        """How far averages reach: in a private run the grid must be resolved beside them."""
        return LARGEST_PLAIN if self._setting.mechanism == "none" else REACH

    def _plausible(self, stage: int, total: FloatArray, kept: float) -> FloatArray:
        """The average in a masked sum; raises `AggregationError` for one that honest agents cannot have made.

        A sum with noise is one of gradients, each clipped in L2, so each number of their average is below the clip.
        """
        due, bound = self._stage_charge(stage), aggregators.LARGEST
        if due is not None:
            noisy = self._numbers.noisy
            deviation = shared_deviation(due.scale, noisy, self._numbers.missing) * math.sqrt(noisy)
            bound = float(self._setting.clip or aggregators.LARGEST) + aggregators.TAIL * deviation / kept
        return bounded(stage, total / kept, bound)

    def kept(self, present: Sequence[int]) -> float:
        """The weight of a sum's parties: 1 where all are present."""
        return 1.0 if len(present) == len(self._shares) else float(self._shares[list(present)].sum())

    # -- the agent's interface ------------------------------------------------------------------------------------

    @property
    def gathers(self) -> bool:
        return self._gathering is not None

    def awaited(self, round_: int) -> tuple[int, ...] | None:
        return None if self._gathering is None else self._gathering.awaited(round_)

    def start(self) -> Release | None:
        if self._gathering is not None and self._first == 0:
            return None
        return self._release() if self._next == 0 and self._total_rounds else None

    def _release(self) -> Release:
        index = self._next
        release = Release(
            sender=self._setting.agent,
            index=index,
            vector=self._message(index),
            used=used(self._consumed, self._setting.agent, self._own_last),
            round=index,
        )
        self._own_last, self._next = index, index + 1
        self._consumed.clear()
        self._received.clear()
        return release

    def receive(self, release: Release) -> None:
        if self._gathering is not None:
            if self._gathering.receive(release, self._next):
                self._consumed.append(release)
            return
        current = self._next - 1
        if release.round is not None and release.round > current:
            raise AggregationError(f"the others went on without this agent: they are in round {release.round} of sums")
        if release.round != current or release.sender in self._received:
            return
        self._consumed.append(release)
        self._received.add(release.sender)
        stage, step = self._place(current) if current >= self._first else (-1, 0)
        aggregator = self._aggregator
        if isinstance(aggregator, PushSum):
            aggregator.receive(release.sender, release.vector)
        elif isinstance(aggregator, MaskedSum) and stage < 0:
            aggregator.receive_key(release.sender, release.vector)
        elif isinstance(aggregator, MaskedSum):
            aggregator.receive(release.vector)
        elif isinstance(aggregator, Flood):
            aggregator.receive(step, release.sender, release.vector)
        if len(self._received) == len(self._setting.neighbours):
            self._complete(stage, step)

    def _complete(self, stage: int, step: int) -> None:
        if stage >= 0 and step == self._stage_rounds - 1:
            self._close(stage)

    def wake(self) -> Release | None:
        if self.finished:
            return None
        if self._gathering is not None:
            return self._release() if self._gathering.is_complete(self._next) else None
        missing = sorted(set(self._setting.neighbours) - self._received)
        if missing:
            current = self._next - 1
            # Of a masked sum some may be absent, but for the keys: what hides an agent rests on these.
            if len(missing) > self._dropouts or current < self._first:
                raise AggregationError(f"round {current}: nothing from agents {missing}; the average would be wrong")
            self._complete(*self._place(current))
            if self.finished:
                return None
        return self._release()

    @property
    def finished(self) -> bool:
        return self._closed >= self._stages

    @property
    def model(self) -> FloatArray:
        return self._model

    def finish(self) -> FloatArray | None:
        """argmin mean loss + kappa/2 |theta - average|^2 with the agent's real data; never released.

        Without ``kappa`` the prior around the average is weighed by evidence (`coordinator_free.problem.own_part`).
        """
        return around(self._problem, self._heard(), self._kappa) if self._numbers.finish else None

    def _heard(self) -> Received:
        """What the agent's model says of the common one, for the free finish."""
        return Received.unknown(self._model)

    def charge(self, index: int) -> Mechanism | None:
        if not self._private or index < self._first:
            return None
        stage, step = self._place(index)
        return self._stage_charge(stage) if step == 0 else None

    def noised(self, index: int, vector: FloatArray) -> FloatArray:
        """The noisy vector in charged release ``index``: a push-sum sends a share of it, a tree a sum beside it."""
        held = {"push-sum": opened, "tree": tree.own}.get(self._kind)
        return vector if held is None or self._place(index)[1] else held(vector)

    def derived(self, index: int, vector: FloatArray) -> FloatArray:
        return vector[: 0 if self._kind not in ("push-sum", "tree") or self._place(index)[1] else None]

    def snapshot(self) -> dict[str, FloatArray]:
        return self._aggregator.snapshot() | {
            "model": self._model.copy(),
            "counters": np.array([-1.0 if self._own_last is None else self._own_last, self._closed]),
        }

    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        self._reset(next_index)
        if state:
            self._aggregator.restore(state)
            self._model = np.array(state["model"])
            own_last, self._closed = (int(number) for number in state["counters"])
            self._own_last = own_last if own_last >= 0 else None

    def _reset(self, next_index: int) -> None:
        self._aggregator = made = self.aggregator()
        self._gathering = Gathering(made, self._setting.neighbours) if isinstance(made, Tree | MaskedTree) else None
        self._model = np.zeros(self._setting.dimension)
        self._next, self._closed = next_index, 0
        self._own_last = None
        self._consumed: list[Release] = []
        self._received: set[int] = set()
