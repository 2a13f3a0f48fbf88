"""Parameters of a configuration, chosen where they will not be judged: on other instances, or on a validation split.

Rules that hold here:
- Held-out rows of the configured task are never looked at. The synthetic task is tuned on instances of other seeds;
  any other data on a part of each agent's *training* rows, which a trial does not learn from.
- One parameter at a time, in a fixed order, twice: the values tried are multiples of the configured one.
- Everything runs in the twin with the whole budget in each trial: noise, numbers of records and of updates are those
  of a real run. Tuning looks at private data many times, and no budget accounts for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.data.dealt import Dealt, Shard
from node.dealing.preparation import prepare
from node.dealing.rows import deal_data
from node.experiments.compare import models_of
from node.experiments.trial import Trial, TrialError, in_twin, seeded

VALIDATION = 0.2
"""Part of each agent's training rows that is kept for judging trials."""
ELSEWHERE = 1_000_000
"""Added to a seed: the instances to tune on are others than those of any run."""
PASSES = 2
MULTIPLES = {
    "learning.mu": (0.1, 0.3, 3.0, 10.0),
    "clock.updates": (0.2, 0.5, 2.0),
    "privacy.clip": (0.3, 0.6, 2.0),
    "learning.finish_mu": (0.1, 0.3, 3.0, 10.0),
}
RATES = (0.3, 0.5, 0.7, 0.9, 1.0)
"""Values of privacy.r that are tried where the allocation is not uniform."""


@dataclass(frozen=True)
class Trying:
    """One trial: the settings that it changed, and its mean score over the instances (None: it could not run)."""

    settings: dict[str, Any]
    score: float | None
    deviation: float | None
    error: str | None = None


@dataclass(frozen=True)
class Tuned:
    """What was found: ``chosen`` settings that differ from the configured ones, and all trials in order."""

    chosen: dict[str, Any]
    before: float | None
    after: float
    model: str
    metric: str
    larger_is_better: bool
    on: str
    accounted: bool
    trials: list[Trying]


def parameters(configuration: Configuration, grids: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The values to try of each parameter: ``grids`` as given, others where the configuration has a value of them."""
    found: dict[str, list[Any]] = {}
    for path, multiples in MULTIPLES.items():
        value = _get(configuration, path)
        if value is None or (path == "privacy.clip" and not configuration.private):
            continue
        if path == "learning.finish_mu" and not configuration.learning.finish:
            continue
        if isinstance(value, int):
            found[path] = sorted({max(1, round(value * multiple)) for multiple in (*multiples, 1.0)})
        else:
            found[path] = sorted(_rounded(value * multiple) for multiple in (*multiples, 1.0))
    if configuration.private and configuration.privacy.allocation != "uniform":
        found["privacy.r"] = sorted({*RATES, float(configuration.privacy.r or 1.0)})
    for path, values in grids.items():
        if _get(configuration, path) is None:
            raise TrialError(f"--try {path}: the configuration has no value of it; accepted: a setting that it has")
        found[path] = list(values)
    if not found:
        raise TrialError("there is nothing to tune: give --try SECTION.KEY=VALUE,VALUE")
    return found


def tune(
    configuration: Configuration,
    *,
    instances: int = 3,
    grids: Mapping[str, Sequence[Any]] | None = None,
    only: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search ``parameters``, one at a time, ``PASSES`` times; ``only`` names those to search."""
    chosen_from = _selected(parameters(configuration, grids or {}), only)
    judge = _Judge(configuration, instances)
    trials: list[Trying] = []
    known: dict[tuple[tuple[str, Any], ...], Trying] = {}

    def score(settings: dict[str, Any]) -> Trying:
        key = tuple(sorted(settings.items()))
        if key not in known:
            tell(", ".join(f"{path}={value:g}" for path, value in settings.items()) or "as configured")
            known[key] = judge.score(settings)
            trials.append(known[key])
        return known[key]

    start = {path: _get(configuration, path) for path in chosen_from}
    best, best_trial = start, score(start)
    for _ in range(PASSES):
        before = best
        for path, tried in chosen_from.items():
            for value in tried:
                trial = score({**best, path: value})
                if judge.better(trial, best_trial):
                    best, best_trial = {**best, path: value}, trial
        if best == before:
            break
    if best_trial.score is None:
        raise TrialError(f"no trial could run: {best_trial.error}")
    return Tuned(
        chosen={path: value for path, value in best.items() if value != start[path]},
        before=known[tuple(sorted(start.items()))].score,
        after=best_trial.score,
        model=judge.model,
        metric=judge.metric,
        larger_is_better=judge.larger_is_better,
        on=judge.on,
        accounted=configuration.data.source == "synthetic" or not configuration.private,
        trials=trials,
    )


def _selected(values: dict[str, list[Any]], only: Sequence[str]) -> dict[str, list[Any]]:
    """The parameters named by ``only``, or all of them."""
    for name in only:
        if name not in values:
            raise TrialError(f"--only {name}: not among what can be tuned here: {', '.join(values)}")
    return {name: tried for name, tried in values.items() if not only or name in only}


class _Judge:
    """Runs trials, all on the same instances, and scores the model that is used in the end."""

    def __init__(self, configuration: Configuration, instances: int) -> None:
        self._configuration = configuration
        first = configuration.run.seed or 0
        self._dealt: list[tuple[int, Dealt]] = []
        synthetic = configuration.data.source == "synthetic"
        self.on = (
            f"{instances} instances of other seeds"
            if synthetic
            else f"{instances} validation split(s): {VALIDATION:.0%} of each agent's training rows"
        )
        for k in range(instances):
            seed = first + k + (ELSEWHERE if synthetic else 0)
            dealt = deal_data(configuration, first if not synthetic else seed)
            self._dealt.append((seed, dealt if synthetic else validation(dealt, seed)))
        self.model = ""
        self.metric, self.larger_is_better = "", True

    def score(self, settings: Mapping[str, Any]) -> Trying:
        found = []
        for seed, dealt in self._dealt:
            try:
                changed = seeded(_set(self._configuration, settings), seed, simulation=self._configuration.private)
                trial = in_twin(prepare(changed, dealt=dealt))
            except (ValueError, ArithmeticError) as error:
                return Trying(dict(settings), None, None, str(error))
            found.append(self._of(trial))
        deviation = float(np.std(found, ddof=1)) if len(found) > 1 else None
        return Trying(dict(settings), float(np.mean(found)), deviation)

    def _of(self, trial: Trial) -> float:
        models = models_of(trial)
        self.model = next(k for k in ("free finish", "average of what was released", "together") if k in models)
        self.metric, self.larger_is_better = trial.judge.metric, trial.judge.larger_is_better
        return float(np.nanmean(trial.scores(models[self.model])))

    def better(self, one: Trying, other: Trying) -> bool:
        if one.score is None or other.score is None:
            return one.score is not None
        return one.score > other.score if self.larger_is_better else one.score < other.score


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
        shards.append(Shard(shard.x[train], shard.y[train], shard.x[test], shard.y[test]))
    return replace(dealt, shards=tuple(shards))


def _get(configuration: Configuration, path: str) -> Any:
    section, _, key = path.partition(".")
    found = getattr(configuration, section, None)
    return getattr(found, key, None)


def _set(configuration: Configuration, settings: Mapping[str, Any]) -> Configuration:
    table = configuration.model_dump(exclude_none=True)
    for path, value in settings.items():
        section, _, key = path.partition(".")
        table[section][key] = value
    return from_table(table)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
