"""The agents that injected faults hit, in the vocabulary of Jepsen and Maelstrom.

Rules that hold here:
- Which agents are hit is a function of (seed, the event's number), not of time.
- A minority is the largest number of agents that is less than half, a majority the smallest that is more.
- Churn is a Poisson process of kills, each followed by an exponential time away. An agent that is away is not killed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate, takewhile
from typing import Final, NamedTuple

import numpy as np

FAULTS: Final = 0x6661756C
"""Keeps the choice of targets apart from the other uses of the same seed."""
CHURN: Final = 0x6368726E
"""Keeps the times of kills apart from the choice of agents."""
TARGETS: Final = ("one", "minority", "majority", "all")
LONGEST: Final = 5.0
"""In means: no time away is longer, so that the longest wait of an agent is known beforehand."""


def targets(
    target: str | int | Sequence[int], agents: int, seed: int, event: int, without: Collection[int] = ()
) -> tuple[int, ...]:
    """The agents that an event hits, ascending.

    Parameters
    ----------
    target
        One of `TARGETS`, a number of agents, or the agents themselves.
    agents
        Number of agents of the run.
    seed, event
        The run's seed and the event's number, which decide the draw.
    without
        Agents that are not drawn.
    """
    if not isinstance(target, str | int):
        return tuple(sorted(target))
    sizes = {"one": 1, "minority": (agents - 1) // 2, "majority": agents // 2 + 1, "all": agents}
    size = target if isinstance(target, int) else sizes[target]
    return tuple(sorted([agent for agent in _order(agents, seed, event) if agent not in without][:size]))


class Absence(NamedTuple):
    """``agent`` is killed ``at`` and is away for so long (None: for good), both in the unit of the rate."""

    at: float
    agent: int
    away: float | None


def churn(
    candidates: Sequence[int], rate: float, away: float | None, lasting: float, seed: int, event: int
) -> tuple[Absence, ...]:
    """Draw kills as a Poisson process.

    Parameters
    ----------
    candidates
        The agents that may be killed. Each kill hits one of those present, drawn evenly; if none is, it is left out.
    rate
        Kills per unit of time, on average.
    away
        Mean time until a killed agent is started again; None: never.
    lasting
        Time of the last possible kill, from 0.
    seed, event
        The run's seed and the event's number, which decide the draw.

    Returns
    -------
    tuple of Absence
        In order of time.
    """
    generator = np.random.default_rng(np.random.SeedSequence([seed, CHURN, event]))
    gaps = iter(lambda: float(generator.exponential(1.0 / rate)), None)
    found: list[Absence] = []
    back = dict.fromkeys(candidates, 0.0)
    for at in list(takewhile(lambda at: at < lasting, accumulate(gaps))):
        there = [agent for agent in sorted(back) if back[agent] <= at]
        if not there:
            continue
        agent = there[int(generator.integers(len(there)))]
        time_away = None if away is None else float(min(generator.exponential(away), LONGEST * away))
        back[agent] = float("inf") if time_away is None else at + time_away
        found.append(Absence(at, agent, time_away))
    return tuple(found)


def bisection(agents: int, seed: int, event: int) -> tuple[int, ...]:
    """The group, 0 or 1, of each agent: two halves drawn at random."""
    first = set(_order(agents, seed, event)[: agents // 2])
    return tuple(int(agent in first) for agent in range(agents))


def isolation(alone: Sequence[int], agents: int) -> tuple[int, ...]:
    """The group of each agent where each of ``alone`` is cut off from all agents: the others are group 0."""
    groups = [0] * agents
    for group, agent in enumerate(alone, start=1):
        groups[agent] = group
    return tuple(groups)


def division(groups: Sequence[Sequence[int]], agents: int) -> tuple[int, ...]:
    """The group of each agent where ``groups`` are cut off from each other, and from the agents in none."""
    found = [0] * agents
    for number, members in enumerate(groups, start=1):
        for agent in members:
            found[agent] = number
    return tuple(found)


def _order(agents: int, seed: int, event: int) -> list[int]:
    generator = np.random.default_rng(np.random.SeedSequence([seed, FAULTS, event]))
    return [int(agent) for agent in generator.permutation(agents)]
