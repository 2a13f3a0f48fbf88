"""Simulated records of the same shape as some data: what `tune` and `compare` look at in the place of private records.

Only public numbers of the data enter: the agents' sizes, the number of features, the bounds of rows and labels, and
the graph. So figures on them cost no privacy, and are about data of this shape, not about these data. The law is that
of the rule for spending a budget (`coordinator_free.problem.spending`):

    rows      one constant feature, the others normal, with second moments R^2 / 3 / (j H_p); none longer than R
    models    b long in each direction, and for each agent a deviation from it of b / 2
    labels    x . theta + noise, so that their size is the usual one; or signs, with the logistic probability
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from coordinator_free.problem.losses import loss
from coordinator_free.problem.spending import curvatures, usual_model
from coordinator_free.release import FloatArray
from node.configuration.sections import Configuration
from node.data.columns import row_norms
from node.data.dealt import Dealt, Shard
from node.dealing.proposal import usual_label
from node.dealing.reservation import OWN_SOURCES
from node.experiments.trial import TrialError

On = Literal["data", "simulated"]
PLACES: tuple[On, ...] = ("data", "simulated")
OWN = 0.5
"""The deviation of an agent's model from the common one, in units of b."""


def place(configuration: Configuration, asked: str | None) -> On:
    """Where trials look: simulated records where the data are the user's own and private, unless ``asked`` otherwise.

    Raises
    ------
    TrialError
        ``asked`` is none of `PLACES`, or the task is synthetic, whose instances of other seeds are used.
    """
    own = configuration.data.source in OWN_SOURCES and configuration.private
    if asked is None:
        return "simulated" if own else "data"
    if asked not in PLACES:
        raise TrialError(f"--on {asked}: accepted are {' and '.join(PLACES)}")
    if configuration.data.source == "synthetic":
        raise TrialError(f'--on {asked}: data.source = "synthetic" has no records of anybody; leave it out')
    return "data" if asked == "data" else "simulated"


def simulated(configuration: Configuration, dealt: Dealt, seed: int) -> Dealt:
    """Records drawn with ``seed`` in the place of those of ``dealt``: agents, sizes, features and bounds are the same.

    Raises
    ------
    TrialError
        Nothing public bounds rows or labels.
    """
    label, bound = usual_label(configuration, dealt.label_bound), dealt.row_bounds.get("l2")
    if label is None or bound is None:
        what = "rows" if bound is None else "labels"
        raise TrialError(f"--on simulated: nothing public bounds the {what}; state data.bounds, or use --on data")
    judge, random = loss(configuration.learning.loss), np.random.default_rng([seed, 11])
    size, p = usual_model(judge, label, bound), dealt.dimension
    deviations = np.sqrt(curvatures(judge, bound, p) / judge.curvature_bound)
    common = size * random.choice([-1.0, 1.0], size=p)
    spread = math.sqrt(max(0.0, label**2 - float(deviations**2 @ np.full(p, (1.0 + OWN**2) * size**2))))

    def drawn(records: int, model: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = random.normal(size=(records, p)) * deviations
        x[:, 0] = deviations[0]
        longest = [row_norms(x, norm) / most for norm, most in dealt.row_bounds.items()]
        x /= np.maximum(1.0, np.max(longest, axis=0))[:, None]
        if judge.metric == "accuracy":
            return x, np.where(random.random(records) < 1.0 / (1.0 + np.exp(-x @ model)), 1.0, -1.0)
        y = x @ model + spread * random.normal(size=records)
        return x, y if dealt.label_bound is None else np.clip(y, -dealt.label_bound, dealt.label_bound)

    shards = []
    for shard in dealt.shards:
        model = common + OWN * size * random.normal(size=p)
        shards.append(Shard(*drawn(shard.records, model), *drawn(len(shard.y_test), model), shard.arrivals))
    return replace(dealt, shards=tuple(shards), sources=None)
