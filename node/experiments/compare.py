"""Several configurations beside each other at equal total privacy, over several seeds, with the baselines of the data.

Rules that hold here:
- Private configurations promise each agent the same (epsilon, delta) against the same observer, or they are not
  compared. One without privacy is shown and marked so.
- A seed deals rows, graph and clocks alike for all configurations, so that differences are of one and the same deal.
- Over processes every run charges its own ledgers: runs on the same rows add up. In the twin nothing is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from coordinator_free.problem import baselines
from coordinator_free.problem.losses import Squared
from coordinator_free.problem.objective import ProblemError
from coordinator_free.release import FloatArray
from node.configuration.reading import load
from node.configuration.sections import Configuration
from node.dealing.graph import public_assumptions
from node.dealing.preparation import Preparation
from node.dealing.rows import deal_data
from node.experiments.promises import false_promise, unequal
from node.experiments.simulated import On, simulated
from node.experiments.trial import Trial, TrialError, in_twin, play, prepared_for_twin, seeded
from node.folder import tables
from node.untyped import Json

BASELINES = "baseline"


@dataclass(frozen=True, kw_only=True)
class RowSummary:
    """One thing compared, summarised over seeds; None where there is no such number."""

    configuration: str
    model: str
    private: bool
    epsilon: float | None
    mean: float | None
    deviation: float | None
    worst: float | None
    smallest_quarter: float | None
    gain: float | None
    gain_half_width: float | None


@dataclass(frozen=True)
class Row:
    """One thing compared. Arrays hold one number a seed; ``gain`` is over agents alone, positive is better."""

    what: str
    kind: str
    private: bool
    epsilon: float | None
    mean: FloatArray
    worst: FloatArray
    smallest_quarter: FloatArray
    gain: FloatArray | None

    def summary(self) -> RowSummary:
        """Averages, the deviation over seeds, the gain and half of its 95% interval."""
        return RowSummary(
            configuration=self.what,
            model=self.kind,
            private=self.private,
            epsilon=self.epsilon,
            mean=_mean(self.mean),
            deviation=_deviation(self.mean),
            worst=_mean(self.worst),
            smallest_quarter=_mean(self.smallest_quarter),
            gain=None if self.gain is None else _mean(self.gain),
            gain_half_width=None if self.gain is None else half_width(self.gain),
        )


@dataclass(frozen=True)
class Budget:
    """What the private configurations promise: the largest (epsilon, delta) of an agent, and against which observer."""

    epsilon: float
    delta: float
    own: bool
    """Whether the agents have budgets of their own."""
    observer: str

    def in_words(self) -> str:
        """The budget in words."""
        each = "at most, each agent its own, " if self.own else ""
        seen = "masked sums alone" if self.observer == "sum" else "all releases"
        return f"epsilon {self.epsilon:g} in total {each}at delta {self.delta:g}, against an observer of {seen}"


@dataclass(frozen=True)
class Comparison:
    """All rows, and what was equal: metric, budget, seeds."""

    rows: list[Row]
    metric: str
    larger_is_better: bool
    budget: Budget | None
    record: str
    seeds: list[int]
    world: str
    on: On
    notes: tuple[str, ...]
    """What dealing warns of, and what it assumed to be public."""

    def as_json(self) -> Json:
        """Everything as plain values, the rows summarised over seeds."""
        return {
            "world": self.world,
            "on": self.on,
            "seeds": self.seeds,
            "metric": {"name": self.metric, "larger_is_better": self.larger_is_better},
            "budget": None if self.budget is None else asdict(self.budget),
            "record": self.record,
            "notes": list(self.notes),
            "rows": [asdict(row.summary()) for row in self.rows],
        }

    def table(self) -> dict[str, list[Any]]:
        """Columns with one entry for each row and seed, for Parquet."""
        columns: dict[str, list[Any]] = {
            name: []
            for name in ("configuration", "model", "seed", "epsilon", "mean", "worst", "smallest_quarter", "gain")
        }
        for row in self.rows:
            for k, seed in enumerate(self.seeds):
                for name, value in (
                    ("configuration", row.what),
                    ("model", row.kind),
                    ("seed", seed),
                    ("epsilon", row.epsilon),
                    ("mean", float(row.mean[k])),
                    ("worst", float(row.worst[k])),
                    ("smallest_quarter", float(row.smallest_quarter[k])),
                    ("gain", None if row.gain is None else float(row.gain[k])),
                ):
                    columns[name].append(value)
        return columns


def named(paths: Sequence[Path], overrides: Sequence[str]) -> dict[str, Configuration]:
    """The configurations by run.name, made different where two have the same."""
    found: dict[str, Configuration] = {}
    for path in paths:
        configuration = load(path, overrides)
        name, number = configuration.run.name, 2
        while name in found:
            name, number = f"{configuration.run.name}-{number}", number + 1
        found[name] = configuration
    return found


def check(configurations: dict[str, Configuration]) -> None:
    """Raises `TrialError` unless these can be compared."""
    first_name, first = next(iter(configurations.items()))
    spender: str | None = None
    for name, c in configurations.items():
        if c.data != first.data or c.learning.loss != first.learning.loss:
            raise TrialError(
                f"{name}: its [data] or learning.loss differs from {first_name}'s; accepted: configurations of one task"
            )
        if not c.private:
            continue
        spender = spender or name
        complaint = false_promise(name, c) or unequal(spender, name, configurations)
        if complaint:
            raise TrialError(complaint)


def compare(
    configurations: dict[str, Configuration],
    seeds: Sequence[int],
    world: str,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
    on: On = "data",
) -> Comparison:
    """Run everything ``on`` the data or simulated records; runs over processes have their folders in ``folder``."""
    check(configurations)
    scored: dict[tuple[str, str], list[FloatArray]] = {}
    spent: dict[str, float] = {}
    records: list[list[int]] = []
    notes: dict[str, None] = {}
    judge, record, budget = None, "", None
    for seed in seeds:
        for k, (name, configuration) in enumerate(configurations.items()):
            tell(f"{name}, seed {seed}")
            label = f"{name}-{seed}"
            run = seeded(configuration, seed, simulation=configuration.run.simulation, name=label)
            if on == "simulated":
                trial = in_twin(prepared_for_twin(run, simulated(run, deal_data(run, seed), seed)))
            else:
                trial = play(run, world, folder / label)
            judge, record = trial.judge, trial.preparation.dealt.record
            budget = budget or _budget(trial.preparation)
            notes |= dict.fromkeys(public_assumptions(configuration, trial.preparation.dealt))
            notes |= {f"{name}: {warning}": None for warning in trial.preparation.warnings}
            if k == 0:
                records.append(trial.records)
                for kind, one in baseline_scores(trial).items():
                    scored.setdefault((BASELINES, kind), []).append(one)
            for kind, own in models_of(trial).items():
                scored.setdefault((name, kind), []).append(trial.scores(own))
            if trial.epsilon is not None:
                spent[name] = max(spent.get(name, 0.0), trial.epsilon)
    assert judge is not None
    sign = 1.0 if judge.larger_is_better else -1.0
    alone = scored.get((BASELINES, "alone"))
    rows = []
    for (name, kind), values in scored.items():
        found = [
            baselines.summary(one, sizes, larger_is_better=judge.larger_is_better)
            for one, sizes in zip(values, records, strict=True)
        ]
        means = _column(found, "mean")
        gain = None
        if alone is not None and (name, kind) != (BASELINES, "alone"):
            gain = sign * (means - np.array([float(np.nanmean(one)) for one in alone]))
        private = name != BASELINES and configurations[name].private
        rows.append(
            Row(
                name,
                kind,
                private,
                spent.get(name),
                means,
                _column(found, "worst"),
                _column(found, "smallest_quarter"),
                gain,
            )
        )
    return Comparison(
        rows=rows,
        metric=judge.metric,
        larger_is_better=judge.larger_is_better,
        budget=budget,
        record=record,
        seeds=list(seeds),
        world=world,
        on=on,
        notes=tuple(notes),
    )


def _budget(preparation: Preparation) -> Budget | None:
    """What these agents are promised; None without a mechanism."""
    budgets = [budget for agent in range(preparation.agents) if (budget := preparation.budget(agent)) is not None]
    if not budgets:
        return None
    return Budget(
        epsilon=max(epsilon for epsilon, _ in budgets),
        delta=max(delta for _, delta in budgets),
        own=bool(preparation.own_budgets),
        observer=preparation.configuration.privacy.observer,
    )


def models_of(trial: Trial) -> dict[str, FloatArray]:
    """The models that a run gives: own last ones, the average of what was released, the free finish."""
    found = {"together": trial.models}
    if trial.is_consensus and trial.releases:
        found["average of what was released"] = trial.released_average
    if trial.finishes is not None:
        found["free finish"] = trial.finishes
    return found


def baseline_scores(trial: Trial) -> dict[str, FloatArray]:
    """Scores (n,) of the agents alone, also with ridge and l1 penalties at their best, and of one pooled model."""
    tests = trial.tests
    found = {"zero model": trial.scores(np.zeros(trial.preparation.dealt.dimension))}
    try:
        found["alone"] = trial.scores(baselines.alone(trial.problems))
        regularisation = trial.preparation.configuration.learning.regularisation
        found["pooled"] = trial.scores(baselines.pooled(trial.problems, regularisation))
    except ProblemError:  # logistic loss without regularisation has no minimiser
        pass
    size = sum(problem.x.size for problem in trial.problems)
    if isinstance(trial.judge, Squared) or size <= SMALL:
        found["alone, best ridge"] = trial.scores(baselines.best_alone(trial.problems, tests)[0])
    if trial.preparation.agents * max(trial.records) * trial.preparation.dealt.dimension <= SMALL:
        found["alone, best l1"] = trial.scores(baselines.best_sparse(trial.problems, tests)[0])
    return found


SMALL = 5_000_000
"""Numbers in all records above which the baselines that try many penalties are left out."""


def half_width(values: FloatArray) -> float | None:
    """Half of the 95% interval (Student) of a mean over independent seeds; None for one seed."""
    if len(values) < 2:
        return None
    return float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))


def picture(comparison: Comparison) -> bytes:
    """A PNG: mean and deviation over seeds of everything compared."""
    from node.experiments.charts import draw_marks

    better = "higher" if comparison.larger_is_better else "lower"
    budget = "" if comparison.budget is None else f", epsilon {comparison.budget.epsilon:g} in total"
    below = f"mean over agents, bars: deviation over {len(comparison.seeds)} seed(s); {better} is better{budget}"
    return draw_marks(f"Held-out {comparison.metric}", below, marks(comparison))


def marks(comparison: Comparison) -> list[tuple[str, float, float]]:
    """(label, mean, deviation over seeds) of everything compared that has a finite mean, the best first."""
    best = sorted(comparison.rows, key=lambda row: float(row.mean.mean()), reverse=comparison.larger_is_better)
    return [
        (
            row.kind if row.what == BASELINES else f"{row.what}: {row.kind}",
            float(row.mean.mean()),
            _deviation(row.mean) or 0.0,
        )
        for row in best
        if math.isfinite(float(row.mean.mean()))
    ]


def parquet(comparison: Comparison) -> bytes | None:
    """The table as Parquet; None where pyarrow is not installed."""
    return tables.parquet(comparison.table())


def _column(found: Sequence[dict[str, float | None]], name: str) -> FloatArray:
    return np.array([math.nan if one[name] is None else one[name] for one in found], dtype=np.float64)


def _mean(values: FloatArray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _deviation(values: FloatArray) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
