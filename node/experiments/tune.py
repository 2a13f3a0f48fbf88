"""Parameters of a configuration, chosen where they will not be judged: on other instances, or on validation splits.

Rules that hold here:
- Held-out rows of the configured task are never looked at. The synthetic task is tuned on instances of other seeds,
  private data of the user's own on simulated records of the same shape, any other data on a part of each agent's
  *training* rows, which a trial does not learn from.
- One parameter at a time, in a fixed order, twice (`node.experiments.grids`).
- The best of many trials flatters itself. So the chosen and the configured settings are scored once more, on instances
  or splits that the search did not see.
- Everything runs in the twin with the whole budget in each trial: noise, numbers of records and of updates are those
  of a real run. Tuning on private records looks at them many times, and no budget accounts for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coordinator_free.problem import baselines
from coordinator_free.problem.losses import loss
from coordinator_free.problem.objective import ProblemError
from node.configuration.sections import Configuration
from node.configuration.writing import toml_value
from node.data import FEATURES_OF_RECORDS
from node.data.dealt import Dealt, Shard
from node.dealing.preparation import prepare
from node.dealing.rows import deal_data
from node.experiments.compare import half_width, models_of
from node.experiments.grids import changed, edge, parameters, value_of
from node.experiments.simulated import On, simulated
from node.experiments.trial import Trial, TrialError, in_twin, prepared_for_twin, seeded
from node.untyped import Changes, Json

VALIDATION = 0.2
"""Part of each agent's training rows that is kept for judging trials."""
ELSEWHERE = 1_000_000
"""Added to a seed: the instances to tune on are others than those of any run."""
PASSES = 2


@dataclass(frozen=True)
class Trying:
    """One trial: the settings that it changed, and its score on each instance, with mean and deviation.

    Without a score it could not run, and ``error`` says why.
    """

    settings: Changes
    scores: tuple[float, ...] = ()
    error: str | None = None

    @property
    def score(self) -> float | None:
        """The mean score."""
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """The deviation over instances; None for one instance."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None

    def as_json(self) -> Json:
        """Plain values."""
        return {"settings": self.settings, "score": self.score, "deviation": self.deviation, "error": self.error}


@dataclass(frozen=True)
class Again:
    """Scores on instances or splits that the search did not see; ``gain`` is positive where the chosen are better."""

    before: float | None
    after: float | None
    alone: float | None
    gain: float | None
    gain_half_width: float | None
    """Half of the gain's 95% interval over instances; None for one instance."""


@dataclass(frozen=True)
class Tuned:
    """What was found: ``chosen`` settings that differ from the configured ones, and all trials in order.

    ``before``, ``after`` and ``alone`` (the agents alone) are scores on the instances of the search.
    """

    chosen: Changes
    before: float | None
    after: float
    alone: float | None
    again: Again
    model: str
    metric: str
    larger_is_better: bool
    on: str
    accounted: bool
    trials: list[Trying]
    notes: list[str]

    def as_json(self) -> Json:
        """Plain values."""
        return {**vars(self), "again": vars(self.again), "trials": [trial.as_json() for trial in self.trials]}


def tune(
    configuration: Configuration,
    *,
    instances: int = 3,
    grids: Mapping[str, Sequence[Any]] | None = None,
    only: Sequence[str] = (),
    on: On = "data",
    tell: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search `parameters`, one at a time, ``PASSES`` times; ``only`` names those to search, ``on`` says where."""
    tried = selected(parameters(configuration, grids or {}), only)
    judge = _Judge(configuration, instances, on, tell)
    start = {path: value_of(configuration, path) for path in tried}
    best = _search(judge, start, tried)
    if best.score is None:
        raise TrialError(f"no trial could run: {best.error}")
    chosen = {path: value for path, value in best.settings.items() if value != start[path]}
    again = _again(_Judge(configuration, instances, on, tell, further=1), start, best.settings)
    return Tuned(
        chosen=chosen,
        before=judge.score(start).score,
        after=best.score,
        alone=_mean(judge.alone()),
        again=again,
        model=judge.model,
        metric=judge.metric,
        larger_is_better=judge.larger_is_better,
        on=judge.on,
        accounted=judge.elsewhere or not configuration.private,
        trials=judge.trials,
        notes=_notes(start, best.settings, tried, again, judge),
    )


def _search(judge: _Judge, start: Changes, tried: Mapping[str, Sequence[Any]]) -> Trying:
    """The best trial."""
    best = judge.score(start)
    for _ in range(PASSES):
        before = best.settings
        for path, values in tried.items():
            for value in values:
                trial = judge.score({**best.settings, path: value})
                if judge.better(trial, best):
                    best = trial
        if best.settings == before:
            break
    return best


def _again(judge: _Judge, start: Changes, chosen: Changes) -> Again:
    before, after = judge.score(start), judge.score(chosen)
    gains = None
    if before.scores and after.scores:
        gains = (np.array(after.scores) - np.array(before.scores)) * (1.0 if judge.larger_is_better else -1.0)
    return Again(
        before=before.score,
        after=after.score,
        alone=_mean(judge.alone()),
        gain=None if gains is None else float(gains.mean()),
        gain_half_width=None if gains is None else half_width(gains),
    )


def _notes(
    start: Mapping[str, Any],
    best: Mapping[str, Any],
    tried: Mapping[str, Sequence[Any]],
    again: Again,
    judge: _Judge,
) -> list[str]:
    """What a reader of the result has to know."""
    found = []
    for path, value in best.items():
        where = edge(path, value, [*tried[path], start[path]])
        if where is not None:
            beyond = "smaller" if where == "smallest" else "larger"
            found.append(f"{path} = {toml_value(value)} is the {where} value tried: give {beyond} ones with --try")
    better = None if again.after is None or again.alone is None else again.after - again.alone
    if better is not None and better * (1 if judge.larger_is_better else -1) <= 0:
        found.append("the chosen settings are no better than agents alone: learning together gains nothing here")
    if again.gain is not None and again.gain_half_width is None:
        found.append("one instance or split: how far scores spread is not known; use --instances 3 or more")
    elif best != start and again.gain is not None and again.gain <= (again.gain_half_width or 0.0):
        found.append("on what the search did not see, the gain is within its 95% interval: it may be chance")
    failed = [trial.error for trial in judge.trials if trial.error is not None]
    if failed:
        found.append(f"{len(failed)} trials could not run; the first: {failed[0]}")
    return found


def _mean(scores: Sequence[float] | None) -> float | None:
    return None if scores is None else float(np.mean(scores))


def selected(values: dict[str, list[Any]], only: Sequence[str]) -> dict[str, list[Any]]:
    """The parameters named by ``only``, or all of them."""
    for name in only:
        if name not in values:
            raise TrialError(f"--only {name}: not among what can be tuned here: {', '.join(values)}")
    return {name: tried for name, tried in values.items() if not only or name in only}


class _Judge:
    """Runs trials, each once and all on the same instances, and scores the model that is used in the end.

    ``further`` = 1: on as many instances or splits that follow those of 0.
    """

    def __init__(
        self, configuration: Configuration, instances: int, on: On, tell: Callable[[str], None], further: int = 0
    ) -> None:
        self._configuration = configuration
        self._tell = tell
        first = configuration.run.seed or 0
        self._dealt: list[tuple[int, Dealt]] = []
        synthetic = configuration.data.source == "synthetic"
        self.elsewhere = synthetic or on == "simulated"
        self.on = f"{instances} validation split(s): {VALIDATION:.0%} of each agent's training rows"
        if synthetic:
            self.on = f"{instances} instances of other seeds"
        elif on == "simulated":
            self.on = f"{instances} simulated data sets of the same shape: no record of the data was looked at"
        for k in range(further * instances, (further + 1) * instances):
            seed = first + k + (ELSEWHERE if self.elsewhere else 0)
            if on == "simulated" and not synthetic:
                dealt = simulated(configuration, deal_data(configuration, first), seed)
            else:
                dealt = deal_data(configuration, seed) if synthetic else for_validation(configuration, first, seed)
            self._dealt.append((seed, dealt))
        self.model = ""
        self.metric, self.larger_is_better = "", True
        self.trials: list[Trying] = []
        self._known: dict[tuple[tuple[str, Any], ...], Trying] = {}

    def score(self, settings: Changes) -> Trying:
        """The trial of these settings."""
        key = tuple(sorted(settings.items()))
        if key not in self._known:
            self._tell(", ".join(f"{path}={value}" for path, value in settings.items()) or "as configured")
            self._known[key] = self._run(settings)
            self.trials.append(self._known[key])
        return self._known[key]

    def _run(self, settings: Changes) -> Trying:
        found = []
        for seed, dealt in self._dealt:
            try:
                configuration = changed(self._configuration, settings)
                found.append(self._of(in_twin(prepared_for_twin(self._seeded(configuration, seed), dealt))))
            except (ValueError, ArithmeticError) as error:
                return Trying(settings, error=str(error))
        return Trying(settings, tuple(found))

    @staticmethod
    def _seeded(configuration: Configuration, seed: int) -> Configuration:
        return seeded(configuration, seed, simulation=configuration.private)

    def alone(self) -> list[float] | None:
        """The scores of the agents alone, as configured; None where they have no minimiser."""
        found = []
        for seed, dealt in self._dealt:
            prepared = prepare(self._seeded(self._configuration, seed), dealt=dealt)
            tests = [(shard.x_test, shard.y_test) for shard in dealt.shards]
            try:
                models = baselines.alone(prepared.problems())
            except ProblemError:
                return None
            judge = loss(self._configuration.learning.loss)
            found.append(float(np.nanmean(baselines.scores(models, tests, judge))))
        return found

    def _of(self, trial: Trial) -> float:
        models = models_of(trial)
        self.model = next(k for k in ("free finish", "average of what was released", "together") if k in models)
        self.metric, self.larger_is_better = trial.judge.metric, trial.judge.larger_is_better
        return float(np.nanmean(trial.scores(models[self.model])))

    def better(self, one: Trying, other: Trying) -> bool:
        if one.score is None or other.score is None:
            return one.score is not None
        return one.score > other.score if self.larger_is_better else one.score < other.score


def for_validation(configuration: Configuration, first: int, seed: int) -> Dealt:
    """The rows that are dealt by the seed ``first``, with the validation split of ``seed`` and without test rows."""
    if configuration.data.source in FEATURES_OF_RECORDS:
        return deal_data(configuration, first, (VALIDATION, seed))
    return validation(deal_data(configuration, first), seed)


def validation(dealt: Dealt, seed: int) -> Dealt:
    """The same agents with a part of their training rows held out, and without their test rows.

    An agent keeps at least one row to learn from.
    """
    random = np.random.default_rng([seed, 7])
    shards = []
    for shard in dealt.shards:
        order = random.permutation(shard.records)
        held = min(round(VALIDATION * shard.records), max(0, shard.records - 1))
        test, train = np.sort(order[:held]), np.sort(order[held:])
        when = None if shard.arrivals is None else shard.arrivals[train]
        shards.append(Shard(shard.x[train], shard.y[train], shard.x[test], shard.y[test], when))
    return replace(dealt, shards=tuple(shards))
