"""What the benchmarks in the twin share: a configuration for each seed, its agents, scores, paired differences."""

from __future__ import annotations

import copy
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from coordinator_free.agent import Activation, Agent  # noqa: E402
from coordinator_free.agents.registry import algorithm, make  # noqa: E402
from coordinator_free.privacy.noise import simulation_secret  # noqa: E402
from coordinator_free.problem.baselines import scores, smallest_quarter  # noqa: E402
from coordinator_free.problem.losses import loss  # noqa: E402
from coordinator_free.release import FloatArray  # noqa: E402
from coordinator_free.twin.run import Transcript, run_asynchronous, run_rounds  # noqa: E402
from node.configuration.reading import from_table  # noqa: E402
from node.dealing.preparation import Preparation, prepare  # noqa: E402
from node.folder.shard import setting  # noqa: E402


def configured(table: dict[str, Any], changes: dict[str, Any], seed: int) -> Preparation:
    """The run that ``table`` describes with "section.key" changes, dealt with ``seed``; noise from the seed too."""
    table = copy.deepcopy(table)
    for path, value in changes.items():
        section, key = path.split(".")
        table.setdefault(section, {})[key] = value
    table["run"] = {"seed": seed, "simulation": table.get("privacy", {}).get("mechanism", "none") != "none"}
    return prepare(from_table(table, lenient=True))


def agents_of(preparation: Preparation) -> list[Agent]:
    """The agents of a run, made as an agent process makes its own."""
    name = preparation.configuration.learning.algorithm
    return [
        make(name, setting(preparation.rows(i), preparation.public(i), simulation_secret(preparation.seed, i)))
        for i in range(preparation.agents)
    ]


def run(preparation: Preparation, agents: Sequence[Agent]) -> Transcript:
    """Run them in the twin."""
    configuration = preparation.configuration
    if algorithm(configuration.learning.algorithm).activation is Activation.ROUNDS:
        return run_rounds(agents, preparation.network)
    return run_asynchronous(agents, preparation.network, rate=configuration.clock.rate, seed=preparation.seed)


def tests_of(preparation: Preparation) -> list[tuple[FloatArray, FloatArray]]:
    """Each agent's held-out rows."""
    return [(shard.x_test, shard.y_test) for shard in preparation.dealt.shards]


def score(preparation: Preparation, models: FloatArray) -> dict[str, float]:
    """Mean over all agents, and over the quarter of them with the fewest records."""
    scored = scores(models, tests_of(preparation), loss(preparation.configuration.learning.loss))
    few = smallest_quarter([shard.records for shard in preparation.dealt.shards])
    return {"mean": float(np.nanmean(scored)), "smallest_quarter": float(np.nanmean(scored[few]))}


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and the half width of its 95% interval (Student), over independent seeds."""
    array = np.asarray(values)
    half = (
        float(stats.t.ppf(0.975, array.size - 1) * array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else 0.0
    )
    return {
        "mean": float(array.mean()),
        "half_width": half,
        "low": float(array.mean()) - half,
        "high": float(array.mean()) + half,
    }


def paired(rows: Sequence[dict[str, dict[str, float]]], one: str, other: str) -> dict[str, dict[str, float]]:
    """``one`` minus ``other``, seed by seed."""
    return {
        part: interval([row[one][part] - row[other][part] for row in rows]) for part in ("mean", "smallest_quarter")
    }
