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

from coordinator_free.attacks.likelihood_ratio import (
    Environment,
    FreshNoise,
    Replacement,
    clip_slopes,
    row_norms,
    run_trials,
)
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.problem.losses import Squared
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
    """The record (or the one given) and its alternative with the largest divergence along recorded or fresh runs.

    ``models`` are the states that the agent computed its gradients at, shape (T, p), or (runs, T, p) for the mean over
    several runs (see `sampled_states`); ``row_bound`` the public bound of a row's norm, in the norm of the mechanism;
    ``label_bound`` that of a label's size. Compared is the sum over releases of the divergence between the two
    releases' laws: |shift|^2 / (2 scale^2) for Gaussian noise, per coordinate r + exp(-r) - 1 with r = |shift| / scale
    for Laplace.
    """
    problem = environment.setting.problem
    if problem.records == 0:
        raise ValueError("an agent without records has none to replace")
    if record is not None and not 0 <= record < problem.records:
        raise ValueError(f"record = {record}: the agent has records 0 to {problem.records - 1}")
    norm = NORMS.get(environment.setting.mechanism)
    clip = environment.setting.clip if norm is not None else None
    slopes = problem.loss.slope(models @ problem.x.T, problem.y)  # (runs, T, m)
    norms = row_norms(problem.x, norm)
    if clip is not None:
        slopes = clip_slopes(slopes, norms, clip)
    lengths = np.abs(slopes).reshape(-1, problem.records).sum(axis=0) * norms
    chosen = np.argsort(-lengths, kind="stable")[:_RECORDS] if record is None else np.array([record])
    best: tuple[float, Worst] | None = None
    for r in chosen:
        own = slopes[..., r, None] * problem.x[r]
        for x, y in _candidates(environment, models, own, problem.x[r], norms[r], row_bound, label_bound):
            slope = problem.loss.slope(models @ x, np.float64(y))  # type: ignore[arg-type]
            if clip is not None:
                slope = clip_slopes(slope, row_norms(x[None, :], norm)[0], clip)
            shifts = (own - slope[..., None] * x) * (environment.step * environment.pull / problem.records)
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
    total = own.reshape(-1, row.size).sum(axis=0)
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
    """Summed over releases, averaged over runs; ``shifts`` has shape (..., T, p)."""
    total = 0.0
    for k, mechanism in enumerate(mechanisms):
        shift = shifts[..., k, :].reshape(-1, shifts.shape[-1])
        if mechanism is None:
            told = np.abs(shift)
        elif mechanism.name == "laplace":
            ratio = np.abs(shift) / mechanism.scale
            told = ratio + np.expm1(-ratio)
        else:
            told = np.square(shift) / (2.0 * mechanism.scale**2)
        total += float(told.sum()) / len(shift)
    return total


def _attained(mechanisms: tuple[Mechanism | None, ...], shifts: FloatArray) -> float:
    parts = [
        float(row_norms(shifts[..., k, :].reshape(-1, shifts.shape[-1]), mechanism.norm).mean()) / mechanism.sensitivity
        for k, mechanism in enumerate(mechanisms)
        if mechanism is not None
    ]
    return float(np.mean(parts)) if parts else 1.0


def sampled_states(environment: Environment, vectors: FloatArray, runs: int, noise: FreshNoise) -> FloatArray:
    """The models at which the recorded agent and ``runs`` fresh runs of it compute gradients, (1 + runs, T, p).

    What is worst along one run alone may be less so along others: a record that was always clipped there, for one.
    """
    problem = environment.setting.problem
    same = Replacement(0, problem.x[0], float(problem.y[0]))
    fresh = run_trials(environment, same, runs, noise, replaced=False, keep=True).releases
    assert fresh is not None
    found = [states(environment, vectors), *(states(environment, fresh[:, k]) for k in range(runs))]
    return np.stack(found)


def states(environment: Environment, vectors: FloatArray) -> FloatArray:
    """The models at which a recorded agent computed its gradients, from its releases (T, p)."""
    return np.stack(
        [vectors[parent] if parent >= 0 else environment.origin(k) for k, parent in enumerate(environment.parents)]
    )
