"""How fast a cluster speaks, beside the bare pattern with nothing around it, in turn, in the same minutes.

    python benchmarks/cluster.py [--pairs 5] [--agents 100 900] [--json]

The workload is that of bare_loop.py: 60 rows and p = 100 for each agent, a 10-regular graph, ipc, Poisson clocks (rate
150 for 100 agents, 15 for 900). Ours is a private run of fifteen seconds' ticks: grid noise, ledger, journal, all
checks, an eavesdropper whose log must have no gap. Releases per second are those of the middle 80% of what was said.
Prints medians over the pairs, and ``ratio_100``, ``ratio_900``: releases per second, ours over bare, the median of the
pairs' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.folder.journal import read_journal
from node.folder.watch import Watch
from node.worlds import launcher, steps

SECONDS = 5.0
LASTING = 15.0
"""Seconds of ticks that each of our agents has releases for: a ledger reserves a twentieth of them at a time."""
WORKLOADS = {100: 150.0, 900: 15.0}
DIMENSION = 100
ROWS = 60


def bare(script: Path, agents: int, rate: float) -> dict[str, Any]:
    """One run of the bare pattern."""
    command = [sys.executable, str(script), "--agents", str(agents), "--degree", "10", "--dimension", str(DIMENSION)]
    command += ["--rate", str(rate), "--seconds", str(SECONDS), "--warm", str(max(5.0, agents / 30))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=steps.environment())
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def records(path: Path, agents: int) -> None:
    """Rows of length 1 with random labels, the same number for each agent."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(ROWS * agents, DIMENSION))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-9)
    np.savez(path, x=x, y=np.sign(generator.normal(size=ROWS * agents)))


def run(configuration: Configuration, folder: Path, agents: int) -> Watch:
    """A run over processes, dealt into ``folder``, to its end."""
    steps.deal(configuration, folder)
    watch = launcher.run_in_processes(folder, configuration, agents)
    if watch.failures:
        raise SystemExit(f"the run failed: {watch.failures[:3]}")
    return watch


def finals_of(folder: Path) -> list[dict[str, Any]]:
    """What the agents counted, in order."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("agents/*/final.json"))]


def ours(folder: Path, agents: int, rate: float, data: Path, **network: Any) -> dict[str, Any]:
    """One real run of the same workload; what it counted. ``network`` are settings of that section."""
    updates = int(rate * LASTING)
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
            "clock": {"rate": rate, "updates": updates},
            "privacy": {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "clip": 1.0},
            "network": {"deadline": 300.0, **network},
        }
    )
    watch = run(configuration, folder, agents)
    # When they were said, by the agents' own clocks: the eavesdropper may hear them late, and then many at once.
    journals = [read_journal(path) for path in sorted(folder.glob("agents/*/journal.bin"))]
    ordered = np.sort(np.array([time_ns for journal in journals for time_ns, _ in journal])) / 1e9
    tenth = len(ordered) // 10
    middle = ordered[tenth:-tenth]
    finals = finals_of(folder)
    capture = json.loads((folder / "eavesdropper.log").read_text().splitlines()[0])["capture"]
    received = sum(final["received"] for final in finals)
    return {
        "releases_per_s": round((len(middle) - 1) / (middle[-1] - middle[0])),
        "delivered": round(received / (sum(final["sent"] for final in finals) * 10), 4),
        "ready_s": round(watch.ready_s or 0.0, 2),
        "pss_mb_per_agent": round(statistics.mean(final["pss_kb"] for final in finals) / 1024, 2),
        "cpu_us_per_release": round(1e6 * sum(f["cpu_s"] for f in finals) / sum(f["sent"] for f in finals), 1),
        "capture_complete": capture["complete"],
        "capture_missing": capture["missing"],
        "releases": capture["releases"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--agents", type=int, nargs="+", default=[100, 900], choices=sorted(WORKLOADS))
    parser.add_argument("--bare", type=Path, default=Path(__file__).with_name("bare_loop.py"), help="the bare pattern")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args()
    report: dict[str, Any] = {"pairs": options.pairs, "cores": os.cpu_count()}
    for agents in options.agents:
        rate = WORKLOADS[agents]
        pairs = []
        with tempfile.TemporaryDirectory(prefix="sv-bench-") as name:
            data = Path(name) / "data.npz"
            records(data, agents)
            for pair in range(options.pairs):
                one = {
                    "bare": bare(options.bare, agents, rate),
                    "ours": ours(Path(name) / f"run-{pair}", agents, rate, data),
                }
                pairs.append(one)
                print(f"{agents} agents, pair {pair + 1}: {json.dumps(one)}", file=sys.stderr, flush=True)
        ratios = [pair["ours"]["releases_per_s"] / pair["bare"]["releases_per_s"] for pair in pairs]
        report[f"ratio_{agents}"] = round(statistics.median(ratios), 3)
        report[f"ratios_{agents}"] = [round(ratio, 3) for ratio in ratios]
        for who, keys in {
            "bare": ("releases_per_s", "cpu_us_per_release", "pss_mb_per_agent"),
            "ours": ("releases_per_s", "cpu_us_per_release", "pss_mb_per_agent", "ready_s", "delivered"),
        }.items():
            for key in keys:
                report[f"{who}_{agents}_{key}"] = statistics.median(pair[who][key] for pair in pairs)
        report[f"ours_{agents}_capture_complete"] = all(pair["ours"]["capture_complete"] for pair in pairs)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        for key, value in report.items():
            print(f"{key:>32}  {value}")


if __name__ == "__main__":
    main()
