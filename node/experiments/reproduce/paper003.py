"""Figures of Kang, Liu and Wang (WD-DP), without their server, and as each observer sees them.

Rules that hold here:
- ``as published``: every party's noise is for the total size n, as in Theorem 1, and each baseline's is as its paper
  has it. Every row says the epsilon that is true for who hears each party's release, and for who sees the result alone.
- ``truly private``: the same number is the total of what the named observer learns: of each release, or of the sum.
- Accuracy is on held-out rows, the mean over agents; the optimal gap is the mean logistic loss on all training rows
  minus that of the optimum without privacy. Both with their standard deviations over runs.
- Whether a claim of the paper appears is decided from the figures, run by run, never beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from coordinator_free.agents.averages.averaging import Averaging
from coordinator_free.privacy.observer import truth
from coordinator_free.problem import baselines
from coordinator_free.problem import trusted_party as curated
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.configuration.reading import set_value
from node.experiments.charts import Panel, Series
from node.experiments.reproduce import OPEN, PUBLISHED, TRULY, FigureError, Reproduction, Request
from node.experiments.trial import Trial

DELTA = 1e-3
EPSILONS = (0.01, 0.05, 0.1, 0.25)
PARTIES = (2, 4, 8, 16, 32)
UNEVEN = (1.0, 3.0, 5.0, 7.0, 9.0)
RUNS = 2
"""Of each setting, where none are asked for: a thousand published steps on all rows of Adult take most of a minute."""
UNBOUNDED = "unbounded"
"""For who hears a release that was not noised."""


@dataclass(frozen=True)
class Source:
    """A data set: its file, its folder where all lie together, the smallest party, the largest u."""

    file: str
    folder: str
    floor: int
    uneven: float


SOURCES = {
    "adult": Source("adult.data", "adult", 100, 9.0),
    "bank": Source("bank-additional-full.csv.gz", "bank", 100, 9.0),
    "breast-cancer": Source("breast_cancer_wisconsin_original.csv", "breast", 8, 5.0),
}


class SimpleAverage(Averaging):
    """Jayaraman et al. 2018 as the paper runs it: an equal average, each party's noise for m n_min records.

    Its claim, like the paper's, holds for no observer.
    """

    def _counted(self) -> int:
        return len(self._sizes) * min(size for size in self._sizes if size)


STEPS, CLIP, REGULARISATION, CONVEXITY = 1000, 1.0, 0.01, 0.1
"""Local steps as published, the clipping norm, lambda m_i, and the convexity of the noisy average (not printed)."""
_LOCAL = {"learning.algorithm": "averaging", "learning.local_steps": 50, "learning.step": 1.0, "privacy.clip": CLIP}
_TOGETHER = {"learning.algorithm": "gradient-descent", "learning.momentum": 0.8, "privacy.clip": 0.5}
_PUBLISHED = _LOCAL | {"learning.local_steps": STEPS, "privacy.observer": "as_published"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "WD-DP": (PUBLISHED, _PUBLISHED),
    "simple average": (
        PUBLISHED,
        _PUBLISHED
        | {"learning.algorithm": "node.experiments.reproduce.paper003:SimpleAverage", "learning.weighting": "equal"},
    ),
    "WD-DP, releases seen": (TRULY, _LOCAL),
    "simple average, releases seen": (TRULY, _LOCAL | {"learning.weighting": "equal"}),
    "output perturbation, releases seen": (
        TRULY,
        _LOCAL | {"learning.local": "output-perturbation", "learning.anchor_regularisation": 500.0},
    ),
    "descent in step, releases seen": (TRULY, _TOGETHER | {"learning.step": 5.0, "clock.updates": 50}),
    "descent in step, masked sums": (
        TRULY,
        _TOGETHER
        | {
            "learning.step": 3.0,
            "clock.updates": 60,
            "learning.aggregation": "masked-sum",
            "privacy.observer": "sum",
        },
    ),
}


CENTRAL, PATHAK = "centralised noisy descent", "noisy average of minimisers"
MAJORITY = "majority class"
WEIGHTED, EQUAL = ("WD-DP", "WD-DP, releases seen"), ("simple average", "simple average, releases seen")


def table(agents: int, **data: Any) -> dict[str, Any]:
    """What all runs start from: a complete graph, a fifth held out."""
    return {
        "data": {"source": "adult", "path": "", "agents": agents, "held_out": 0.2, **data},
        "topology": {"kind": "complete"},
        "learning": {"loss": "logistic", "regularisation": REGULARISATION},
        "clock": {"updates": 1},
        "privacy": {"mechanism": "gaussian", "delta": DELTA},
        "network": {"deadline": 240.0},
    }


def figure1(request: Request) -> Reproduction:
    """Accuracy and optimal gap over epsilon; parties of random sizes, m = 32 (or ``--set data.agents=...``)."""
    settings = [({"privacy.epsilon": epsilon}, {"epsilon": epsilon}) for epsilon in EPSILONS]
    figure = _Figure(request, "figure1", table(32, split="random"), settings)
    return Reproduction(
        "paper003/figure1",
        f"accuracy over epsilon, parties of random sizes, {figure.data}",
        "WD-DP beats the simple average and is similar to centralised noisy descent; all grow with epsilon (plots)",
        figure.rows,
        figure.findings("epsilon", grows=True),
        figure.notes,
        panels(figure.rows, "epsilon"),
    )


def figure2(request: Request) -> Reproduction:
    """Accuracy and optimal gap over the level of non-average u = n_max / n_min; epsilon 0.05, m = 16."""
    settings = [({"privacy.epsilon": 0.05, "data.ratio": u}, {"u": u}) for u in UNEVEN]
    figure = _Figure(request, "figure2", table(16, split="ratio", ratio=1.0), settings)
    return Reproduction(
        "paper003/figure2",
        f"accuracy over the level of non-average u, epsilon 0.05, {figure.data}",
        "WD-DP is steady in u; the simple average falls rapidly or fluctuates (plots)",
        figure.rows,
        figure.findings("u"),
        figure.notes,
        panels(figure.rows, "u"),
    )


def optimal_gap(request: Request) -> Reproduction:
    """The optimal gap over epsilon and the number of parties, of random sizes (figures 3 to 11)."""
    settings = [
        ({"privacy.epsilon": epsilon, "data.agents": m}, {"m": m, "epsilon": epsilon})
        for m in PARTIES
        for epsilon in (EPSILONS[1], EPSILONS[-1])
    ]
    figure = _Figure(request, "optimal-gap", table(8, split="random"), settings)
    return Reproduction(
        "paper003/optimal-gap",
        f"optimal gap over epsilon and the number of parties, {figure.data}",
        "WD-DP's gap is below that of the simple average and falls with epsilon (plots)",
        figure.rows,
        figure.findings("m, epsilon", gap=True),
        figure.notes,
        panels(figure.rows, "m"),
    )


LINES = {
    "WD-DP": 0,
    "simple average": 1,
    "output perturbation": 2,
    "descent in step": 3,
    "descent in step, masked sums": 4,
    CENTRAL: 5,
    "each alone, nothing said": 6,
}
"""The colour of each method, whoever is the observer. The noisy average of minimisers is in the table alone: its noise
would set the scale of every picture."""


def panels(rows: Sequence[Mapping[str, Any]], over: str) -> list[Panel]:
    """Accuracy and optimal gap of every method over ``over``, for each data set; over m the gap for each epsilon."""
    made = []
    x_label = {"epsilon": "epsilon", "u": "level of non-average u", "m": "parties m"}[over]
    for source in dict.fromkeys(row["data"] for row in rows):
        of = [row for row in rows if row["data"] == source]
        groups = [("Accuracy", "accuracy", "sd", of), ("Optimal gap", "gap", "sd gap", of)]
        if over == "m":
            groups = [
                (f"Optimal gap at epsilon {epsilon:g}", "gap", "sd gap", [r for r in of if r["epsilon"] == epsilon])
                for epsilon in dict.fromkeys(row["epsilon"] for row in of)
            ]
        for title, value, spread, shown in groups:
            lines = _lines(shown, over, value, spread)
            levels = [
                (name, mean(row[value] for row in shown if row["method"] == name))
                for name in (MAJORITY, "no privacy, pooled")
                if value == "accuracy"
            ]
            below = f"{source}; dashed: as published, band: one deviation over runs"
            made.append(Panel(title, below, x_label, lines, levels, x_log=over != "u", y_log=value == "gap"))
    return made


def _lines(rows: Sequence[Mapping[str, Any]], over: str, value: str, spread: str) -> list[Series]:
    """One line for each method of `LINES`: column ``value``, with a band of ``spread``, over column ``over``."""
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = [row for row in rows if row["method"] == method and row[value] is not None]
        name = method.removesuffix(", releases seen")
        if name not in LINES:
            continue
        reading = line[0]["reading"]
        lines.append(
            Series(
                name if reading == OPEN else f"{name} ({reading})",
                [row[over] for row in line],
                [row[value] for row in line],
                [row[spread] or 0.0 for row in line],
                colour=LINES[name],
                dashed=reading == PUBLISHED,
            )
        )
    return lines


@dataclass
class _Found:
    """All runs of one method in one setting: accuracies, gaps, and the epsilons that are true (largest over deals)."""

    reading: str
    accuracy: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    heard: float | str | None = None
    result: float | str | None = None


class _Figure:
    """The runs of one figure, over every data set that was given."""

    def __init__(
        self,
        request: Request,
        name: str,
        start: Mapping[str, Any],
        settings: Sequence[tuple[dict[str, Any], dict[str, Any]]],
    ) -> None:
        self._request, self._name, self._start = request, name, start
        self._sources = sources(request)
        self.rows: list[dict[str, Any]] = []
        self._settings: list[tuple[str, dict[str, Any], dict[str, _Found]]] = []
        self._bases: dict[tuple[Any, ...], _Base] = {}
        planned = [
            (source, path, changes, shown)
            for source, path in self._sources
            for changes, shown in settings
            if shown.get("u", 1.0) <= SOURCES[source].uneven
        ]
        for place, (source, path, changes, shown) in enumerate(planned, 1):
            said = f"setting {place} of {len(planned)}"
            self._request = replace(request, tell=partial(_at, request.tell, said))
            found = self._runs(source, path, changes, shown)
            self._settings.append((source, shown, found))
            self.rows += [_row(source, shown, changes, method, runs) for method, runs in found.items()]

    @property
    def data(self) -> str:
        return ", ".join(source for source, _ in self._sources)

    @property
    def notes(self) -> list[str]:
        runs = self._request.runs(RUNS)
        return [
            f"{runs} run{'s' if runs > 1 else ''} of each; delta {DELTA:g}; true epsilons are the largest over deals.",
            f"Learning rates and rounds are not all printed: step 1; {STEPS} local steps as published, 50 where truly "
            f"private; the {PATHAK} has strong convexity {CONVEXITY:g}. Rows are scaled one by one.",
            "true heard, true result: the epsilon that holds for who hears each party's release, and for who sees the "
            "result alone; - where no release can be heard, or where that observer knows less than the other.",
            f"{CENTRAL}: the parties hand their records over, so epsilon holds only for who sees its model. {PATHAK} "
            "(Pathak et al. 2010) hides the parties' unnoised models by encryption. Masked sums need three parties.",
        ]

    def _runs(
        self, source: str, path: str | None, changes: Mapping[str, Any], shown: Mapping[str, Any]
    ) -> dict[str, _Found]:
        found: dict[str, _Found] = {}
        epsilon = changes["privacy.epsilon"]
        dealt: dict[str, Any] = {"data.source": source, "data.path": path}
        if self._start["data"]["split"] == "random":
            dealt["data.floor"] = SOURCES[source].floor
        for seed in range(self._request.runs(RUNS)):
            base: _Base | None = None
            for method, (reading, own) in METHODS.items():
                if base is not None and base.parties < 3 and own.get("learning.aggregation") == "masked-sum":
                    continue
                label = _slug(self._name, source, method, shown)
                trial = self._request.play(label, self._start, {**dealt, **changes, **own}, seed)
                base = base or self._base((source, seed, *(v for k, v in shown.items() if k != "epsilon")), trial)
                runs = found.setdefault(method, _Found(reading))
                runs.accuracy.append(float(np.mean(trial.scores(trial.models))))
                runs.gap.append(base.gap(trial.models[0]))
                if reading == TRULY:
                    hidden = own.get("privacy.observer") == "sum"
                    runs.heard, runs.result = (None, epsilon) if hidden else (epsilon, None)
                else:
                    # Noise for m n_min records with equal weights is worth what equal parties' noise is.
                    true = truth(epsilon, DELTA, trial.records if method == "WD-DP" else [1] * len(trial.records))
                    runs.heard, runs.result = _largest(runs.heard, true.releases), _largest(runs.result, true.sum)
            assert base is not None
            self._request.tell(f"{_slug(self._name, source, 'baselines', shown)}-{seed}")
            base.add_baselines(found, epsilon, np.random.default_rng([seed, 3]))
        return found

    def _base(self, deal: tuple[Any, ...], trial: Trial) -> _Base:
        """Settings that differ in epsilon alone have the same rows, dealt alike."""
        if deal not in self._bases:
            self._bases[deal] = _Base(trial)
        return self._bases[deal]

    def findings(self, over: str, *, grows: bool = False, gap: bool = False) -> list[str]:
        """The paper's claims, each held against the figures."""
        said = []
        for source, _ in self._sources:
            of = [(shown, found) for name, shown, found in self._settings if name == source]
            for reading, weighted, equal in zip((PUBLISHED, TRULY), WEIGHTED, EQUAL, strict=True):
                where = f"{source}, {reading}"
                said.append(f"{where}: {_gains(of, weighted, equal, over, gap=gap)}")
                if reading == PUBLISHED and not gap:
                    said.append(f"{where}: {_similar(of, weighted)}")
                if gap:
                    said.append(f"{where}: {_gap_falls(of, weighted)}")
                if grows:
                    said.append(f"{where}: {_grows(of, weighted)}")
                elif over == "u":
                    said.append(f"{where}: {_steady(of, weighted, equal)}")
        true = [row["true heard"] for row in self.rows if row["method"] == WEIGHTED[0]]
        alone = [row["true result"] / row["claimed"] for row in self.rows if row["method"] == WEIGHTED[0]]
        said.append(
            f"WD-DP's published claim is {'false' if min(alone) > 1.0 else 'true'} for who sees the result alone, up "
            f"to {max(alone):.3g} times it; for who hears a party's model its epsilon is up to {max(true):.3g}."
        )
        return said


class _Base:
    """What all methods of one deal are measured against."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.parties = len(trial.records)
        self._pooled = curated.everybody(trial.problems, REGULARISATION)
        self._optimum = self._pooled.minimiser()
        self._least = self._loss(self._optimum)

    @cached_property
    def _alone(self) -> FloatArray:
        return baselines.alone(self._trial.problems)

    @cached_property
    def _average(self) -> FloatArray:
        return curated.average_of_minimisers(self._trial.problems, CONVEXITY)

    def _loss(self, model: FloatArray) -> float:
        pooled: LocalProblem = self._pooled
        return float(pooled.loss.values(model, pooled.x, pooled.y).mean())

    def gap(self, model: FloatArray) -> float:
        return self._loss(model) - self._least

    def add_baselines(self, found: dict[str, _Found], epsilon: float, random: np.random.Generator) -> None:
        """The baselines of one deal, each with the epsilon that it truly has, and for whom."""
        trial = self._trial
        central = curated.noisy_descent(trial.problems, epsilon, DELTA, clip=CLIP, step=1.0, steps=STEPS, random=random)
        scale = curated.output_perturbation_scale(trial.problems, epsilon, CONVEXITY)
        average = self._average + random.laplace(scale=scale, size=self._pooled.dimension)
        true = curated.output_perturbation_epsilon(epsilon, DELTA, self.parties, len(average))
        central_ones: tuple[tuple[str, str, FloatArray, float | str, float | str], ...] = (
            (PATHAK, PUBLISHED, average, UNBOUNDED, true),
            (CENTRAL, PUBLISHED, central, UNBOUNDED, epsilon),
            ("no privacy, pooled", OPEN, self._optimum, UNBOUNDED, UNBOUNDED),
        )
        for method, reading, model, heard, result in central_ones:
            runs = found.setdefault(method, _Found(reading, heard=heard, result=result))
            runs.accuracy.append(float(np.mean(trial.scores(model))))
            runs.gap.append(self.gap(model))
        kept = found.setdefault("each alone, nothing said", _Found(OPEN, heard=0.0, result=0.0))
        kept.accuracy.append(float(np.mean(trial.scores(self._alone))))
        kept.gap.append(mean(self.gap(model) for model in self._alone))
        majority = found.setdefault(MAJORITY, _Found(OPEN, heard=0.0, result=0.0))
        label = 1.0 if self._pooled.y.mean() > 0 else -1.0
        majority.accuracy.append(float(np.mean(np.concatenate([y for _, y in trial.tests]) == label)))


def sources(request: Request) -> list[tuple[str, str | None]]:
    """(data.source, data.path) of every data set that the overrides name or hold.

    ``data.path`` is the folder of one of them, or one that holds the folders of several. Raises `FigureError`.
    """
    given: dict[str, Any] = {}
    for override in request.overrides:
        set_value(given, override)
    path, source = given.get("data", {}).get("path"), given.get("data", {}).get("source")
    if source is not None:
        if source not in SOURCES:
            raise FigureError(f"data.source = {source}: this figure accepts {', '.join(SOURCES)}")
        return [(source, path)]
    folder = Path(str(path)).expanduser()
    found: list[tuple[str, str | None]] = [(n, str(folder)) for n, s in SOURCES.items() if (folder / s.file).exists()]
    found = found or [
        (name, str(folder / s.folder)) for name, s in SOURCES.items() if (folder / s.folder / s.file).exists()
    ]
    if not found:
        wanted = ", ".join(f"{s.file} (or {s.folder}/{s.file})" for s in SOURCES.values())
        raise FigureError(f"data.path = {folder}: accepted is a folder that holds one of {wanted}")
    return found


def _row(
    source: str, shown: Mapping[str, Any], changes: Mapping[str, Any], method: str, runs: _Found
) -> dict[str, Any]:
    return {
        "data": source,
        **shown,
        "method": method,
        "reading": runs.reading,
        "accuracy": mean(runs.accuracy),
        "sd": _deviation(runs.accuracy),
        "gap": mean(runs.gap) if runs.gap else None,
        "sd gap": _deviation(runs.gap),
        "claimed": None if runs.reading == OPEN else changes["privacy.epsilon"],
        "true heard": runs.heard,
        "true result": runs.result,
    }


def _at(tell: Callable[[str], None], place: str, run: str) -> None:
    tell(f"{place}, {run}")


def _largest(before: float | str | None, now: float) -> float:
    return max(before, now) if isinstance(before, float) else now


def _deviation(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _slug(*parts: Any) -> str:
    words = " ".join(str(part) for part in parts)
    return "-".join("".join(c if c.isalnum() else " " for c in words).lower().split())


_Of = Sequence[tuple[Mapping[str, Any], Mapping[str, _Found]]]


def _gains(of: _Of, weighted: str, equal: str, over: str, *, gap: bool) -> str:
    """Weighting by size against equal weights: the paired gain in each setting, in the paper's direction."""
    gains, clear, runs = [], 0, 0
    for _, found in of:
        pairs = (
            zip(found[equal].gap, found[weighted].gap, strict=True)
            if gap
            else zip(found[weighted].accuracy, found[equal].accuracy, strict=True)
        )
        differences = [one - other for one, other in pairs]
        runs = len(differences)
        gains.append(mean(differences))
        error = (_deviation(differences) or 0.0) / sqrt(runs)
        clear += gains[-1] > 2.0 * error
    verdict = "reproduces" if clear == len(gains) else "does not reproduce" if clear == 0 else "reproduces in part"
    what = "a smaller optimal gap" if gap else "accuracy"
    beyond = "more than two standard errors" if runs > 1 else "above zero (one run)"
    listed = ", ".join(f"{gain:+.3f}" for gain in gains)
    return (
        f"weighting by size gains {listed} in {what} over {over}, {beyond} in {clear} of "
        f"{len(gains)}: the paper's advantage {verdict}."
    )


def _gap_falls(of: _Of, method: str) -> str:
    """Between the least and the largest epsilon, for each number of parties."""
    gaps: dict[Any, dict[float, float]] = {}
    for shown, found in of:
        gaps.setdefault(shown["m"], {})[shown["epsilon"]] = mean(found[method].gap)
    falls = [by[min(by)] - by[max(by)] for by in gaps.values()]
    fell = sum(fall > 0.0 for fall in falls)
    verdict = "as in the paper" if fell == len(falls) else "unlike the paper"
    listed = ", ".join(f"{fall:+.3f}" for fall in falls)
    return f"{method}'s gap falls with epsilon by {listed} over m, so for {fell} of {len(falls)}: {verdict}."


def _similar(of: _Of, weighted: str) -> str:
    behind = [mean(found[CENTRAL].accuracy) - mean(found[weighted].accuracy) for _, found in of]
    close = sum(abs(b) < 0.02 for b in behind)
    verdict = "similar, as in the paper" if close == len(behind) else "not throughout as in the paper"
    listed = ", ".join(f"{b:+.3f}" for b in behind)
    return f"{CENTRAL} is ahead of WD-DP by {listed}, within 0.02 in {close} of {len(behind)}: {verdict}."


def _grows(of: _Of, method: str) -> str:
    curve = [mean(found[method].accuracy) for _, found in of]
    falls = [lower - higher for lower, higher in pairwise(curve)]
    if max(falls, default=0.0) >= 0.005:
        verdict = "does not grow with epsilon throughout"
    elif curve[-1] - curve[0] < 0.005:
        verdict = "does not change with epsilon"
    else:
        verdict = "grows with epsilon, as in the paper"
    above = sum(mean(found[method].accuracy) > mean(found[MAJORITY].accuracy) for _, found in of)
    listed = ", ".join(f"{a:.3f}" for a in curve)
    return f"{method} goes {listed}: it {verdict}, and is above the majority class in {above} of {len(curve)}."


def _steady(of: _Of, weighted: str, equal: str) -> str:
    spreads = []
    for method in (weighted, equal):
        curve = [mean(found[method].accuracy) for _, found in of]
        spreads.append(max(curve) - min(curve))
    steady = "is steady" if spreads[0] < 0.02 else "is not steady"
    falls = "falls or fluctuates" if spreads[1] > max(0.02, 2.0 * spreads[0]) else "is no less steady"
    return (
        f"over u, {weighted} {steady} (its accuracies differ by {spreads[0]:.3f}, the paper has it steady) and {equal} "
        f"{falls} ({spreads[1]:.3f}, the paper has it fall)."
    )
