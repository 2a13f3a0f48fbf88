"""What a log of masked sums shows: each sum and the noise in it, and nothing of the parties behind it.

Rules that hold here:
- The observer has every message, knows all records and the public numbers, and holds no agent's key. It runs the
  agents' own code for what each party contributed, at the common models that the sums led to.
- What it opens of one sum are the masks that were revealed in it. It guesses each party's numbers from what is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.aggregation import masking
from coordinator_free.aggregation.masked_sum import MaskedSum
from coordinator_free.aggregation.masked_tree import MaskedTree
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.recorded_states import Shifts
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.release import FloatArray, Release


@dataclass(frozen=True, eq=False)
class Sum:
    """One sum as it was overheard: ``exact`` is what it would be without noise, shape (p,).

    ``law`` is that of its noise, from the parties that are present (None: no noise). The signs of all parties' exact
    numbers are guessed from what is left of their vectors: ``right`` of ``guesses`` are theirs.
    """

    index: int
    present: tuple[int, ...]
    value: FloatArray
    exact: FloatArray
    law: Mechanism | None
    guesses: int
    right: int

    @property
    def noise(self) -> FloatArray:
        """The noise in the sum, shape (p,)."""
        return self.value - self.exact


def overhear(agents: Sequence[Aggregating], heard: Mapping[tuple[int, int], Release]) -> list[Sum]:
    """Every masked sum of a run, in order; ``agents`` are fresh ones, with any secrets.

    Raises `InversionError` where a sum cannot be made from the recorded messages.
    """
    found = []
    for stage in range(agents[0].stages(agents[0]._setting.updates)):
        first = 1 + stage * agents[0]._stage_rounds
        try:
            value, left = _opened(agents[0], first, heard)
        except masking.MaskError as error:
            raise InversionError(f"sum {stage}: {error}") from None
        present = sorted(left)
        found.append(_sum(agents, stage, first, present, value, left))
        for agent in agents:
            agent._apply(stage, value / agent.kept(present))
    return found


def _opened(
    agent: Aggregating, first: int, heard: Mapping[tuple[int, int], Release]
) -> tuple[FloatArray, dict[int, FloatArray]]:
    """One sum from the messages with index ``first`` and above, and what is left of each party's vector."""
    listener = agent.aggregator()
    if isinstance(listener, MaskedTree):
        return listener.overhear({sender: release.vector for (sender, i), release in heard.items() if i == first})
    if not isinstance(listener, MaskedSum):
        raise InversionError("these sums are not masked")
    steps = listener.rounds // 2
    spans = (range(first, first + steps), range(first + steps, first + 2 * steps))
    masked, reveals = (
        [(sender, release.vector) for (sender, index), release in sorted(heard.items()) if index in span]
        for span in spans
    )
    return listener.overhear(masked, reveals)


def _sum(
    agents: Sequence[Aggregating],
    stage: int,
    index: int,
    present: Sequence[int],
    value: FloatArray,
    left: Mapping[int, FloatArray],
) -> Sum:
    exact, guesses, right = np.zeros_like(value), 0, 0
    for party in present:
        part = contributed(agents[party], stage)
        exact += part
        guesses += part.size
        right += int(np.count_nonzero((part < 0) == (left[party] < 0)))
    due = next((charge for i in present if (charge := agents[i].charge(index)) is not None), None)
    law = None
    if due is not None:
        noisy = [i for i, size in enumerate(agents[0]._sizes) if size > 0]
        here = len(set(noisy) & set(present))
        law = Gaussian(due.sensitivity, due.scale * math.sqrt(here / (len(noisy) - agents[0]._numbers.missing)))
    return Sum(index, tuple(present), value, exact, law, guesses, right)


def contributed(agent: Aggregating, stage: int) -> FloatArray:
    """A party's exact part of a sum, on the grid, shape (p,)."""
    value, _ = agent._contribution(stage)
    part: FloatArray = np.rint(agent._shares[agent._setting.agent] * value / masking.GRID) * masking.GRID
    return part


def shifts(agent: Aggregating, changed: Aggregating, sums: Sequence[Sum]) -> Shifts:
    """What the sums move by where a fresh agent's records are those of ``changed``, at the same common models."""
    found = []
    for stage, heard in enumerate(sums):
        here = agent._setting.agent in heard.present
        moved = contributed(agent, stage) - contributed(changed, stage)
        found.append(moved if here else np.zeros_like(moved))
        for one in (agent, changed):
            one._apply(stage, heard.value / one.kept(heard.present))
    return Shifts(tuple(found), tuple(heard.law for heard in sums))


def guessed(sums: Sequence[Sum]) -> tuple[int, int, float]:
    """(guesses, right ones, p-value): guesses at hidden signs are right half of the time."""
    guesses, right = sum(s.guesses for s in sums), sum(s.right for s in sums)
    return guesses, right, float(stats.binomtest(right, guesses, 0.5).pvalue) if guesses else 1.0
