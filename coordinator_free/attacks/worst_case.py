"""The worst alternative of a record: the value that an observer would tell apart from it best.

Rules that hold here:
- Only the alternative is free; the record is one that the agent holds. So what is attained is less than the sensitivity
  wherever the record's own gradient is short or turns.
- An alternative is a record that the mechanism accepts: any features and label within the public bounds; without
  bounds, any at all, since clipping alone limits what one record can do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator_free.attacks.likelihood_ratio import Environment, Replacement, clip_slopes, row_norms
from coordinator_free.losses import Squared
from coordinator_free.privacy.mechanisms import NORMS, Mechanism
from coordinator_free.release import FloatArray

_RECORDS = 32
_COORDINATES = 3


@dataclass(frozen=True, eq=False)
class Worst:
    """A replacement, and how far it uses the sensitivity.

    ``attained``: the mean over releases of (distance of the two exact values) / (sensitivity charged), in the
    mechanism's norm; 1 if both candidates pull in opposite directions with full clipping at every update.
    """

    replacement: Replacement
    attained: float


def worst_alternative(
    environment: Environment,
    models: FloatArray,
    *,
    record: int | None = None,
    row_bound: float | None = None,
    label_bound: float | None = None,
) -> Worst:
    """The record (or the one given) and its alternative with the largest divergence along a recorded run.

    ``models`` are the states that the agent computed its gradients at, shape (T, p); ``row_bound`` the public bound of
    a row's norm, in the norm of the mechanism; ``label_bound`` that of a label's size. Compared is the sum over
    releases of the divergence between the two releases' laws: |shift|^2 / (2 scale^2) for Gaussian noise, per
    coordinate r + exp(-r) - 1 with r = |shift| / scale for Laplace.
    """
    problem = environment.setting.problem
    if problem.records == 0:
        raise ValueError("an agent without records has none to replace")
    if record is not None and not 0 <= record < problem.records:
        raise ValueError(f"record = {record}: the agent has records 0 to {problem.records - 1}")
    norm = NORMS.get(environment.setting.mechanism)
    clip = environment.setting.clip if norm is not None else None
    slopes = problem.loss.slope(models @ problem.x.T, problem.y)  # (T, m)
    norms = row_norms(problem.x, norm)
    if clip is not None:
        slopes = clip_slopes(slopes, norms, clip)
    lengths = np.abs(slopes).sum(axis=0) * norms
    chosen = np.argsort(-lengths, kind="stable")[:_RECORDS] if record is None else np.array([record])
    best: tuple[float, Worst] | None = None
    for r in chosen:
        own = slopes[:, r, None] * problem.x[r]
        for x, y in _candidates(environment, models, own, problem.x[r], norms[r], row_bound, label_bound):
            slope = problem.loss.slope(models @ x, np.float64(y))  # type: ignore[arg-type]
            if clip is not None:
                slope = clip_slopes(slope, row_norms(x[None, :], norm)[0], clip)
            shifts = (own - slope[:, None] * x) * (environment.step * environment.pull / problem.records)
            found = _divergence(environment.mechanisms, shifts)
            if best is None or found > best[0]:
                attained = _attained(environment.mechanisms, shifts)
                best = found, Worst(Replacement(int(r), x, y), attained)
    assert best is not None
    return best[1]


def _candidates(
    environment: Environment,
    models: FloatArray,
    own: FloatArray,
    row: FloatArray,
    length: float,
    row_bound: float | None,
    label_bound: float | None,
) -> list[tuple[FloatArray, float]]:
    """Records whose gradients point against the record's own: along its row, or along single coordinates."""
    loss, norm = environment.setting.problem.loss, NORMS.get(environment.setting.mechanism)
    total = own.sum(axis=0)
    size = row_bound if row_bound is not None else max(length, float(environment.setting.clip or 0.0), 1.0)
    directions = []
    if length > 0:
        sign = 1.0 if float(total @ row) >= 0 else -1.0
        directions.append(sign * row / length)
    for j in np.argsort(-np.abs(total), kind="stable")[:_COORDINATES]:
        unit = np.zeros_like(row)
        unit[j] = 1.0 if total[j] >= 0 else -1.0
        directions.append(unit)
    found = []
    for direction in directions:
        # The gradient slope * x must point against `direction`: with x along it, the slope has to be negative, which
        # both losses give for a label above the prediction.
        x = direction * size
        if isinstance(loss, Squared):
            reach = float(np.abs(models @ x).max(initial=0.0))
            far = 4.0 * (reach + float(environment.setting.clip or 0.0) / (2.0 * row_norms(x[None, :], norm)[0]) + 1.0)
            found.append((x, float(min(far, label_bound) if label_bound is not None else far)))
        else:
            found.append((x, 1.0))
    return found


def _divergence(mechanisms: tuple[Mechanism | None, ...], shifts: FloatArray) -> float:
    total = 0.0
    for mechanism, shift in zip(mechanisms, shifts, strict=True):
        if mechanism is None:
            total += float(np.abs(shift).sum())
        elif mechanism.name == "laplace":
            ratio = np.abs(shift) / mechanism.scale
            total += float((ratio + np.expm1(-ratio)).sum())
        else:
            total += float(shift @ shift) / (2.0 * mechanism.scale**2)
    return total


def _attained(mechanisms: tuple[Mechanism | None, ...], shifts: FloatArray) -> float:
    parts = [
        float(row_norms(shift[None, :], mechanism.norm)[0]) / mechanism.sensitivity
        for mechanism, shift in zip(mechanisms, shifts, strict=True)
        if mechanism is not None
    ]
    return float(np.mean(parts)) if parts else 1.0


def states(environment: Environment, vectors: FloatArray) -> FloatArray:
    """The models at which a recorded agent computed its gradients, from its releases (T, p)."""
    start = np.zeros((1, vectors.shape[1]))
    at: FloatArray = np.concatenate([vectors, start])[list(environment.parents)]
    return at
