"""The likelihood-ratio attack on any algorithm that perturbs its releases: every state held as it was recorded.

An accountant adds up releases of which each may depend on all earlier ones in any way. So it also covers the releases
at states that are fixed beforehand, here those of the recorded run: the shift that a replaced record makes in each
release is then a constant, and a trial is fresh noise around it. Weaker than running the agent anew only where its
own earlier noise would have been carried on; it needs nothing but the agent's code run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinator_free.agent import Agent, Setting
from coordinator_free.attacks.inversion import Heard, Inverted, in_force, invert
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Replacement
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.problem.losses import Squared
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release

_FAR = 1e4
"""How far a label is from all predictions, in units of what makes a gradient as long as the clip."""


@dataclass(frozen=True, eq=False)
class Shifts:
    """What a replaced record changes: ``shifts[k]`` (d,) of release k, on the grid, and what release k was charged."""

    shifts: tuple[FloatArray, ...]
    mechanisms: tuple[Mechanism | None, ...]

    @property
    def divergence(self) -> float:
        """How much all releases together tell: the sum of |shift|^2 / scale^2 (infinite without noise)."""
        told = 0.0
        for shift, mechanism in zip(self.shifts, self.mechanisms, strict=True):
            if shift.any():
                told += np.inf if mechanism is None else float(shift @ shift) / mechanism.scale**2
        return told

    @property
    def attained(self) -> float:
        """Mean of (shift's norm) / (sensitivity charged) over the noisy releases that it shifts; 1 without any."""
        shares = self.shares()
        parts = [share for share in shares if share > 0.0] or shares
        return float(np.mean(parts)) if parts else 1.0

    def shares(self) -> list[float]:
        """(Shift's norm) / (sensitivity charged) of each release with noise."""
        return [
            float(np.abs(s).sum() if m.norm == "l1" else np.sqrt(s @ s)) / m.sensitivity
            for s, m in zip(self.shifts, self.mechanisms, strict=True)
            if m is not None
        ]


def shifts(
    make: Callable[[Setting], Agent],
    setting: Setting,
    replacement: Replacement,
    recorded: Sequence[Release],
    heard: Heard,
    mechanisms: Sequence[Mechanism | None],
) -> Shifts:
    """The shifts of the recorded releases for one replacement: see `shifts_of`."""
    return shifts_of(make, setting, [replacement], recorded, heard, mechanisms)[0]


def shifts_of(
    make: Callable[[Setting], Agent],
    setting: Setting,
    replacements: Sequence[Replacement],
    recorded: Sequence[Release],
    heard: Heard,
    mechanisms: Sequence[Mechanism | None],
) -> list[Shifts]:
    """The shifts of the recorded releases for each replacement, by running the agent along them with either record.

    Raises `InversionError` if a release that one of them used is not recorded.
    """
    as_is = invert(make(setting), recorded, heard)
    changed = [
        invert(make(replace(setting, problem=replacement.apply(setting.problem))), recorded, heard)
        for replacement in replacements
    ]
    return [between(as_is, one, mechanisms) for one in changed]


def between(as_is: Sequence[Inverted], changed: Sequence[Inverted], mechanisms: Sequence[Mechanism | None]) -> Shifts:
    """What differs between the exact values of two runs along the same releases."""
    found: list[FloatArray] = []
    made_with: list[Mechanism | None] = []
    for one, other, charged in zip(as_is, changed, mechanisms, strict=True):
        if charged is None:
            found.append(one.exact - other.exact)
            made_with.append(None)
        else:
            found.append((np.rint(one.exact / GRID) - np.rint(other.exact / GRID)) * GRID)
            made_with.append(in_force(charged, one.mechanism))
    return Shifts(tuple(found), tuple(made_with))


def candidates(
    setting: Setting, *, row_bound: float | None = None, record: int | None = None, most: int = 4
) -> list[Replacement]:
    """Alternatives worth trying: the records with the longest rows (or the one given), each turned against itself.

    The label is exchanged, or the row, which points the gradient the other way; ``row_bound`` stretches the row to the
    public bound of its Euclidean norm. Where gradients are clipped and labels have no bound of their own (squared
    loss), a label is also so far away that the clip acts.
    """
    problem = setting.problem
    lengths = np.sqrt(np.square(problem.x).sum(axis=1))
    chosen = np.argsort(-lengths, kind="stable")[:most] if record is None else np.array([record])
    found = []
    for r in chosen:
        scale = row_bound / lengths[r] if row_bound is not None and lengths[r] > 0 else 1.0
        found.append(Replacement(int(r), problem.x[r] * scale, -float(problem.y[r])))
        found.append(Replacement(int(r), -problem.x[r] * scale, float(problem.y[r])))
        if setting.clip is not None and isinstance(problem.loss, Squared) and lengths[r] > 0:
            far = _FAR * (1.0 + setting.clip / lengths[r])
            found += [Replacement(int(r), problem.x[r] * scale, label) for label in (far, -far)]
    return found


def adversarial(setting: Setting, releases: Sequence[FloatArray], row_bound: float | None) -> Setting:
    """The same agent with a record 0 of the worst possible value: its alternative pulls as far the other way.

    Its row is as long as ``row_bound`` allows (None: four clips, so that the clip acts), in the direction in which the
    released models are smallest: there no prediction makes either gradient shorter. Laplace noise shows most of a shift
    in one coordinate, so with a sensitivity in L1 the direction is one of these.
    """
    problem = setting.problem
    length = row_bound if row_bound is not None else 4.0 * (setting.clip or 0.25)
    x, y = problem.x.copy(), problem.y.copy()
    models = np.array([vector for vector in releases if vector.size == problem.dimension]).reshape(
        -1, problem.dimension
    )
    energy = models.T @ models
    one_by_one = NORMS.get(setting.mechanism) == "l1"
    towards = np.eye(len(energy))[np.argmin(np.diag(energy))] if one_by_one else np.linalg.eigh(energy)[1][:, 0]
    x[0], y[0] = length * towards, 1.0
    if isinstance(problem.loss, Squared) and setting.clip is not None:
        y[0] = _FAR * (1.0 + setting.clip / length)
    return replace(setting, problem=LocalProblem(x, y, problem.loss, problem.regularisation))


def shift_scores(found: Shifts, trials: int, noise: FreshNoise) -> tuple[FloatArray, FloatArray]:
    """Scores of ``trials`` fresh draws around the recorded values, with the record as it is and with it replaced."""
    scores = np.zeros((2, trials))
    for shift, mechanism in zip(found.shifts, found.mechanisms, strict=True):
        if not shift.any():
            continue
        if mechanism is None:
            return np.full(trials, np.inf), np.full(trials, -np.inf)
        block = max(1, 200_000 // shift.size)
        for low in range(0, trials, block):
            size = (min(block, trials - low), shift.size)
            as_is, changed = noise.perturb(mechanism, np.zeros(size)), noise.perturb(mechanism, np.zeros(size))
            part = slice(low, low + size[0])
            scores[0, part] += mechanism.log_density(as_is) - mechanism.log_density(as_is + shift)
            scores[1, part] += mechanism.log_density(changed - shift) - mechanism.log_density(changed)
    return scores[0], scores[1]
