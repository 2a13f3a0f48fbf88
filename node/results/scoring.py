"""What a run bought its agents, computed after it in a process of its own by whoever dealt the data.

Rules that hold here:
- Every figure is on held-out rows, each agent by itself; an agent without any counts in no figure.
- Figures that come from local data, like the finish models, are not covered by epsilon: files are mode 0600.
- What cannot be known is null, never guessed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coordinator_free.agent import Activation
from coordinator_free.agents.registry import algorithm
from coordinator_free.problem import baselines
from coordinator_free.problem.losses import Loss, Squared, loss
from coordinator_free.problem.objective import ProblemError, optimum, relative_gap
from coordinator_free.release import FloatArray, Release
from coordinator_free.theory.staleness import Ages, Staleness
from node.faults.log import read_faults
from node.folder.endings import failures_of
from node.folder.manifest import read_json
from node.folder.run import RunFolder, read_run
from node.folder.shard import Rows
from node.folder.spending import Spending, spent
from node.folder.whole import write_whole
from node.plug_ins import find_here
from node.results.curve import Curve, CurveRecorder
from node.traffic.completeness import CaptureCounter
from node.traffic.run_logs import frames_of, logs_of
from node.wire import message

NOT_COVERED = (
    "alone, pooled, zero and best_ridge, which are computed from the data",
    "together, finish and every other figure on held-out rows",
    "finish models, which are never released",
)
LARGEST_OPTIMUM = 100_000_000
"""Numbers in the Hessian's blocks above which the optimum is not computed."""


@dataclass(frozen=True)
class Scores:
    """The metric of each agent's model on its own held-out rows, shape (n,), NaN where there is none; by kind."""

    records: FloatArray
    larger_is_better: bool
    kinds: dict[str, FloatArray]

    def summary(self, kind: str) -> dict[str, float | None] | None:
        """``{mean, worst, smallest_quarter}``, or None where no agent has a score of that kind."""
        scores = self.kinds.get(kind)
        if scores is None or not np.isfinite(scores).any():
            return None
        return baselines.summary(scores, self.records.tolist(), larger_is_better=self.larger_is_better)

    def quarters(self) -> list[npt.NDArray[np.intp]]:
        """Agents by number of records, in four groups, the fewest first; the same number in agent order."""
        order = np.argsort(self.records, kind="stable")
        first = len(baselines.smallest_quarter(self.records.tolist()))
        groups = [order[:first], *np.array_split(order[first:], 3)]
        return [group for group in groups if group.size]


def score(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Judge a run; writes ``results.json``, ``details.json``, tables and pictures, and returns the first two.

    ``watch.json``, if there is one, says what only a launcher knows: ``world``, ``ready_s``, ``wall_s``, ``failures``.
    """
    run = read_run(folder)
    watch = read_json(folder / "watch.json")
    judge = loss(run.configuration.learning.loss)
    finals = [run.final(agent) for agent in range(run.agents)]
    counted = [run.counted(agent) for agent in range(run.agents)]

    together = [final.get("model") for final in finals]
    finish = [final.get("finish") for final in finals]
    kinds = {"together": _judged(judge, run.rows, together)}
    if any(model is not None for model in finish):
        kinds["finish"] = _judged(judge, run.rows, finish)
    kinds.update(_baselines(run, judge))
    ridge = _best_ridge(run, judge) if isinstance(judge, Squared) else None
    if ridge is not None:
        kinds["best_ridge"] = ridge[1]

    best = _optimum(run)
    heard = _listen(run, judge, best)
    average = heard.released_average if heard is not None and _is_consensus(run) else None
    if average is not None:
        kinds["released_average"] = _judged(judge, run.rows, [average] * run.agents)
    scores = Scores(run.records, judge.larger_is_better, kinds)
    spending = spent(folder)

    results = {
        "algorithm": run.configuration.learning.algorithm,
        "world": watch.get("world", "processes"),
        "agents": run.agents,
        "metric": {"name": judge.metric, "larger_is_better": judge.larger_is_better},
        "alone": scores.summary("alone"),
        "together": scores.summary("together"),
        "released_average": scores.summary("released_average"),
        "finish": scores.summary("finish"),
        "pooled": scores.summary("pooled"),
        "optimum_gap": _gap(run, together, best),
        "epsilon": spending.as_results(),
        "capture": heard.capture if heard is not None else None,
        "wire": {
            "bytes": sum(count.get("bytes", 0) for count in counted),
            "dropped_by_reason": dict(_dropped(counted)),
        },
        "time": {
            "ready_s": _ready(watch, counted),
            "wall_s": watch.get("wall_s") or (heard.seconds if heard else None),
        },
        "memory": {"pss_mb_per_agent": _memory(counted)},
        "failures": watch["failures"] if "failures" in watch else failures_of(folder, range(run.agents)),
        "network": _network(counted, read_faults(folder)),
        "staleness": _staleness(heard),
        "public_assumptions": run.manifest.public_assumptions,
    }
    details = _details(run, scores, spending, heard, counted, ridge)
    _write(run, results, details)
    return results, details


# --- models and baselines --------------------------------------------------------------------------------------------


def _judged(judge: Loss, rows: Sequence[Rows], models: Sequence[FloatArray | None]) -> FloatArray:
    return np.array(
        [
            judge.score(model, own.x_test, own.y_test) if model is not None and len(own.y_test) else math.nan
            for model, own in zip(models, rows, strict=True)
        ]
    )


def _baselines(run: RunFolder, judge: Loss) -> dict[str, FloatArray]:
    """Scores of the zero model, of each agent alone, and of one model on all rows; without those that have no model."""
    tests = [(rows.x_test, rows.y_test) for rows in run.rows]
    found = {"zero": baselines.scores(np.zeros(run.manifest.dimension), tests, judge)}
    with suppress(ProblemError):  # logistic loss without regularisation
        found["alone"] = baselines.scores(baselines.alone(run.problems), tests, judge)
        pooled = baselines.pooled(run.problems, run.configuration.learning.regularisation)
        found["pooled"] = baselines.scores(pooled, tests, judge)
    return found


def _best_ridge(run: RunFolder, judge: Loss) -> tuple[float, FloatArray]:
    """Ridge regressions alone at their best *on the held-out rows*: the multiple of 1/m_i, and the scores (n,)."""
    tests = [(rows.x_test, rows.y_test) for rows in run.rows]
    models, multiple = baselines.best_alone(run.problems, tests)
    return multiple, baselines.scores(models, tests, judge)


def _optimum(run: RunFolder) -> FloatArray | None:
    """The optimum of the graph-regularised objective, for algorithms that seek it."""
    learning = run.configuration.learning
    size = run.agents * run.manifest.dimension**2
    seeks = algorithm(learning.algorithm).seeks_the_objective
    if not seeks or learning.mu is None or run.agents < 2 or size > LARGEST_OPTIMUM:
        return None
    if not run.problems[0].loss.convex:
        return None  # a descent would find a local minimum, and call it the optimum
    return optimum(run.network, run.problems, run.confidences, learning.mu)


def _gap(run: RunFolder, together: Sequence[FloatArray | None], best: FloatArray | None) -> float | None:
    mu = run.configuration.learning.mu
    models = [model for model in together if model is not None]
    if best is None or mu is None or len(models) < run.agents:
        return None
    return relative_gap(run.network, run.problems, run.confidences, mu, np.stack(models), best)


def _is_consensus(run: RunFolder) -> bool:
    """Whether the agents seek one common model, so that the average of what they released is a model too."""
    kind = algorithm(run.configuration.learning.algorithm)
    return kind.activation is Activation.ROUNDS and not kind.addressed


# --- what was heard --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Heard:
    capture: dict[str, Any]
    words: str
    curve: Curve | None
    released_average: FloatArray | None
    seconds: float | None
    staleness: Staleness | None
    ages: list[float]
    """The mean age of what was used up to each moment of the curve, since the moment before."""


def _listen(run: RunFolder, judge: Loss, best: FloatArray | None) -> _Heard | None:
    """One pass over the traffic logs, if there are any."""
    if not logs_of(run.folder):
        return None
    counter = CaptureCounter(run.run, range(run.agents))
    expected = sum(public.releases for public in run.public)
    recorder = CurveRecorder(run, judge, best, expected)
    neighbours = [run.network.neighbours(agent) for agent in range(run.agents)]
    ages = Ages(neighbours, max(public.releases for public in run.public))
    means: list[float] = [math.nan]
    first = last = 0
    for frame in frames_of(run.folder, []):
        releases = counter.releases
        header = counter.hear(frame.parts)
        if header is not None and counter.releases > releases and len(frame.body) % 8 == 0:
            release = message(header, frame.body)
            assert isinstance(release, Release)
            recorder.hear(release.sender, release.vector)
            ages.hear(release)
            if len(means) < len(recorder.curve.releases):
                means.append(ages.mean_since())
        first, last = first or frame.time_ns, frame.time_ns
    verdict = counter.verdict()
    seconds = (last - first) / 1e9 if first else None
    curve = average = None
    if recorder.heard and algorithm(run.configuration.learning.algorithm).releases_models:
        curve, average = recorder.finished(), recorder.released_average
        if len(means) < len(curve.releases):
            means.append(ages.mean_since())
    return _Heard(verdict.as_results(), verdict.in_words(), curve, average, seconds, ages.staleness, means)


def _staleness(heard: _Heard | None) -> dict[str, Any] | None:
    """The ages of the models that were used, in releases of whose they are; None where none was heard of."""
    if heard is None or heard.staleness is None:
        return None
    found = heard.staleness
    return {
        "mean": found.mean,
        "median": found.quantile(0.5),
        "p95": found.quantile(0.95),
        "max": found.largest,
        "ages": found.ages,
        "histogram": [[int(age), int(found.counts[age])] for age in np.flatnonzero(found.counts)],
        "agents": [_number(mean) for mean in found.means],
    }


# --- counters --------------------------------------------------------------------------------------------------------


def _dropped(counted: Sequence[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counted:
        total.update(count.get("dropped_by_reason", {}))
    return total


def _network(counted: Sequence[dict[str, Any]], faults: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What network conditions did on each link, in releases, and which faults happened; None without either."""
    if not faults and not any("links" in count for count in counted):
        return None
    links = [
        {"from": int(sender), "to": count["agent"], **{key: link[key] for key in link if key != "lost_first"}}
        for count in counted
        for sender, link in count.get("links", {}).items()
    ]
    return {"links": links, "faults": faults}


def _ready(watch: dict[str, Any], counted: Sequence[dict[str, Any]]) -> float | None:
    if watch.get("ready_s") is not None:
        return float(watch["ready_s"])
    times = [count["ready_s"] for count in counted if count.get("ready_s")]
    return max(times, default=None)


def _memory(counted: Sequence[dict[str, Any]]) -> float | None:
    sizes = [count["pss_kb"] for count in counted if count.get("pss_kb")]
    return float(np.mean(sizes)) / 1024 if sizes else None


# --- writing ---------------------------------------------------------------------------------------------------------


def _details(
    run: RunFolder,
    scores: Scores,
    spending: Spending,
    heard: _Heard | None,
    counted: Sequence[dict[str, Any]],
    ridge: tuple[float, FloatArray] | None,
) -> dict[str, Any]:
    kinds = scores.kinds
    quarters = []
    for group in scores.quarters():
        sizes = scores.records[group]
        means = {kind: _mean(values[group]) for kind, values in kinds.items()}
        quarters.append({"agents": int(group.size), "records": [int(sizes.min()), int(sizes.max())], **means})
    return {
        "record": run.manifest.record,
        "private": run.configuration.private,
        "simulation": run.manifest.simulation,
        "not_covered_by_epsilon": list(NOT_COVERED) if run.configuration.private else [],
        "warnings": run.manifest.warnings,
        "earlier_runs": read_json(run.folder / "dealt.json").get("earlier_runs", []),
        "zero": scores.summary("zero"),
        "best_ridge": scores.summary("best_ridge"),
        "best_ridge_multiple": ridge[0] if ridge is not None else None,
        "quarters": quarters,
        "capture": heard.words if heard is not None else None,
        "releases_per_agent": _mean(np.array([float(count.get("sent", math.nan)) for count in counted])),
        "bytes_per_agent": _mean(np.array([float(count.get("bytes", math.nan)) for count in counted])),
        "curve": None if heard is None or heard.curve is None else _curve(heard.curve, heard.ages),
        "agents": {
            "name": run.manifest.names,
            "records": [int(m) for m in scores.records],
            "test_records": [len(rows.y_test) for rows in run.rows],
            **{kind: [_number(value) for value in values] for kind, values in kinds.items()},
            "epsilon": [_number(value) for value in spending.epsilons],
            "releases": [count.get("sent") for count in counted],
            "bytes": [count.get("bytes") for count in counted],
        },
    }


def _curve(curve: Curve, ages: Sequence[float]) -> dict[str, list[float | None]]:
    return {
        "releases": [_number(value) for value in curve.releases],
        "gap": [_number(value) for value in curve.gap],
        "metric": [_number(value) for value in curve.metric],
        "age": [_number(value) for value in ages],
    }


def _mean(values: FloatArray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.mean(finite)) if finite.size else None


def _number(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return None if value is None or not math.isfinite(value) else float(value)


def _write(run: RunFolder, results: dict[str, Any], details: dict[str, Any]) -> None:
    from node.drawing import drawable
    from node.results.pictures import convergence_picture, gain_picture
    from node.results.report import write_report
    from node.results.staleness_picture import staleness_picture

    folder = run.folder
    write_whole(folder / "results.json", (json.dumps(results, indent=1) + "\n").encode())
    write_whole(folder / "details.json", (json.dumps(details, indent=1) + "\n").encode())
    pictures = (
        ("convergence.png", convergence_picture),
        ("gain.png", gain_picture),
        ("staleness.png", staleness_picture),
    )
    for name, draw in pictures if drawable() else ():
        picture = draw(results, details)
        if picture is not None:
            write_whole(folder / name, picture)
    table = _parquet(details["agents"])
    if table is not None:
        write_whole(folder / "results.parquet", table)
    report = write_report(run.manifest.name, results, details)
    if report is not None:
        write_whole(folder / "report.html", report)


def _parquet(agents: dict[str, list[Any]]) -> bytes | None:
    """One row an agent; None where pyarrow is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return None
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"agent": list(range(len(agents["name"]))), **agents}), sink)
    return bytes(sink.getvalue().to_pybytes())


# --- a process of its own --------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m node.results.scoring FOLDER``: scores a run; exit status 2 if the folder is no run."""
    parser = argparse.ArgumentParser(prog="python -m node.results.scoring")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    find_here()
    try:
        score(options.folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
