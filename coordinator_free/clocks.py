"""When agents of asynchronous algorithms wake: independent Poisson clocks (Bellet et al. 2018, section 2.3).

Every world takes its clocks from here. An agent's clock is a stream of its own, a function of (seed, agent) alone. Like
a real one it may be wrong: it drifts, which changes how often its agent wakes, and is skewed, which changes the times
that the agent writes down. No release and no charge depends on either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

CLOCK = 0x636C6F63
"""Keeps clocks apart from the other uses of the same seed (data, graph, network conditions)."""

WRONG = 0x77726F6E
"""Keeps how wrong a clock is apart from when it ticks."""

_BLOCK = 64


def waits(seed: int, agent: int, rate: float) -> Iterator[float]:
    """Endless exponential waits of mean 1 / ``rate``, in the unit of time that ``rate`` is in."""
    if not 0.0 < rate < math.inf:
        raise ValueError(f"clock.rate = {rate}: must be a finite number > 0")
    # What default_rng makes, without asking what it was given: a million agents have a million clocks.
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, CLOCK, agent))))
    while True:
        yield from generator.exponential(1.0 / rate, _BLOCK).tolist()


def own_rate(rate: float, drift: float, seed: int, agent: int) -> float:
    """How often an agent wakes by a right clock: its own is fast or slow by a part of at most ``drift`` (below 1)."""
    return rate * (1.0 + drift * _wrong(seed, agent)[0])


def own_skew(skew: float, seed: int, agent: int) -> float:
    """How much an agent's clock is ahead of the right time (negative: behind), at most ``skew``, in its unit."""
    return skew * _wrong(seed, agent)[1]


def _wrong(seed: int, agent: int) -> tuple[float, float]:
    """Two uniform numbers between -1 and 1."""
    drift, skew = np.random.default_rng(np.random.SeedSequence([seed, WRONG, agent])).uniform(-1.0, 1.0, 2)
    return float(drift), float(skew)
