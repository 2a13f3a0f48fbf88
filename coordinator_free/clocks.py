"""When agents of asynchronous algorithms wake: independent Poisson clocks (Bellet et al. 2018, section 2.3).

Every world takes its clocks from here. An agent's clock is a stream of its own, a function of (seed, agent) alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CLOCK = 0x636C6F63
"""Keeps clocks apart from the other uses of the same seed (data, graph, network conditions)."""

_BLOCK = 64


def waits(seed: int, agent: int, rate: float) -> Iterator[float]:
    """Endless exponential waits of mean 1 / ``rate``, in the unit of time that ``rate`` is in."""
    if not (np.isfinite(rate) and rate > 0):
        raise ValueError(f"clock.rate = {rate}: must be a finite number > 0")
    generator = np.random.default_rng(np.random.SeedSequence([seed, CLOCK, agent]))
    while True:
        yield from generator.exponential(1.0 / rate, _BLOCK).tolist()
