"""Canaries: records that are planted to see, from one run, how well an observer without any shard tells their values.

A canary is a record with a feature of its own, in which every other record is zero. So each exact value in the canary's
coordinates is a function of public numbers, earlier releases and the canary's value alone: an outsider computes it
with the agent's own code on a stand-in shard, which has zeros in the place of the records. For noise whose coordinates
are independent, the log-likelihood ratio of the canary's two values is then exact.

Such scores of one run may go into the sharp bound (`coordinator_free.attacks.divergence_bound`) together, although
agents answer each other. In a canary's coordinates its agent is an interactive mechanism of one bit, and whatever that
answers can be made from one draw of a private response to that bit (Lyu 2022, Composition theorems for interactive
differential privacy). Where all ratios are below e^-epsilon, each factor (1 - e^epsilon ratio) is at most delta times
the probability under a leak. So a product of excesses has a mean of at most the product of the deltas, as if the
canaries were of runs of their own.

Rules that hold here:
- Its two values are one row with opposite labels: the two datasets differ in the value of one record, which is the
  relation that the accountant uses.
- Nothing of a real record is used, and no secret of an agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.anchors import MINIMISERS as ANCHORED_MINIMISERS
from coordinator_free.algorithm import Algorithm, Attack
from coordinator_free.attacks.attacker import Attacker, Observed
from coordinator_free.attacks.families import CoordinateSteps, Minimisers, family
from coordinator_free.attacks.inversion import Inverted, in_force, invert
from coordinator_free.attacks.likelihood_ratio import Replacement
from coordinator_free.attacks.noise_tests import NoiseRow
from coordinator_free.attacks.recorded_states import Shifts, between
from coordinator_free.privacy.mechanisms import Gaussian, Laplace
from coordinator_free.problem.losses import Loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray

FAMILIES = (Gaussian.name, Laplace.name)
"""Mechanisms whose noise is independent in each coordinate."""


@dataclass(frozen=True)
class Canary:
    """Record ``record`` of agent ``agent``: ``length`` in feature ``column``, 0 in all others.

    Its label is ``label`` or ``-label``.
    """

    agent: int
    record: int
    column: int
    length: float
    label: float

    def row(self, dimension: int) -> FloatArray:
        """Its features, shape (dimension,)."""
        x = np.zeros(dimension)
        x[self.column] = self.length
        return x


@dataclass(frozen=True, eq=False)
class Judged:
    """What the releases of one agent say about its canaries.

    ``scores`` (canaries,): ln p(releases | the canary's value) / p(releases | its other value). ``shares`` (canaries,):
    the mean share of the charged sensitivity between the two. ``noise``: what its releases contain in the coordinates
    of canaries.
    """

    scores: FloatArray
    shares: FloatArray
    noise: list[NoiseRow]


def refusal(make: type[Algorithm], learning: Mapping[str, object], mechanism: str) -> str | None:
    """Why canaries cannot be judged in runs of this kind; None where they can."""
    if not {mechanism, learning.get("warm_mechanism") or mechanism} <= set(FAMILIES):
        able = " or ".join(f'"{name}"' for name in FAMILIES)
        return f"accepted with privacy.mechanism = {able}, whose noise is independent in each coordinate"
    if family(make, learning) not in (Attacker, CoordinateSteps, Minimisers) or learning.get("last_round") == "dvp":
        return (
            "accepted where each release is an exact value plus its noise: not for masked sums, noise in objectives or "
            "noisy local steps"
        )
    return None


def stand_in(setting: Setting, records: int, canaries: Sequence[Canary], coins: Sequence[bool]) -> Setting:
    """The agent's setting with zeros for all of its ``records`` but the canaries, whose values the coins decide."""
    x, y = np.zeros((records, setting.problem.x.shape[1])), np.ones(records)
    for canary, coin in zip(canaries, coins, strict=True):
        x[canary.record] = canary.row(x.shape[1])
        y[canary.record] = canary.label if coin else -canary.label
    problem = setting.problem
    return replace(setting, problem=LocalProblem(x, y, problem.loss, problem.regularisation))


def length_of(
    make: type[Algorithm], learning: Mapping[str, object], loss: Loss, clip: float | None, bounds: Sequence[float]
) -> float:
    """The length of canaries' rows: the public bound of rows, or so long that the clip acts at a model near zero.

    Exact minimisers cannot clip: there a row is as long as the clip allows.
    """
    if make.attacked_by is Attack.MINIMISERS or learning.get("anchor") in ANCHORED_MINIMISERS:
        return min([(clip or 1.0) / loss.slope_bound, *bounds])
    return min(bounds) if bounds else 4.0 * (clip or 0.25)


def label_of(loss: Loss, length: float, clip: float | None, label_bound: float | None) -> float:
    """The label of canaries: 1, or for a loss with unbounded slopes one so far away that the clip acts."""
    if np.isfinite(loss.slope_bound):
        return 1.0
    label = max(1.0, 4.0 * (clip or 0.0) / length)
    return label if label_bound is None else min(label, label_bound)


def judge(observed: Observed, canaries: Sequence[Canary], columns: Sequence[int]) -> Judged:
    """Judge an agent's canaries by its releases; ``observed`` has a `stand_in`, ``columns`` are those of all canaries.

    Raises
    ------
    InversionError
        If a release that one of the agent's releases used is not recorded.
    """
    setting, mechanisms = observed.setting, observed.mechanisms()
    problem = setting.problem
    as_is = invert(observed.code(), observed.recorded, observed.heard)

    def moved(change: Replacement) -> Shifts:
        changed = observed.make(replace(setting, problem=change.apply(problem)))  # type: ignore[call-arg]
        return between(as_is, invert(changed, observed.recorded, observed.heard), mechanisms)

    shifts = [moved(Replacement(c.record, problem.x[c.record], -float(problem.y[c.record]))) for c in canaries]
    probe = np.zeros(problem.x.shape[1])
    probe[list(columns)] = 1.0  # a record in all columns shows which coordinates belong to canaries
    noise = _noise(observed, as_is, moved(Replacement(0, probe, float(problem.y[0]))))
    scores = np.array([_score(as_is, found) for found in shifts])
    return Judged(scores, np.array([found.attained for found in shifts]), noise)


def _score(as_is: Sequence[Inverted], found: Shifts) -> float:
    """The log-likelihood ratio of all releases, from the coordinates in which the two values differ."""
    score = 0.0
    for row, shift, mechanism in zip(as_is, found.shifts, found.mechanisms, strict=True):
        touched = np.flatnonzero(shift)
        if mechanism is not None and touched.size:
            noise = row.noise[touched]
            score += float(mechanism.log_density(noise) - mechanism.log_density(noise + shift[touched]))
    return score


def _noise(observed: Observed, as_is: Sequence[Inverted], probed: Shifts) -> list[NoiseRow]:
    """The noise in the coordinates that a record in all columns of canaries moves: no real record is in them."""
    noised = [s != 0.0 for s, made in zip(probed.shifts, probed.mechanisms, strict=True) if made is not None]
    touched = np.flatnonzero(np.any(noised, axis=0))
    rows, before = [], np.zeros(touched.size)
    for row in as_is:
        mechanism = in_force(observed.account.mechanism(row.release.index), row.mechanism)
        if mechanism is not None and row.mechanism is not None:
            said = row.release.vector if row.noised is None else row.noised
            drift = row.exact[touched] - before
            rows.append(NoiseRow(observed.setting.agent, row.release.index, row.noise[touched], mechanism, drift))
            before = said[touched]
    return rows
