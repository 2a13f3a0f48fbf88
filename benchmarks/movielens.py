"""MovieLens-100K, one agent per user: mean test RMSE of users alone, together, and together in private, in the twin.

    python benchmarks/movielens.py --path FOLDER [--splits 3] [--epsilons 1 0.5 0.1] [--descent] [--as-published]
                                   [--json]

In private: a common part by gradient descent with push-sums, and each user's own around it, as in
`examples/movielens.toml`. ``--descent`` adds coordinate descent and graph smoothing on the graph of like users.

Nothing is private outside the noise: ratings minus the public 3.5, the films' features are public by assumption.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import twin_runs

from coordinator_free.agent import Agent
from coordinator_free.problem.baselines import GRID, alone, best_alone
from coordinator_free.release import FloatArray

DELTA = math.exp(-5)
SETTINGS = {1.0: (0.4, 100), 0.5: (0.04, 300), 0.1: (0.04, 100)}
"""epsilon: (mu, updates), chosen on other splits."""


def base(path: str, centring: str) -> dict[str, Any]:
    return {
        "data": {"source": "movielens-100k", "path": path, "centring": centring},
        "topology": {"kind": "nearest-neighbours", "neighbours": 10},
        "learning": {"loss": "squared", "mu": 8.0, "regularisation": 1.0, "smoothness": "feature-law"},
        "clock": {"updates": 100},
    }


def private(epsilon: float) -> dict[str, Any]:
    mu, updates = SETTINGS.get(epsilon, (0.04, 100))
    return {
        "clock.updates": updates,
        "learning.mu": mu,
        "learning.finish": True,
        "learning.finish_mu": 8.0,
        "privacy.mechanism": "gaussian",
        "privacy.epsilon": epsilon,
        "privacy.delta": DELTA,
        "privacy.clip": 5.0,
    }


def common(path: str, epsilon: float) -> dict[str, Any]:
    """Ten steps on the average of all users, and a free finish of a weight that was chosen on another split (100)."""
    return {
        "data": {"source": "movielens-100k", "path": path, "centring": "none"},
        "topology": {"kind": "random-regular", "degree": 16},
        "learning": {
            "algorithm": "gradient-descent",
            "aggregation": "push-sum",
            "push_rounds": 12,
            "loss": "squared",
            "regularisation": 1.0,
            "smoothness": 7.0,
            "step": 0.27,
            "iterate": "tail",
            "finish": True,
            "kappa": 0.7,
        },
        "clock": {"updates": 10},
        "privacy": {"mechanism": "gaussian", "epsilon": epsilon, "delta": DELTA, "clip": 5.0},
    }


def smoothed_twice(epsilon: float) -> dict[str, Any]:
    return {
        "learning.algorithm": "graph-smoothing-2r",
        "learning.parameters": {"clip_2": 0.7},
        "clock.updates": 2,
        "learning.finish": True,
        "learning.finish_mu": 10.0,
        "privacy.mechanism": "gaussian",
        "privacy.epsilon": epsilon,
        "privacy.delta": DELTA,
        "privacy.clip": 1.5,
    }


def heard_by_all(agents: list[Agent]) -> FloatArray:
    """Two releases of each agent, each heard by everybody at once: what flooding comes to. Returns the finishes."""
    for _ in range(2):
        said = [agent.wake() for agent in agents]
        for agent in agents:
            for release in said:
                if release is not None:
                    agent.receive(release)
    finishes = [agent.finish() for agent in agents]
    return np.stack([finish for finish in finishes if finish is not None])


def one_split(path: str, seed: int, epsilons: list[float], descent: bool) -> Iterator[tuple[str, dict[str, float]]]:
    """Names and scores of everything for one split."""
    table = base(path, "none")
    preparation = twin_runs.configured(table, {}, seed)
    problems, tests = preparation.problems(), twin_runs.tests_of(preparation)
    yield "zero model", twin_runs.score(preparation, np.zeros(preparation.dealt.dimension))
    yield "alone, lambda_i = 1/m_i", twin_runs.score(preparation, alone(problems))
    models, value = best_alone(problems, tests)
    if value in (GRID[0], GRID[-1]):
        raise ValueError(f"the best ridge lies at the end of the grid: {value}")
    yield "alone, best ridge", twin_runs.score(preparation, models)
    agents = twin_runs.agents_of(preparation)
    twin_runs.run(preparation, agents)
    yield "no privacy, mu 8", twin_runs.score(preparation, np.stack([agent.model for agent in agents]))
    for epsilon in epsilons:
        made = twin_runs.configured(common(path, epsilon), {}, seed)
        agents = twin_runs.agents_of(made)
        finishes = twin_runs.run(made, agents).finishes
        yield f"epsilon {epsilon:g}, common part", twin_runs.score(made, np.stack([a.model for a in agents]))
        yield f"epsilon {epsilon:g}, own part", twin_runs.score(made, np.stack(finishes))
    for epsilon in epsilons if descent else ():
        noisy = twin_runs.configured(table, private(epsilon), seed)
        agents = twin_runs.agents_of(noisy)
        finishes = twin_runs.run(noisy, agents).finishes
        yield f"epsilon {epsilon:g}, last releases", twin_runs.score(noisy, np.stack([a.model for a in agents]))
        yield f"epsilon {epsilon:g}, free finish", twin_runs.score(noisy, np.stack(finishes))
        twice = twin_runs.configured(table, smoothed_twice(epsilon), seed)
        yield (
            f"epsilon {epsilon:g}, graph smoothing, 2 rounds",
            twin_runs.score(twice, heard_by_all(twin_runs.agents_of(twice))),
        )


def as_published(path: str, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Ratings minus each user's own mean, which no private run accepts; no noise."""
    table = base(path, "user-mean")
    preparation = twin_runs.configured(table, {}, seed)
    yield "user means: zero model", twin_runs.score(preparation, np.zeros(preparation.dealt.dimension))
    yield "user means: alone", twin_runs.score(preparation, alone(preparation.problems()))
    models, _ = best_alone(preparation.problems(), twin_runs.tests_of(preparation))
    yield "user means: alone, best ridge", twin_runs.score(preparation, models)
    for mu in (0.04, 4.0):
        preparation = twin_runs.configured(table, {"learning.mu": mu}, seed)
        agents = twin_runs.agents_of(preparation)
        twin_runs.run(preparation, agents)
        yield f"user means: no privacy, mu {mu:g}", twin_runs.score(preparation, np.stack([a.model for a in agents]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", required=True, help="folder with MovieLens-100K")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 0.5, 0.1])
    parser.add_argument("--descent", action="store_true", help="with coordinate descent and graph smoothing")
    parser.add_argument("--as-published", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, dict[str, float]]] = []
    for seed in range(options.first, options.first + options.splits):
        rows.append({})
        parts = [one_split(options.path, seed, options.epsilons, options.descent)]
        if options.as_published:
            parts.append(as_published(options.path, seed))
        for part in parts:
            for name, scored in part:
                rows[-1][name] = scored
                print(f"split {seed}: {name:36} {scored['mean']:.4f}", file=sys.stderr)
    result = {
        name: {part: twin_runs.interval([row[name][part] for row in rows]) for part in ("mean", "smallest_quarter")}
        for name in rows[0]
    }
    differences = {
        f"epsilon {epsilon:g}, graph smoothing minus free finish": twin_runs.paired(
            rows, f"epsilon {epsilon:g}, graph smoothing, 2 rounds", f"epsilon {epsilon:g}, free finish"
        )["mean"]
        for epsilon in (options.epsilons if options.descent else ())
    }
    if options.json:
        print(json.dumps({"splits": options.splits, "rmse": result, "differences": differences}, indent=1))
        return
    for name, parts_of in result.items():
        mean, few = parts_of["mean"], parts_of["smallest_quarter"]
        print(f"{name:36} {mean['mean']:.4f} +- {mean['half_width']:.4f}   smallest quarter {few['mean']:.4f}")
    for name, difference in differences.items():
        print(f"{name}: {difference['mean']:+.4f} +- {difference['half_width']:.4f}")


if __name__ == "__main__":
    main()
