"""The attack on local gradient descent whose last iterate (or tail mean) alone is released: run again, both ways.

The noise is in every step, and the loss bends what comes of it: the release has no density in closed form. But any
test gives a true lower bound if its trials are runs of the real steps. The one here looks at the release along the
direction in which the replaced record moves it without noise: where nothing bends, no other errs less.

Rules that hold here:
- Steps, clipping, noise and mean are the agent's own (`coordinator_free.agents.averaging`), for many trials at once.
- The release's rounding to the grid is left out: it can only hide something.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.averaging import Descent
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Pair, Replacement
from coordinator_free.release import FloatArray

_BLOCK = 2_000_000


def strongest(setting: Setting, descent: Descent, changes: Sequence[Replacement]) -> tuple[Replacement, FloatArray]:
    """The replacement that moves the noiseless release most, and by what, shape (p,)."""
    zero = np.zeros((1, setting.dimension))
    moves = []
    for change in changes:
        pair = Pair(setting, change)
        moves.append((_descend(pair, 1, zero, descent, None) - _descend(pair, 0, zero, descent, None))[0])
    place = int(np.argmax([float(move @ move) for move in moves]))
    return changes[place], moves[place]


def scores(
    setting: Setting, descent: Descent, change: Replacement, move: FloatArray, trials: int, noise: FreshNoise
) -> tuple[FloatArray, FloatArray]:
    """Scores of ``trials`` fresh runs with the record as it is and with it replaced; high speaks for as it is."""
    pair = Pair(setting, change)
    length = math.sqrt(float(move @ move))
    if length == 0.0:
        return np.zeros(trials), np.zeros(trials)
    # In units of the deviation that unbent noise would have; scores of any size would do.
    along = -move / (length * descent.deviation * math.sqrt(descent.steps))
    block = max(1, _BLOCK // max(1, setting.problem.records))
    found = np.zeros((2, trials))
    for world in (0, 1):
        for low in range(0, trials, block):
            count = min(block, trials - low)
            start = np.zeros((count, setting.dimension))
            found[world, low : low + count] = _descend(pair, world, start, descent, noise) @ along
    return found[0], found[1]


def affordable(trials: int, records: int, dimension: int, steps: int) -> int:
    """How many trials fit into about a minute of one core, at most ``trials``."""
    return min(trials, math.floor(5e11 / (16.0 * max(1, records) * dimension * steps)))


def _descend(pair: Pair, world: int, theta: FloatArray, descent: Descent, noise: FreshNoise | None) -> FloatArray:
    """What is released from each start (n, p), shape (n, p)."""
    tail, kept = np.zeros_like(theta), 0
    for t in range(descent.steps):
        theta = theta - descent.step * pair.gradient(world, theta)
        if noise is not None:
            theta = theta - descent.deviation * noise.normal(*theta.shape)
        if 2 * t >= descent.steps - 1:
            tail, kept = tail + theta, kept + 1
    return tail / kept if descent.tail else theta
