"""Settings chosen by scores of private records, at a stated epsilon: the best of a random number of private trials.

A trial draws one candidate, runs it in this process with the whole budget of a run and fresh noise, and scores the
agents' models on a part of their training rows. The score is the mean over agents of a loss between 0 and a public
largest value. Given what was released in the trial, a record moves the loss of its own agent alone, so the score moves
by largest / agents, and gets Gaussian noise for that. Releases and score together are mu-Gaussian in one record,
mu^2 = mu_releases^2 + 1 / multiplier^2. What the best of the trials costs is in `coordinator_free.privacy.selection`.

Rules that hold here:
- This process holds all records, as the one that deals them does. What it shows is covered by epsilon: the chosen
  settings and their noisy score, and nothing else; neither how many trials were made, nor which.
- The whole cost is in the registry of the data before the first trial.
- An error of an agent's finish counts as the largest loss of that agent alone. All other errors of a trial follow from
  what was released in it, and count as the largest loss of all.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import numpy as np

from coordinator_free.agent import Agent
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.noise import Stream
from coordinator_free.privacy.parameters import gdp
from coordinator_free.privacy.selection import Selection, affordable, cheapest, chosen, drawn
from coordinator_free.privacy.windows import most_used
from coordinator_free.problem import baselines
from coordinator_free.problem.losses import Loss, loss
from coordinator_free.release import FloatArray
from node.configuration.sections import Configuration
from node.data import FEATURES_OF_RECORDS, Dealt
from node.dealing.preparation import Preparation
from node.dealing.proposal import usual_label
from node.dealing.reservation import charge_selection
from node.dealing.rows import deal_data
from node.experiments.grids import changed, parameters, value_of
from node.experiments.promises import false_promise
from node.experiments.trial import TrialError, agents_in_twin, prepared_for_twin, transcript_of
from node.experiments.tune import selected, validation
from node.folder.profiles import is_learned
from node.untyped import Changes, Json

DELTA_SHARE: Final = 0.1
"""Of privacy.delta: the rest is left for the runs on the same records."""
LARGEST_LOSS: Final = 2.0
"""The largest root mean squared error of an agent that counts, in units of the usual label."""
MOST: Final = 1000
"""Candidates."""


@dataclass(frozen=True)
class Selected:
    """What was chosen, and what that cost. ``score`` has noise of the deviation ``noise``.

    Both are None where no trial was made: the configuration stays as it is.
    """

    chosen: Changes
    score: float | None
    noise: float
    metric: str
    model: str
    candidates: int
    trials: int
    law: str
    epsilon: float
    delta: float
    record: str

    def as_json(self) -> Json:
        """Plain values."""
        return asdict(self)


def select(
    configuration: Configuration,
    *,
    epsilon: float,
    trials: int,
    grids: Mapping[str, Sequence[Any]],
    only: Sequence[str] = (),
) -> Selected:
    """Choose among all combinations of what is tried, for ``epsilon`` in all; ``trials`` are made on average.

    Raises
    ------
    TrialError
        These settings, data or this budget admit no such selection; nothing was charged then.
    ConfigurationError
        The total of the data does not admit the cost.
    """
    _check(configuration)
    tried = selected(parameters(configuration, grids), only)
    candidates = [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())]
    if not 2 <= len(candidates) <= MOST:
        raise TrialError(f"--private: {len(candidates)} candidates; accepted are 2 to {MOST}: use --only and --try")
    seed = configuration.run.seed or 0
    whole = deal_data(configuration, seed)
    dealt = validation(whole, seed)
    scale = _Scale.of(configuration, dealt)
    runs = [_prepared(changed(configuration, one), seed, dealt) for one in candidates]
    spent = max(_mu(run) for run in runs)
    selection = _afforded(epsilon, trials, DELTA_SHARE * (configuration.privacy.delta or 0.0), spent)
    noise = mechanism("gaussian", scale.sensitivity, 1.0 / math.sqrt(selection.mu**2 - spent**2), 1)
    charge_selection(configuration, whole, selection)

    best: tuple[float, int] | None = None
    for _ in range(drawn(selection.law, trials, _fresh())):
        place = chosen(len(runs), _fresh())
        score = float(noise.perturb(np.array([scale.score(runs[place])]), _fresh())[0])
        best = (score, place) if best is None else min(best, (score, place))
    settings = {} if best is None else candidates[best[1]]
    return Selected(
        chosen={path: value for path, value in settings.items() if value != value_of(configuration, path)},
        score=None if best is None else scale.shown(best[0]),
        noise=noise.scale,
        metric=scale.judge.metric,
        model="free finish" if configuration.learning.finish else "together",
        candidates=len(candidates),
        trials=trials,
        law=selection.law,
        epsilon=selection.epsilon,
        delta=selection.delta,
        record=whole.record,
    )


def _fresh() -> Stream:
    return Stream(os.urandom(32), 0)


def _check(c: Configuration) -> None:
    """Raises `TrialError` where a trial would not be Gaussian in one record, or its records cost nothing."""
    false = false_promise(c.run.name, c)
    if false is not None:
        raise TrialError(false)
    if c.data.source == "synthetic":
        raise TrialError('--private: data.source = "synthetic" has no records of anybody; leave it out')
    if c.data.source in FEATURES_OF_RECORDS:
        raise TrialError(
            f'--private: the features of data.source = "{c.data.source}" are made of the records themselves'
        )
    if c.privacy.mechanism != "gaussian":
        raise TrialError(f'--private: privacy.mechanism = "{c.privacy.mechanism}"; accepted is "gaussian"')
    if c.run.simulation:
        raise TrialError("--private: run.simulation = true makes noise that the seed shows; accepted is false")
    if is_learned(c):
        raise TrialError('--private: topology.kind = "private-similarity" makes a graph of the records; use another')


def _prepared(configuration: Configuration, seed: int, dealt: Dealt) -> Preparation:
    run = configuration.run.model_copy(update={"seed": seed})
    return prepared_for_twin(configuration.model_copy(update={"run": run}), dealt)


def _mu(preparation: Preparation) -> float:
    """Of the releases of one trial: the largest over agents, from public numbers alone."""
    found = [0.0]
    for i, agent in enumerate(agents_in_twin(preparation)):
        charges = most_used(((k, agent.charge(k)) for k in range(preparation.public(i).releases)), agent.windows)
        if any(charge is not None and charge.name != "gaussian" for charge in charges):
            raise TrialError("--private: the noise is in objectives; accepted are algorithms that add it to a vector")
        found.append(gdp(charges) or 0.0)
    return max(found)


def _afforded(epsilon: float, trials: int, delta: float, spent: float) -> Selection:
    selection, least = affordable(epsilon, trials, delta), cheapest(spent, trials, delta).epsilon
    if not selection.mu > spent * (1.0 + 1e-6):
        raise TrialError(
            f"--private {epsilon:g}: {trials} trials on average, each with the releases of a run, cost {least:.4g} "
            f"without any score; accepted: more than that, fewer --trials, or a smaller privacy.epsilon"
        )
    return selection


@dataclass(frozen=True)
class _Scale:
    """The loss of an agent that a score is made of, from 0 to ``largest``; ``sensitivity`` is that of the score."""

    judge: Loss
    largest: float
    sensitivity: float

    @classmethod
    def of(cls, c: Configuration, dealt: Dealt) -> _Scale:
        judge = loss(c.learning.loss)
        label = usual_label(c, dealt.label_bound)
        if label is None:
            raise TrialError("--private: nothing public bounds the labels, so no score has a bound; state data.bounds")
        largest = 1.0 if judge.larger_is_better else LARGEST_LOSS * label
        judging = sum(len(shard.y_test) > 0 for shard in dealt.shards)
        if not judging:
            raise TrialError("--private: no agent has enough training rows to be judged by some of them")
        return cls(judge, largest, largest / judging)

    def score(self, preparation: Preparation) -> float:
        """The mean loss over agents that have rows to be judged by, without noise."""
        tests = [(shard.x_test, shard.y_test) for shard in preparation.dealt.shards]
        judged = np.array([len(y) > 0 for _, y in tests])
        found = np.full(len(tests), np.nan)
        with np.errstate(all="ignore"):
            models = _models(preparation)
            if models is not None:
                found = baselines.scores(models, tests, self.judge)
            losses = 1.0 - found if self.judge.larger_is_better else found
        losses = np.where(np.isfinite(losses), np.clip(losses, 0.0, self.largest), self.largest)
        return float(losses[judged].mean())

    def shown(self, score: float) -> float:
        """A noisy score in the units of the metric."""
        return 1.0 - score if self.judge.larger_is_better else score


def _models(preparation: Preparation) -> FloatArray | None:
    """The agents' models of one trial, (n, p); None where what was released led to an error."""
    guarded = [_Guarded(agent) for agent in agents_in_twin(preparation)]
    try:
        transcript = transcript_of(preparation, cast("list[Agent]", guarded))
    except (ValueError, ArithmeticError):
        return None
    missing = np.full(preparation.dealt.dimension, np.nan)
    if preparation.configuration.learning.finish:
        return np.stack([missing if finish is None else finish for finish in transcript.finishes])
    return np.stack([agent.model for agent in guarded])


class _Guarded:
    """An agent whose finish, which reads its real records, raises nothing."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def finish(self) -> FloatArray | None:
        try:
            return self._agent.finish()
        except (ValueError, ArithmeticError):
            return None
