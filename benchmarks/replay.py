"""How fast and how punctually a log is published again, each into a real eavesdropper in a process of its own.

    python benchmarks/replay.py [--frames 100000] [--seconds 10] [--json]

`as_fast_as_possible`: frames per second from the first to the last, and how many of them the eavesdropper did not log.
`rate_1`: a log of 500 frames per second at its own pace, with the lateness of its frames; it means something on an idle
machine only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.release import Release
from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from node.wire import Done, encode

AGENTS, DIMENSION = 100, 100
RUN = bytes(range(16))
START_NS = 1_700_000_000_000_000_000


def write(path: Path, frames: int, per_second: float) -> None:
    """A log of evenly spaced releases, and each agent's done."""
    stream = np.random.default_rng(4)
    body = np.round(stream.normal(size=DIMENSION) * 2**20) / 2**20
    with TrafficLogWriter(path) as writer:
        for k in range(frames):
            parts = encode(RUN, Release(k % AGENTS, k // AGENTS, body))
            writer.write(parts, START_NS + round(1e9 * k / per_second))
        for agent in range(AGENTS):
            writer.write(encode(RUN, Done(agent, frames // AGENTS - 1)), START_NS + round(1e9 * frames / per_second))


def played(folder: Path, log: Path, *options: str) -> dict[str, Any]:
    """Replay ``log`` into an eavesdropper; the replay's own report and what was lost."""
    out, endpoint = folder / "heard.mcap", f"ipc://{folder}/stage"
    sottovoce = [sys.executable, "-m", "node.cli"]
    ear = subprocess.Popen([*sottovoce, "eavesdrop", endpoint, "--log", str(out)], stdout=subprocess.DEVNULL)
    command = [*sottovoce, "replay", str(log), "--to", endpoint, "--stats", "--json", *options]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ear.wait(timeout=120)
    same = [frame.parts for frame in TrafficLogReader(log)] == [frame.parts for frame in TrafficLogReader(out)]
    logged = sum(1 for _ in TrafficLogReader(out))
    out.unlink()
    del report["frames_per_agent"]
    return {**report, "lost": report["frames"] - logged, "identical": same}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true", help="print JSON (it always does)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replay") as name:
        folder = Path(name)
        write(folder / "fast.mcap", options.frames, 15_000)
        write(folder / "slow.mcap", round(500 * options.seconds), 500)
        result = {
            "as_fast_as_possible": played(folder, folder / "fast.mcap", "--as-fast-as-possible"),
            "rate_1": played(folder, folder / "slow.mcap", "--rate", "1"),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
