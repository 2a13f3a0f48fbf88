"""One neighbour floods: do the others go on, and does their memory stay flat?

    python benchmarks/fuzz/flood.py [--rate 50000] [--seconds 8] [--agents 6]

Real agents on a complete graph. One is killed, and a stranger takes its place and its socket: it sends each neighbour
frames at `rate` per second, by turns a good release said again, one of another run, random bytes and a message of two
parts. Prints one JSON document: updates per second of the others before and during the flood, what they dropped, and
their proportional memory (before, in the middle, at the end: the queue of a neighbour fills and is then full). Exit
status 1 if the others made less than half their updates, or still grew by over 1 MB in the second half.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.release import Release
from node.configuration.reading import from_table
from node.folder.status import read_status
from node.places import agent_folder
from node.wire import encode
from node.worlds import launcher, steps

DIMENSION = 100
GROWTH_MB = 1.0
STRANGER = """
import json, os, sys, time, zmq
endpoint, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
frames = [[bytes.fromhex(part) for part in frame] for frame in json.load(sys.stdin)]
speaker = zmq.Context().socket(zmq.PUB)
speaker.bind(endpoint)
print("bound", flush=True)
began, sent = time.monotonic(), 0
while (now := time.monotonic()) < began + seconds:
    due = int((now - began) * rate)
    for k in range(sent, due):
        speaker.send_multipart(frames[k % len(frames)])
    sent = max(sent, due)
print(sent / (time.monotonic() - began), flush=True)
os._exit(0)
"""


def flood(agents: int, rate: float, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        configuration = from_table(
            {
                "run": {"seed": 1},
                "data": {"source": "synthetic", "agents": agents, "dimension": DIMENSION},
                "topology": {"kind": "complete"},
                "learning": {"mu": 2.5},
                "clock": {"rate": 50.0, "updates": 100_000},
                "network": {"linger": 0.0, "folder": place},
                "eavesdropper": {"enabled": False},
            }
        )
        steps.deal(configuration, folder)
        cluster = launcher.Cluster(folder, configuration, agents)
        cluster.start()
        try:
            cluster.watch(until=lambda progress: progress.sent > 20 * agents)
            os.kill(cluster.alive[0], signal.SIGKILL)
            cluster.watch(until=lambda _: 0 not in cluster.alive)
            others = range(1, agents)
            [endpoint] = {str(path) for path in Path(place).glob("sv-*/0000")}
            calm, memory = _rate(cluster, folder, others, seconds), _memory(cluster, others)
            stranger = subprocess.Popen(
                [sys.executable, "-c", STRANGER, f"ipc://{endpoint}", str(rate), str(seconds + 2.0)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert stranger.stdin is not None
            assert stranger.stdout is not None
            stranger.stdin.write(json.dumps([[part.hex() for part in frame] for frame in _frames(folder)]))
            stranger.stdin.close()
            assert stranger.stdout.readline() == "bound\n"
            first, middle = _rate(cluster, folder, others, seconds / 2), _memory(cluster, others)
            second, after = _rate(cluster, folder, others, seconds / 2), _memory(cluster, others)
            said = float(stranger.stdout.readline())
            stranger.wait()
            cluster.stop()
        finally:
            cluster.close()
        finals = [json.loads((agent_folder(folder, j) / "final.json").read_text()) for j in others]
    return {
        "flood_per_s": round(said),
        "updates_per_s_calm": round(calm, 1),
        "updates_per_s_flooded": round((first + second) / 2, 1),
        "dropped": {k: sum(f["dropped_by_reason"].get(k, 0) for f in finals) for k in finals[0]["dropped_by_reason"]},
        "repeats": sum(f["repeats_received"] for f in finals),
        "pss_mb": [round(size, 2) for size in (memory, middle, after)],
    }


def _frames(folder: Path) -> list[list[bytes]]:
    run = bytes.fromhex(json.loads((folder / "manifest.json").read_text())["run"])
    good = list(encode(run, Release(0, 0, np.zeros(DIMENSION), (), None, None)))
    other = list(encode(bytes(16), Release(0, 1, np.zeros(DIMENSION), (), None, None)))
    return [good, other, [good[0], os.urandom(200), os.urandom(800)], good[:2]]


def _rate(cluster: launcher.Cluster, folder: Path, agents: range, seconds: float) -> float:
    began, before = time.monotonic(), _sent(folder, agents)
    cluster.watch(until=lambda _: time.monotonic() >= began + seconds)
    return (_sent(folder, agents) - before) / (time.monotonic() - began)


def _sent(folder: Path, agents: range) -> int:
    known = [read_status(agent_folder(folder, j) / "status") for j in agents]
    return sum(status.sent for status in known if status is not None)


def _memory(cluster: launcher.Cluster, agents: range) -> float:
    """The largest proportional set size of an agent, in MB."""
    sizes = []
    for j in agents:
        lines = Path(f"/proc/{cluster.alive[j]}/smaps_rollup").read_text().splitlines()
        sizes += [int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")]
    return max(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50_000.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--agents", type=int, default=6)
    chosen = parser.parse_args()
    found = flood(chosen.agents, chosen.rate, chosen.seconds)
    print(json.dumps(found, indent=1))
    slow = found["updates_per_s_flooded"] < 0.5 * found["updates_per_s_calm"]
    sys.exit(1 if slow or found["pss_mb"][2] > found["pss_mb"][1] + GROWTH_MB else 0)


if __name__ == "__main__":
    main()
