"""Membership inference: which records an agent trained on, judged from its releases.

The observer holds a record and the agent's releases, but not the other records. Members are an agent's training
records, non-members its held-out ones, which come from the same source.

Rules that hold here:
- A score is higher where the record looks more like a member.
- What is reported is the area under the curve and the true positives at 1% false positives: an average says little
  about the few records that an attack is sure of (Carlini et al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from coordinator_free.attacks.likelihood_ratio import Environment, clip_slopes, row_norms
from coordinator_free.attacks.worst_case import states
from coordinator_free.privacy.families import NORMS
from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray


@dataclass(frozen=True)
class Membership:
    """``auc``: the probability that a member scores above a non-member (ties count one half); 0.5 is chance.

    ``deviation``: its standard deviation if the scores tell nothing. ``true_positives``: the share of members found
    where at most ``false_positives`` of the non-members are named.
    """

    auc: float
    deviation: float
    true_positives: float
    false_positives: float
    members: int
    others: int


def judge(members: FloatArray, others: FloatArray, false_positives: float = 0.01) -> Membership:
    """The curve of scores of members and of others; NaN where one of both is empty."""
    m, n = members.size, others.size
    if m == 0 or n == 0:
        return Membership(math.nan, math.nan, math.nan, false_positives, m, n)
    ranks = rankdata(np.concatenate([members, others]))
    auc = (float(ranks[:m].sum()) - m * (m + 1) / 2.0) / (m * n)
    allowed = math.floor(false_positives * n)
    threshold = np.sort(others)[::-1][allowed] if allowed < n else -np.inf
    return Membership(
        auc=auc,
        deviation=math.sqrt((m + n + 1) / (12.0 * m * n)),
        true_positives=float((members > threshold).mean()),
        false_positives=false_positives,
        members=m,
        others=n,
    )


def gradient_scores(environment: Environment, vectors: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Scores of candidate records x (c, p), y (c,): how far a coordinate-descent agent's releases move along them.

    Each release shows the agent's mean clipped gradient plus noise. A member's own gradient is a part of that mean; the
    score is the sum over releases of their inner products, each over its noise's variance, over the deviation that the
    noise gives it.
    """
    setting = environment.setting
    models = states(environment, vectors)
    moved = (vectors - (1.0 - environment.step) * models) / environment.step
    seen = (environment.centres - moved) / environment.pull
    seen -= setting.problem.regularisation * setting.problem.loss.penalty_gradient(models)
    norm = NORMS.get(setting.mechanism)
    slopes = setting.problem.loss.slope(models @ x.T, y)
    if norm is not None:
        slopes = clip_slopes(slopes, row_norms(x, norm), float(setting.clip or 0.0))
    weights = np.array([1.0 if m is None else 1.0 / m.scale**2 for m in environment.mechanisms])
    inner = weights @ (slopes * (seen @ x.T))
    size = np.sqrt(weights @ np.square(slopes)) * np.sqrt(np.square(x).sum(axis=1))
    scores: FloatArray = np.divide(inner, size, out=np.zeros_like(inner), where=size > 0)
    return scores


def loss_scores(model: FloatArray, x: FloatArray, y: FloatArray, loss: Loss) -> FloatArray:
    """Scores from a released model alone: members have the smaller loss (Yeom et al. 2018). Any algorithm."""
    scores: FloatArray = -loss.values(model, x, y)
    return scores
