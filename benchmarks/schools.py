"""What learning together buys 65 London schools: test RMSE alone, pooled, together, in the twin.

    python benchmarks/schools.py [--seeds 20] [--json]

Each seed is another split, graph, clock and noise. Differences are paired by seed and come with their 95% interval.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import twin_runs

from coordinator_free.problem.baselines import alone, pooled

BASE: dict[str, Any] = {
    "data": {"source": "schools", "held_out": 0.3},
    "topology": {"kind": "random-regular", "degree": 10},
    "learning": {"loss": "squared", "mu": 20.0, "regularisation": 0.1, "smoothness": 2.0},
    "clock": {"updates": 100},
}
PRIVATE = {
    "clock.updates": 150,
    "learning.finish": True,
    "learning.finish_mu": 20.0,
    "privacy.mechanism": "gaussian",
    "privacy.delta": 1e-3,
    "privacy.clip": 0.5,
}


def one_seed(seed: int) -> dict[str, dict[str, float]]:
    """Scores of everything for one seed."""
    preparation = twin_runs.configured(BASE, {}, seed)
    problems = preparation.problems()
    row = {
        "alone": twin_runs.score(preparation, alone(problems)),
        "pooled": twin_runs.score(preparation, pooled(problems, 0.1)),
    }
    agents = twin_runs.agents_of(preparation)
    twin_runs.run(preparation, agents)
    row["together"] = twin_runs.score(preparation, np.stack([agent.model for agent in agents]))
    for epsilon in (2.0, 1.0):
        private = twin_runs.configured(BASE, {**PRIVATE, "privacy.epsilon": epsilon}, seed)
        agents = twin_runs.agents_of(private)
        finishes = twin_runs.run(private, agents).finishes
        row[f"epsilon {epsilon:g}, last releases"] = twin_runs.score(
            private, np.stack([agent.model for agent in agents])
        )
        row[f"epsilon {epsilon:g}, free finish"] = twin_runs.score(private, np.stack(finishes))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [one_seed(seed) for seed in range(options.first, options.first + options.seeds)]
    names = list(rows[0])
    result = {
        "seeds": options.seeds,
        "rmse": {
            name: {part: twin_runs.interval([row[name][part] for row in rows]) for part in rows[0][name]}
            for name in names
        },
        "minus_alone": {name: twin_runs.paired(rows, name, "alone") for name in names if name != "alone"},
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{options.seeds} seeds; test RMSE, and difference to each school alone with its 95% interval")
    for name in names:
        line = f"{name:28} {result['rmse'][name]['mean']['mean']:.4f}"
        if name != "alone":
            for part in ("mean", "smallest_quarter"):
                difference = result["minus_alone"][name][part]
                line += f"   {part} {difference['mean']:+.4f} +- {difference['half_width']:.4f}"
        print(line)


if __name__ == "__main__":
    main()
