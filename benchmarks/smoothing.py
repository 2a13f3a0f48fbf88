"""Graph smoothing as post-processing by a listener: seconds, peak memory, and how much nearer it comes to the signal.

    python benchmarks/smoothing.py [--agents 10000] [--degree 10] [--dimension 20] [--per-coordinate] [--json]

A signal that is smooth on a random regular graph, one noisy release of each agent, 1 to 3 times the signal's deviation.
``error_released`` and ``error_smoothed`` are root mean squares over agents and coordinates, without the own release and
with it.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import numpy as np

from coordinator_free.agents.personal.smoothing import kernel, smooth
from coordinator_free.release import FloatArray
from topology.families import build


def root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt(np.square(values).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--per-coordinate", action="store_true")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args()
    network = build("random-regular", options.agents, 1, degree=options.degree)
    random = np.random.default_rng(2)
    signal = random.normal(size=(options.agents, options.dimension))
    for _ in range(10):  # neighbours become alike
        signal = 0.5 * signal + 0.5 * (network.weights @ signal) / options.degree
    signal /= root_mean_square(signal)
    deviations = random.uniform(1.0, 3.0, options.agents)
    releases = signal + deviations[:, None] * random.normal(size=signal.shape)
    began = time.perf_counter()
    covariance = kernel(network)
    made = time.perf_counter()
    smoothed = smooth(covariance, releases, deviations**2, per_coordinate=options.per_coordinate)
    ended = time.perf_counter()
    result: dict[str, Any] = {
        **vars(options),
        "kernel_s": round(made - began, 1),
        "smooth_s": round(ended - made, 1),
        "cpu_s": round(time.process_time(), 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "error_released": round(root_mean_square(releases - signal), 3),
        "error_smoothed": round(root_mean_square(smoothed.mean - signal), 3),
        "error_smoothed_with_own": round(root_mean_square(smoothed.with_own - signal), 3),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
