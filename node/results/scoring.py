"""What a run bought its agents, computed after it, on the machine that dealt the data, in a process of its own.

Rules that hold here:
- Every figure is on held-out rows, each agent by itself; an agent without any counts in no figure.
- Figures that come from local data, like the finish models, are not covered by epsilon: files are mode 0600.
- What cannot be known is null, never guessed.
- A finished run gets its table: what fails of baselines, gaps and pictures is noted below it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.agent import Activation
from coordinator_free.agents.registry import algorithm
from coordinator_free.problem import baselines
from coordinator_free.problem.graph_objective import optimum, relative_gap
from coordinator_free.problem.losses import Loss, Squared, loss
from coordinator_free.problem.objective import ProblemError
from coordinator_free.release import FloatArray
from node.folder.registry import settle
from node.folder.run import RunFolder, read_run
from node.folder.shard import Rows
from node.folder.spending import spent
from node.folder.tables import parquet
from node.folder.whole import write_whole
from node.plug_ins import exit_status_of
from node.processes import keep_private
from node.results.attempts import Attempts
from node.results.details import Details, write_details
from node.results.documents import details_of, results_of
from node.results.logged import read_logs
from node.results.results import Results, write_results
from node.results.scores import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_OPTIMUM = 100_000_000
"""Numbers in the Hessian's blocks above which the optimum is not computed."""


def score(folder: Path) -> tuple[Results, Details]:
    """Judge a run; writes ``results.json``, ``details.json``, tables and pictures, and returns the first two."""
    run = read_run(folder)
    judge = loss(run.configuration.learning.loss)
    finals = [run.final(agent) for agent in range(run.agents)]
    counted = [run.counted(agent) for agent in range(run.agents)]

    together = [final.get("model") for final in finals]
    finish = [final.get("finish") for final in finals]
    kinds = {"together": _judged(judge, run.rows, together)}
    if any(model is not None for model in finish):
        kinds["finish"] = _judged(judge, run.rows, finish)
    attempts = Attempts()
    kinds.update(attempts.make("baselines", lambda: _baselines(run, judge)) or {})
    ridge = attempts.make("best ridge alone", lambda: _best_ridge(run, judge))
    if ridge is not None:
        kinds["best_ridge"] = ridge[1]

    best = attempts.make("optimum", lambda: _optimum(run))
    logged = attempts.make("what the log holds", lambda: read_logs(run, judge, best))
    average = logged.released_average if logged is not None and _is_consensus(run) else None
    if average is not None:
        kinds["released_average"] = _judged(judge, run.rows, [average] * run.agents)
    scores = Scores(run.records, judge.larger_is_better, kinds)
    spending = spent(folder)
    gap = attempts.make("gap to the optimum", lambda: _gap(run, together, best))
    results = results_of(run, scores, spending, logged, counted, gap)
    details = _noted(details_of(run, scores, spending, logged, counted, ridge), attempts)
    write_results(folder, results)
    write_details(folder, details)
    settle(folder)
    shown = Attempts()
    _show(run, results, details, shown)
    if shown.notes:
        details = _noted(details, shown)
        write_details(folder, details)
    return results, details


def _noted(details: Details, attempts: Attempts) -> Details:
    return replace(details, warnings=(*details.warnings, *attempts.notes))


# --- models and baselines --------------------------------------------------------------------------------------------


def _judged(judge: Loss, rows: Sequence[Rows], models: Sequence[FloatArray | None]) -> FloatArray:
    return np.array([_score(judge, own, model) for model, own in zip(models, rows, strict=True)])


def _score(judge: Loss, rows: Rows, model: FloatArray | None) -> float:
    """Return one agent's score: NaN without a model or held-out rows, the worst there is of a model that diverged."""
    if model is None or not len(rows.y_test):
        return math.nan
    score = judge.score(model, rows.x_test, rows.y_test) if np.isfinite(model).all() else math.nan
    if math.isfinite(score):
        return score
    return -math.inf if judge.larger_is_better else math.inf


def _baselines(run: RunFolder, judge: Loss) -> dict[str, FloatArray]:
    """Scores of the zero model, of each agent alone, and of one model on all rows; without those that have no model."""
    tests = [(rows.x_test, rows.y_test) for rows in run.rows]
    found = {"zero": baselines.scores(np.zeros(run.manifest.dimension), tests, judge)}
    with suppress(ProblemError):  # logistic loss without regularisation
        found["alone"] = baselines.scores(baselines.alone(run.problems), tests, judge)
        pooled = baselines.pooled(run.problems, run.configuration.learning.regularisation)
        found["pooled"] = baselines.scores(pooled, tests, judge)
    return found


def _best_ridge(run: RunFolder, judge: Loss) -> tuple[float, FloatArray] | None:
    """Ridge regressions alone at their best *on the held-out rows*: the multiple of 1/m_i, and the scores (n,)."""
    if not isinstance(judge, Squared) or not any(len(rows.y_test) for rows in run.rows):
        return None
    tests = [(rows.x_test, rows.y_test) for rows in run.rows]
    models, multiple = baselines.best_alone(run.problems, tests)
    return multiple, baselines.scores(models, tests, judge)


def _optimum(run: RunFolder) -> FloatArray | None:
    """The optimum of the graph-regularised objective, for algorithms that seek it."""
    learning = run.configuration.learning
    size = run.agents * run.manifest.dimension**2
    seeks = algorithm(learning.algorithm).seeks_the_objective
    if not seeks or learning.get("mu") is None or run.agents < 2 or size > LARGEST_OPTIMUM:
        return None
    if not run.problems[0].loss.convex:
        return None  # a descent would find a local minimum, and call it the optimum
    return optimum(run.network, run.problems, run.confidences, learning.get("mu"))


def _gap(run: RunFolder, together: Sequence[FloatArray | None], best: FloatArray | None) -> float | None:
    mu = run.configuration.learning.get("mu")
    models = [model for model in together if model is not None]
    if best is None or mu is None or len(models) < run.agents or not np.isfinite(models).all():
        return None
    return relative_gap(run.network, run.problems, run.confidences, mu, np.stack(models), best)


def _is_consensus(run: RunFolder) -> bool:
    """Whether the agents seek one common model, so that the average of what they released is a model too."""
    kind = algorithm(run.configuration.learning.algorithm)
    return kind.activation is Activation.ROUNDS and not kind.addressed


# --- pictures and tables ---------------------------------------------------------------------------------------------


def _show(run: RunFolder, results: Results, details: Details, attempts: Attempts) -> None:
    """Write pictures, the table of the agents and the report, each if it can be made."""
    from node.drawing import drawable, png
    from node.results.pictures import convergence_figure, gain_figure
    from node.results.report import report_of
    from node.results.staleness_picture import staleness_figure

    def drawn(draw: Callable[[Results, Details], Figure | None]) -> bytes | None:
        figure = draw(results, details)
        return None if figure is None else png(figure)

    parts: dict[str, Callable[[], bytes | None]] = {
        "results.parquet": lambda: parquet({"agent": range(run.agents), **details.agents.to_json()}),
        "report.html": lambda: report_of(run.folder),
    }
    if drawable():
        parts["convergence.png"] = partial(drawn, convergence_figure)
        parts["gain.png"] = partial(drawn, gain_figure)
        parts["staleness.png"] = partial(drawn, staleness_figure)
    for name, part in parts.items():
        content = attempts.make(name, part)
        if content is not None:
            write_whole(run.folder / name, content)


# --- a process of its own --------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m node.results.scoring FOLDER``: scores a run; exit status 2 if the folder is no run."""
    parser = argparse.ArgumentParser(prog="python -m node.results.scoring")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    return exit_status_of(lambda: score(options.folder), ValueError)


if __name__ == "__main__":
    keep_private()
    sys.exit(main())
