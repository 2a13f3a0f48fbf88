"""The scores of one host's agents, computed on that host from its own rows.

Rules that hold here:
- Scores come from local data and are not covered by epsilon: the file is mode 0600, and nothing sends it.
- What needs the rows of all hosts is null.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypedDict

import numpy as np

from coordinator_free.problem import baselines
from coordinator_free.problem.losses import Loss, loss
from coordinator_free.problem.objective import ProblemError
from coordinator_free.release import FloatArray
from node.folder.manifest import read_manifest
from node.folder.run import read_final
from node.folder.shard import Rows, read_rows, setting
from node.folder.whole import write_document
from node.places import shard_path
from node.plug_ins import exit_status_of
from node.processes import end_with_parent, keep_private

SCORES = "scores.json"


class MetricName(TypedDict):
    """A metric on held-out rows, and which way is better."""

    name: str
    larger_is_better: bool


class AgentScores(TypedDict):
    """Scores of one agent by kind of model; None where there is no such model, or no held-out row."""

    agent: int
    name: str
    zero: float | None
    alone: float | None
    together: float | None
    finish: float | None


class HostScores(TypedDict):
    """What ``scores.json`` holds. ``pooled`` and ``optimum_gap`` are None, and ``null_because`` says why."""

    run: str
    metric: MetricName
    agents: list[AgentScores]
    pooled: None
    optimum_gap: None
    null_because: str


def score_host(folder: Path) -> HostScores:
    """Score the agents whose shards lie in ``folder``; writes and returns ``scores.json``."""
    manifest = read_manifest(folder)
    agents = [_scored(folder, int(path.stem.removeprefix("agent-"))) for path in sorted((folder / "shards").iterdir())]
    document: HostScores = {
        "run": manifest.run.hex(),
        "metric": {"name": manifest.metric.name, "larger_is_better": manifest.metric.larger_is_better},
        "agents": agents,
        "pooled": None,
        "optimum_gap": None,
        "null_because": "pooled and optimum_gap need the rows of all hosts, which no place has",
    }
    write_document(folder / SCORES, document)
    return document


def _scored(folder: Path, agent: int) -> AgentScores:
    rows, public = read_rows(shard_path(folder, agent))
    final, judge = read_final(folder, agent), loss(public.loss)
    try:
        alone: FloatArray | None = baselines.alone([setting(rows, public, b"").problem])[0]
    except ProblemError:
        alone = None
    return {
        "agent": agent,
        "name": public.name,
        "zero": _score(judge, rows, np.zeros(public.dimension)),
        "alone": _score(judge, rows, alone),
        "together": _score(judge, rows, final.get("model")),
        "finish": _score(judge, rows, final.get("finish")),
    }


def _score(judge: Loss, rows: Rows, model: FloatArray | None) -> float | None:
    if model is None or not len(rows.y_test) or not np.isfinite(model).all():
        return None
    score = float(judge.score(model, rows.x_test, rows.y_test))
    return score if np.isfinite(score) else None


def main() -> int:
    """``python -m node.results.host_scores FOLDER``: exit status 2 if the folder holds no host's part."""
    return exit_status_of(lambda: score_host(Path(sys.argv[1])), ValueError, OSError)


if __name__ == "__main__":
    keep_private()
    end_with_parent()
    sys.exit(main())
