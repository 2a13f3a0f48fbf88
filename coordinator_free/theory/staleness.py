"""How old the neighbours' models were that releases were computed from: the staleness of asynchronous learning.

When agent i makes a release, a neighbour j has already sent its release k, and i works with release u of it: that
model's age is k - u, in releases of j (the delay of asynchronous coordinate descent's convergence bounds).

Rules that hold here:
- Only the public content of a log is used: the senders and indices of releases, their order, and their lists ``used``.
- A model that is used again is still in force, and older: every release has one age for each neighbour in force.
- A neighbour of which no release was used yet has no age. Where an index of the agent is missing (lost by the
  eavesdropper, or skipped by a restart, which forgets its neighbours) nothing is in force until it is used again.
- The eavesdropper may receive j later than i did: a model is never younger than 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from coordinator_free.release import FloatArray, Release

Integers = npt.NDArray[np.int64]

_NOT_IN_FORCE: Final = 1 << 40
"""In the place of an index where there is none: no run has that many releases."""
_TOGETHER: Final = 4096
"""Releases whose ages are counted at once."""


@dataclass(frozen=True)
class Staleness:
    """The distribution of ages, in releases.

    ``counts[a]`` is how many models of age a were used, by all agents in all releases; ``means`` (n,) is each agent's
    mean age, NaN for an agent that used no neighbour's.
    """

    counts: Integers
    means: FloatArray

    @property
    def ages(self) -> int:
        """How many models were used, again or anew."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean age."""
        return float(self.counts @ np.arange(len(self.counts))) / self.ages

    @property
    def largest(self) -> int:
        """The largest age."""
        return int(np.flatnonzero(self.counts)[-1])

    def quantile(self, part: float) -> int:
        """The smallest age that at least ``part`` (above 0, at most 1) of the models do not exceed."""
        return int(np.searchsorted(np.cumsum(self.counts), part * self.ages * (1.0 - 1e-12)))


class Ages:
    """Counts ages over the releases of agents with these ``neighbours``, in the order in which they were received.

    Indices are below ``planned``, the most releases that an agent can have; a release with another one is passed over.
    """

    def __init__(self, neighbours: Sequence[Sequence[int]], planned: int) -> None:
        agents = len(neighbours)
        self._planned = planned
        self._neighbours = [np.array(own, dtype=np.int64) for own in neighbours]
        self._places = [{j: place for place, j in enumerate(own)} for own in neighbours]
        self._in_force = [np.full(len(own), _NOT_IN_FORCE, dtype=np.int64) for own in neighbours]
        self._newest = np.full(agents, -1, dtype=np.int64)
        self._addressed: dict[tuple[int, int], int] = {}
        self._next = [0] * agents
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums, self._numbers = np.zeros(agents), np.zeros(agents)
        self._fresh: list[tuple[int, Integers]] = []
        """(agent, ages) of the last releases: array operations on one release's few ages would cost the most."""
        self._looked_at = (0.0, 0.0)

    def receive(self, release: Release) -> None:
        """Take in one release; what names agents or indices that there are not is passed over."""
        i, index = release.sender, release.index
        if i >= len(self._neighbours) or index >= self._planned:
            return
        places, in_force = self._places[i], self._in_force[i]
        if index != self._next[i]:
            in_force[:] = _NOT_IN_FORCE
        self._next[i] = index + 1
        for j, used in release.used:
            if used < self._planned and (place := places.get(j)) is not None:
                in_force[place] = used
        newest = self._newest[self._neighbours[i]]
        if self._addressed:
            newest = np.maximum(newest, np.array([self._addressed.get((j, i), -1) for j in places], dtype=np.int64))
        self._fresh.append((i, newest - in_force))
        if len(self._fresh) >= _TOGETHER:
            self._count()
        if release.recipient is None:
            if index > self._newest[i]:
                self._newest[i] = index
        else:
            pair = (i, release.recipient)
            self._addressed[pair] = max(self._addressed.get(pair, -1), index)

    def _count(self) -> None:
        if not self._fresh:
            return
        ages = np.concatenate([ages for _, ages in self._fresh])
        agents = np.repeat([i for i, _ in self._fresh], [len(ages) for _, ages in self._fresh])
        self._fresh.clear()
        in_force = ages > -(_NOT_IN_FORCE // 2)
        ages, agents = np.maximum(ages[in_force], 0), agents[in_force]
        counts = np.bincount(ages, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self._sums += np.bincount(agents, weights=ages, minlength=len(self._sums))
        self._numbers += np.bincount(agents, minlength=len(self._sums))

    def mean_since(self) -> float:
        """The mean age of what was used since this was last asked; NaN if nothing was."""
        self._count()
        total, number = float(self._sums.sum()), float(self._numbers.sum())
        before_total, before = self._looked_at
        self._looked_at = total, number
        return (total - before_total) / (number - before) if number > before else float("nan")

    @property
    def staleness(self) -> Staleness | None:
        """The ages so far; None if no release used a neighbour's model."""
        self._count()
        if not self._numbers.any():
            return None
        means = np.full(len(self._sums), np.nan)
        np.divide(self._sums, self._numbers, out=means, where=self._numbers > 0)
        return Staleness(self._counts, means)


def staleness(
    stream: Iterable[tuple[float, Release]], neighbours: Sequence[Sequence[int]], planned: int
) -> Staleness | None:
    """The ages of a whole ``stream`` of (time, release), in any order; of equal times the first is first."""
    ages = Ages(neighbours, planned)
    for _, release in sorted(stream, key=lambda timed: timed[0]):
        ages.receive(release)
    return ages.staleness
