"""The synthetic task of Bellet et al. (2018), section 5.1, at a total budget, and how a budget is shared, in the twin.

    python benchmarks/synthetic.py [--part accuracy|allocation]... [--seeds 5]

accuracy    clean test labels, delta e^-5, public smoothness: the free finish of coordinate descent and graph smoothing,
            at epsilon 1 and 0.5, for p = 100, 50 and 20, beside agents alone and the noise as published (its claim is
            not what it costs); settings were chosen on other instances
allocation  p = 100, mu 2.5, 10 updates, noise as published, epsilons that add up to 10: relative gap of the objective

Prints means and standard deviations over the seeds.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse  # noqa: E402
from collections import defaultdict  # noqa: E402
from collections.abc import Iterator, Mapping  # noqa: E402
from statistics import mean, stdev  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from coordinator_free.problem.baselines import alone, best_alone, best_sparse  # noqa: E402
from coordinator_free.problem.graph_objective import optimum, relative_gap  # noqa: E402
from node.experiments.reproduce.paper004.settings import (  # noqa: E402
    SMOOTHINGS,
    honest,
    printed_noise,
    smoothing,
    synthetic,
    task,
)
from node.experiments.trial import Trial, configured, play, seeded  # noqa: E402

BUDGETS = (1.0, 0.5)
ALLOCATIONS: tuple[tuple[str, float | None], ...] = (
    ("uniform", None),
    ("increasing", 0.5),
    ("as_published", 0.5),
    ("as_published", 0.7),
)
UPDATES = 10


def trial(dimension: int, changes: Mapping[str, Any], seed: int) -> Trial:
    """One run in the twin, its noise from the seed."""
    private = "privacy.mechanism" in changes
    return play(seeded(configured(synthetic(), task(dimension) | dict(changes)), seed, simulation=private), "twin")


def accuracies(dimension: int, seed: int) -> Iterator[tuple[str, float]]:
    """Names and mean accuracies of everything on one instance."""
    open_run = trial(dimension, {}, seed)
    problems, tests = open_run.problems, open_run.tests

    def scored(at: Trial, models: Any) -> float:
        return float(np.mean(at.scores(models)))

    yield "alone, lambda_i = 1/m_i", scored(open_run, alone(problems))
    yield "alone, best ridge", scored(open_run, best_alone(problems, tests)[0])
    yield "alone, best l1", scored(open_run, best_sparse(problems, tests)[0])
    yield "no privacy", scored(open_run, open_run.models)
    for epsilon in BUDGETS:
        at = f"epsilon {epsilon:g}"
        methods = {"descent": honest(epsilon, dimension)}
        methods |= {name: smoothing(epsilon, prior) for name, prior in SMOOTHINGS.items()}
        for name, changes in methods.items():
            done = trial(dimension, changes, seed)
            assert done.epsilon is not None
            assert done.epsilon <= epsilon
            if name == "descent":
                yield f"{at}, {name}, last releases", scored(done, done.models)
            yield f"{at}, {name}, free finish", scored(done, done.finishes)
        published = trial(dimension, printed_noise(epsilon, 3, dimension), seed)
        yield f"{at} claimed, as published", scored(published, published.models)


def gaps(seed: int) -> Iterator[tuple[str, float]]:
    """Names and relative gaps, with the accuracy, of each allocation on one instance."""
    for allocation, r in ALLOCATIONS:
        # The printed noise is scaled for L0 = 1; clipping at p clips nothing, and the true cost is p times the claim.
        changes: dict[str, Any] = {
            "clock.updates": UPDATES,
            "privacy.mechanism": "laplace",
            "privacy.epsilon": 10.0 * 100,
            "privacy.delta": 1e-12,
            "privacy.clip": 100.0,
            "privacy.allocation": allocation,
        }
        if r is not None:
            changes["privacy.r"] = r
        done = trial(100, changes, seed)
        network, confidences = done.preparation.network, done.preparation.confidences
        mu = done.preparation.configuration.learning.mu
        assert mu is not None
        best = optimum(network, done.problems, confidences, mu)
        name = allocation if r is None else f"{allocation}, r = {r:g}"
        yield name, relative_gap(network, done.problems, confidences, mu, done.models, best)
        yield f"{name}: accuracy", float(np.mean(done.scores(done.models)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=("accuracy", "allocation"))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    parts = options.part or ["accuracy", "allocation"]
    for what in [*((100, 50, 20) if "accuracy" in parts else ()), *((0,) if "allocation" in parts else ())]:
        found: dict[str, list[float]] = defaultdict(list)
        for seed in range(options.seeds):
            for name, value in accuracies(what, seed) if what else gaps(seed):
                found[name].append(value)
        print(f"p = {what}: accuracy" if what else "relative gap of the objective", flush=True)
        for name, values in found.items():
            spread = stdev(values) if len(values) > 1 else 0.0
            print(f"  {name:64} {mean(values):.4f} (sd {spread:.4f})", flush=True)


if __name__ == "__main__":
    main()
