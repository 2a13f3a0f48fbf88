"""What keys cost: releases per second over tcp with CURVE beside plain tcp, in turn, in the same minutes.

    python benchmarks/encryption.py [--pairs 3] [--agents 30] [--rate 300] [--json]

A private run like that of cluster.py (60 rows and p = 100 an agent, a 10-regular graph, an eavesdropper) on Poisson
clocks faster than the machine. Releases per second are those of the middle 80% of the log. ``ratio`` is CURVE over
plain, the median of the pairs' ratios; wanted is at least 0.6.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from node import launcher
from node.config import from_table
from node.traffic_log import TrafficLogReader
from node.wire import decode_header

DIMENSION, ROWS, SECONDS = 100, 60, 5.0


def measured(folder: Path, data: Path, agents: int, rate: float, *, encryption: bool) -> dict[str, Any]:
    """One run; what it counted."""
    configuration = from_table(
        {
            "run": {"seed": 1},
            "data": {
                "source": "npz",
                "path": str(data),
                "agents": agents,
                "held_out": 0.0,
                "row_bound": 1.0,
                "intercept": False,
            },
            "topology": {"kind": "random-regular", "degree": 10},
            "learning": {"loss": "logistic", "mu": 0.5, "smoothness": "bound"},
            "clock": {"rate": rate, "updates": int(rate * SECONDS)},
            "privacy": {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "clip": 1.0},
            "network": {"deadline": 120.0, "transport": "tcp", "encryption": encryption},
        }
    )
    launcher.deal(configuration, folder)
    launcher.check_limits(folder, configuration)
    cluster = launcher.Cluster(folder, configuration, agents)
    cluster.start()
    try:
        watch = cluster.watch()
    finally:
        cluster.close()
    if watch.failures:
        raise SystemExit(f"the run failed: {watch.failures[:3]}")
    frames = TrafficLogReader(folder / "traffic.mcap")
    times = [f.time_ns for f in frames if f.body and decode_header(f.header)["kind"] == "release"]
    ordered = np.sort(np.array(times)) / 1e9
    tenth = len(ordered) // 10
    middle = ordered[tenth:-tenth]
    finals = [json.loads(path.read_text()) for path in sorted(folder.glob("agents/*/final.json"))]
    return {
        "releases_per_s": round((len(middle) - 1) / (middle[-1] - middle[0])),
        "cpu_us_per_release": round(1e6 * sum(f["cpu_s"] for f in finals) / sum(f["sent"] for f in finals), 1),
        "pss_mb_per_agent": round(statistics.mean(final["pss_kb"] for final in finals) / 1024, 2),
        "ready_s": round(watch.ready_s or 0.0, 2),
        "capture_complete": watch.eavesdropper_status == 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--agents", type=int, default=30)
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory(prefix="sv-bench-") as name:
        data = Path(name) / "data.npz"
        generator = np.random.default_rng(1)
        x = generator.normal(size=(ROWS * options.agents, DIMENSION))
        x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9)
        np.savez(data, x=x, y=np.sign(generator.normal(size=ROWS * options.agents)))
        for pair in range(options.pairs):
            one = {
                who: measured(
                    Path(name) / f"{who}-{pair}", data, options.agents, options.rate, encryption=who == "curve"
                )
                for who in ("plain", "curve")
            }
            pairs.append(one)
            print(f"pair {pair + 1}: {json.dumps(one)}", file=sys.stderr, flush=True)
    ratios = [pair["curve"]["releases_per_s"] / pair["plain"]["releases_per_s"] for pair in pairs]
    report: dict[str, Any] = {
        "cores": os.cpu_count(),
        "agents": options.agents,
        "pairs": options.pairs,
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }
    for who in ("plain", "curve"):
        for key in ("releases_per_s", "cpu_us_per_release", "pss_mb_per_agent", "ready_s"):
            report[f"{who}_{key}"] = statistics.median(pair[who][key] for pair in pairs)
        report[f"{who}_capture_complete"] = all(pair[who]["capture_complete"] for pair in pairs)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        for key, value in report.items():
            print(f"{key:>26}  {value}")


if __name__ == "__main__":
    main()
