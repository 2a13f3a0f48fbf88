"""Graph smoothing as post-processing by one receiver: seconds, peak memory, and how much nearer it comes to the signal.

    python benchmarks/smoothing.py [--agents 10000] [--degree 10] [--dimension 20] [--per-coordinate] [--json]

A signal that is smooth on a random regular graph, one noisy release of each agent, 1 to 3 times the signal's deviation.
``error_released`` and ``error_smoothed`` are root mean squares over ``--looks`` agents and all coordinates, without the
own release and with it. ``receiver_s`` is all that one receiver computes, ``look_s`` the part of one more agent.

The same with ``--dense`` agents (0: leave it out) is computed twice, with matrices of agents by agents and without:
``dense_s / sparse_s`` and the largest difference, in units of the posterior's deviation.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import numpy as np

from coordinator_free.agents.personal.large_smoothing import LargeSmoothing
from coordinator_free.agents.personal.smoothing import kernel, smooth
from coordinator_free.release import FloatArray
from topology.families import build
from topology.network import Network


def root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt(np.square(values).mean()))


def drawn(agents: int, degree: int, dimension: int) -> tuple[Network, FloatArray, FloatArray, FloatArray]:
    """A graph, the signal and the releases (agents, dimension), and the releases' variances."""
    network = build("random-regular", agents, 1, degree=degree)
    random = np.random.default_rng(2)
    signal = random.normal(size=(agents, dimension))
    for _ in range(10):  # neighbours become alike
        signal = 0.5 * signal + 0.5 * (network.weights @ signal) / degree
    signal /= root_mean_square(signal)
    deviations = random.uniform(1.0, 3.0, agents)
    return network, signal, signal + deviations[:, None] * random.normal(size=signal.shape), deviations**2


def sparse_against_dense(options: argparse.Namespace) -> dict[str, Any]:
    network, _, releases, variances = drawn(options.dense, options.degree, options.dimension)
    began = time.process_time()
    sparse = LargeSmoothing(
        network, np.arange(options.dense), releases, variances, per_coordinate=options.per_coordinate
    )
    first = sparse.at(0)
    sparse_s = time.process_time() - began
    began = time.process_time()
    dense = smooth(kernel(network), releases, variances, per_coordinate=options.per_coordinate)
    dense_s = time.process_time() - began
    return {
        "dense_cpu_s": round(dense_s, 2),
        "sparse_cpu_s": round(sparse_s, 2),
        "dense_over_sparse": round(dense_s / sparse_s, 2),
        "difference": float(np.abs((first.mean - dense.mean[0]) / np.sqrt(dense.variance[0])).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=20)
    parser.add_argument("--looks", type=int, default=20, help="agents whose error is measured")
    parser.add_argument("--dense", type=int, default=2_000, help="agents of the comparison")
    parser.add_argument("--per-coordinate", action="store_true")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args()
    network, signal, releases, variances = drawn(options.agents, options.degree, options.dimension)
    began = time.perf_counter(), time.process_time()
    found = LargeSmoothing(
        network, np.arange(options.agents), releases, variances, per_coordinate=options.per_coordinate
    )
    ready = time.process_time()
    found.at(0)
    receiver_s, receiver_cpu_s = time.perf_counter() - began[0], time.process_time() - began[1]
    look_s = time.process_time() - ready
    looks = np.linspace(0, options.agents - 1, options.looks, dtype=np.intp)
    seen = [found.at(int(place)) for place in looks]
    result: dict[str, Any] = {
        **vars(options),
        "receiver_s": round(receiver_s, 1),
        "receiver_cpu_s": round(receiver_cpu_s, 1),
        "look_s": round(look_s, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
        "error_released": round(root_mean_square((releases - signal)[looks]), 3),
        "error_smoothed": round(root_mean_square(np.stack([one.mean for one in seen]) - signal[looks]), 3),
        "error_smoothed_with_own": round(root_mean_square(np.stack([one.with_own for one in seen]) - signal[looks]), 3),
    }
    if options.dense:
        result |= sparse_against_dense(options)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
