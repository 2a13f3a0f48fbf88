"""One million agents in the twin: degree 10, p = 10, one update each; seconds and peak memory.

python benchmarks/twin_million.py [--agents 1000000] [--records 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

from coordinator_free.problem.losses import LOGISTIC  # noqa: E402
from coordinator_free.twin.vectorised import Crowd, run_coordinate_descent  # noqa: E402
from topology.network import Network  # noqa: E402


def cycles(agents: int, count: int, seed: int) -> Network:
    """The union of random cycles through all agents: 2 x ``count`` neighbours each, connected."""
    random = np.random.default_rng(seed)
    whole = sparse.csr_array((agents, agents))
    for _ in range(count):
        order = random.permutation(agents)
        one_way = sparse.csr_array((np.ones(agents), (order, np.roll(order, -1))), shape=(agents, agents))
        whole = whole + one_way + one_way.T
    whole.data[:] = 1.0
    return Network(whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=10)
    parser.add_argument("--records", type=int, default=10)
    parser.add_argument("--updates", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    n, p, m = options.agents, options.dimension, options.records
    began = time.perf_counter()
    network = cycles(n, 5, 1)
    random = np.random.default_rng(2)
    crowd = Crowd(
        x=random.uniform(-1, 1, (n * m, p)),
        y=np.where(random.random(n * m) < 0.5, -1.0, 1.0),
        starts=np.arange(n + 1) * m,
        loss=LOGISTIC,
        regularisations=np.full(n, 1.0 / m),
    )
    made = time.perf_counter()
    models = run_coordinate_descent(
        network,
        crowd,
        confidences=np.ones(n),
        smoothness=np.full(n, 1.0 + 2.0 / m),
        mu=1.0,
        updates=options.updates,
        rate=1.0,
        seed=3,
    )
    ended = time.perf_counter()
    result = {
        **vars(options),
        "setup_s": round(made - began, 1),
        "run_s": round(ended - made, 1),
        "cpu_s": round(time.process_time(), 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "moved": int(np.count_nonzero(np.abs(models).max(axis=1))),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
