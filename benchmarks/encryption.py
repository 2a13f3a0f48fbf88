"""What keys cost: releases per second over tcp with CURVE beside plain tcp, in turn, in the same minutes.

    python benchmarks/encryption.py [--pairs 3] [--agents 30] [--rate 300] [--json]

The private run of cluster.py (60 rows and p = 100 an agent, a 10-regular graph, an eavesdropper), on Poisson clocks
faster than the machine. Releases per second are those of the middle 80% of what was said. ``ratio`` is CURVE over
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

from cluster import ours, records


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
        records(data, options.agents)
        for pair in range(options.pairs):
            one = {
                who: ours(
                    Path(name) / f"{who}-{pair}",
                    options.agents,
                    options.rate,
                    data,
                    transport="tcp",
                    encryption=who == "curve",
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
