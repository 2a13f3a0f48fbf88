"""How many releases per second the twin makes on one core: 100 agents, 10-regular, p = 100, 60 records each.

python benchmarks/twin_speed.py [--updates 200] [--repeats 5] [--mechanism none|gaussian|laplace] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import networkx as nx  # noqa: E402
import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

from coordinator_free.agent import Agent, Setting  # noqa: E402
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent  # noqa: E402
from coordinator_free.privacy.noise import simulation_secret  # noqa: E402
from coordinator_free.problem.losses import LOGISTIC  # noqa: E402
from coordinator_free.problem.objective import LocalProblem  # noqa: E402
from coordinator_free.twin.run import run_asynchronous  # noqa: E402
from topology.network import Network  # noqa: E402


def workload(agents: int, degree: int, dimension: int, updates: int, mechanism: str) -> tuple[Network, list[Agent]]:
    """The same records for everybody's benchmark: 60 a head, standard normal, logistic loss."""
    graph = nx.random_regular_graph(degree, agents, seed=1)
    network = Network(sparse.csr_array(nx.to_scipy_sparse_array(graph, nodelist=range(agents), dtype=np.float64)))
    made: list[Agent] = []
    for i in range(agents):
        random = np.random.default_rng([1, i])
        x, y = random.normal(size=(60, dimension)), np.sign(random.normal(size=60))
        private = {"mechanism": mechanism, "multipliers": np.full(updates, 50.0), "clip": 1.0}
        made.append(
            CoordinateDescent(
                Setting(
                    agent=i,
                    neighbours=network.neighbours(i),
                    weights=network.weights_of(i),
                    problem=LocalProblem(x, y, LOGISTIC, 1 / 60),
                    dimension=dimension,
                    updates=updates,
                    learning={"mu": 1.0, "smoothness": 1.0},
                    secret=simulation_secret(1, i),
                    **(private if mechanism != "none" else {}),
                )
            )
        )
    return network, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--mechanism", default="none")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rates = []
    for _ in range(options.repeats):
        network, agents = workload(
            options.agents, options.degree, options.dimension, options.updates, options.mechanism
        )
        start = time.perf_counter()
        said = run_asynchronous(agents, network, rate=1.0, seed=1).releases
        rates.append(len(said) / (time.perf_counter() - start))
    result = {**vars(options), "releases_per_s": round(float(np.median(rates))), "each": [round(r) for r in rates]}
    print(json.dumps(result) if options.json else f"{result['releases_per_s']} releases/s, each {result['each']}")


if __name__ == "__main__":
    main()
