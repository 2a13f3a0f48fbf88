"""The attack on local gradient descent whose last iterate (or tail mean) alone is released: run again, both ways.

The noise is in every step, and the loss bends what comes of it: the release has no density in closed form. But any
test gives a true lower bound if its trials are runs of the real steps. The one here looks at the release along the
direction in which the replaced record moves it without noise: where nothing bends, no other errs less.

Rules that hold here:
- Steps, clipping, noise and mean are the agent's own (`coordinator_free.agents.averages.averaging`), for many trials
  at once.
- The release's rounding to the grid is left out: it can only hide something.

The same trials say whether a release's noise is what was charged: `law`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from coordinator_free.agent import Setting
from coordinator_free.agents.averages.averaging import Descent
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Pair, Replacement
from coordinator_free.attacks.noise_tests import NoiseTest
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


def distances(setting: Setting, descent: Descent, released: FloatArray, trials: int, noise: FreshNoise) -> FloatArray:
    """Squared distances of the release and ``trials`` fresh ones from their mean, over their spread; (1 + trials,).

    Mean and covariance are those of all of them together, so no one of them is treated otherwise than the others.
    """
    as_is = Pair(setting, Replacement(0, setting.problem.x[0], float(setting.problem.y[0])))
    block = max(1, _BLOCK // max(1, setting.problem.records))
    drawn = [released[None, :]]
    for low in range(0, trials, block):
        start = np.zeros((min(block, trials - low), setting.dimension))
        drawn.append(_descend(as_is, 0, start, descent, noise))
    apart = np.concatenate(drawn)
    apart -= apart.mean(axis=0)
    if 4 * setting.dimension <= trials:
        values, vectors = np.linalg.eigh(apart.T @ apart / len(apart))
        apart = apart @ (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1])))
    squares: FloatArray = np.einsum("ij,ij->i", apart, apart)
    return squares


def law(found: Mapping[int, FloatArray]) -> NoiseTest:
    """Do the agents' releases (`distances`, by agent) look like fresh ones? One test for all together, and for each.

    If the noise is what was charged, a run and the trials are exchangeable: of anything that is computed from all of
    them alike, the run has the largest value with probability 1 / (1 + trials). Here that is how far the sum of the
    squares, or any one of them, is from what is usual; cube roots make them nearly normal, and the largest of n is held
    against what n normal variables have.
    """
    squares = np.stack(list(found.values()))
    each, together = _standardised(squares), _standardised(squares.sum(axis=0, keepdims=True))[0]
    level = 1.0 / squares.shape[1]
    fair = float(special.ndtri(1.0 - level / 2.0) / special.ndtri(1.0 - level / (2.0 * len(found))))
    unusual = np.maximum(np.abs(together), fair * np.abs(each).max(axis=0))
    p_value = float(np.count_nonzero(unusual >= unusual[0])) / unusual.size
    worst = int(np.abs(each[:, 0]).argmax())
    usual = squares.mean(axis=1)
    ratio, of_worst = math.sqrt(squares[:, 0].sum() / usual.sum()), math.sqrt(squares[worst, 0] / usual[worst])
    detail = f"{ratio:.3f} of the charged in all releases, {of_worst:.3f} in that of agent {list(found)[worst]}"
    return NoiseTest("local steps", p_value, detail)


def _standardised(squares: FloatArray) -> FloatArray:
    roots = np.cbrt(squares)
    spread = roots.std(axis=1, keepdims=True)
    scores: FloatArray = (roots - roots.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    return scores


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
