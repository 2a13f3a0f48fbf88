"""What a traffic log costs: writing, reading, `log info`, salvage, and the eavesdropper for each release.

    python benchmarks/log.py [--frames 1000000] [--json]

The frames are a run's: 100 agents, ten neighbours each, models of 100 numbers on the grid. Times are CPU seconds of the
process that does the work (so that a busy machine distorts them less), memory is the peak resident set of `log info` in
a process of its own. `library_us` is the MCAP library's own writer on the same frames, without chain and checkpoints.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from mcap.writer import CompressionType, IndexType, Writer

from coordinator_free.release import Release
from node.hello import Hello
from node.traffic.check import verify_log
from node.traffic.format import TrafficLogError
from node.traffic.reader import TrafficLogReader
from node.traffic.salvage import salvage
from node.traffic.writer import TrafficLogWriter
from node.wire import Done, Parts, encode

AGENTS, NEIGHBOURS, DIMENSION = 100, 10, 100
RUN = bytes(range(16))
START_NS = 1_700_000_000_000_000_000


def conversation(releases: int) -> Iterator[Parts]:
    """A run's frames, made one at a time."""
    stream = np.random.default_rng(4)
    bodies = [np.round(stream.normal(size=DIMENSION) * 2**20) / 2**20 for _ in range(2000)]
    for agent in range(AGENTS):
        yield encode(RUN, Hello(agent, bytes(32)))
    for k in range(releases):
        agent, index = k % AGENTS, k // AGENTS
        used = tuple(((agent + j) % AGENTS, index) for j in range(NEIGHBOURS))
        yield encode(RUN, Release(agent, index, bodies[k % len(bodies)], used))
    for agent in range(AGENTS):
        yield encode(RUN, Done(agent, releases // AGENTS - 1))


def write(path: Path, releases: int) -> None:
    with TrafficLogWriter(path) as writer:
        for k, parts in enumerate(conversation(releases)):
            writer.write(parts, START_NS + 70_000 * k)


def writing(folder: Path, frames: int) -> dict[str, float]:
    """CPU microseconds per frame of this writer and of the library's."""
    said = list(conversation(frames))
    began = time.process_time()
    with TrafficLogWriter(folder / "write.mcap") as writer:
        for k, parts in enumerate(said):
            writer.write(parts, START_NS + k)
    ours = time.process_time() - began
    with (folder / "library.mcap").open("wb") as file:
        library = Writer(file, compression=CompressionType.LZ4, index_types=IndexType.CHUNK)
        library.start()
        channels = [library.register_channel(f"/agents/agent-{k:04d}", "msgpack", 0) for k in range(AGENTS)]
        began = time.process_time()
        for k, parts in enumerate(said):
            data = msgpack.packb(parts)
            library.add_message(channels[k % AGENTS], START_NS + k, data, START_NS + k, k)
        library.finish()
        theirs = time.process_time() - began
    return {"write_us": 1e6 * ours / len(said), "library_us": 1e6 * theirs / len(said)}


def reading(path: Path) -> float:
    """CPU microseconds per frame of iterating over the log."""
    began = time.process_time()
    frames = sum(1 for _ in TrafficLogReader(path))
    return 1e6 * (time.process_time() - began) / frames


def info(path: Path) -> dict[str, float]:
    """`log info` in a process of its own: CPU and wall seconds, peak memory in MB."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--info", str(path)], check=True, capture_output=True, text=True, env=os.environ
    )
    found: dict[str, float] = json.loads(done.stdout)
    return {**found, "wall_s": time.monotonic() - began}


def info_here(path: Path) -> None:
    from node.cli import main

    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - what the command prints is not what is measured
    with contextlib.suppress(SystemExit):
        main(["log", "info", str(path)])
    sys.stdout = sys.__stdout__
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}))


def salvaging(folder: Path, cuts: int) -> dict[str, int]:
    """A log cut at random bytes: what comes back must be the log's beginning, up to the last whole chunk."""
    path = folder / "small.mcap"
    said = list(conversation(5000))
    with TrafficLogWriter(path, chunk_bytes=1 << 16) as writer:
        for k, parts in enumerate(said):
            writer.write(parts, START_NS + k)
    whole = path.read_bytes()
    stream = random.Random(1)
    right = refused = 0
    for _ in range(cuts):
        at = stream.randrange(len(whole))
        cut, out = folder / "cut.mcap", folder / "out.mcap"
        cut.write_bytes(whole[:at])
        try:
            report = salvage(cut, out)
        except TrafficLogError:
            refused += 1
            continue
        back = [frame.parts for frame in TrafficLogReader(out)]
        right += back == said[: len(back)] and bool(report["lost"]) and verify_log(out)["ok"]
        out.unlink()
    return {"cuts": cuts, "right": right, "cut_within_header": refused}


def eavesdropping(folder: Path, releases: int) -> dict[str, float]:
    """CPU microseconds per frame of a whole eavesdropper process that hears a replay as fast as possible."""
    path, endpoint = folder / "said.mcap", f"ipc://{folder}/stage"
    write(path, releases)
    ear = subprocess.Popen(
        [sys.executable, __file__, "--hear", endpoint, str(folder / "heard.mcap")], stdout=subprocess.PIPE, text=True
    )
    command = [
        sys.executable,
        "-m",
        "node.cli",
        "replay",
        str(path),
        "--to",
        endpoint,
        "--as-fast-as-possible",
        "--json",
    ]
    sent = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    out, _ = ear.communicate(timeout=120)
    heard = json.loads(out)
    assert heard["complete"], "frames were lost"
    return {"cpu_us_per_frame": heard["cpu_us"], "frames_per_s": sent["frames_per_s"]}


def hear_here(endpoint: str, log: str) -> None:
    from node.commands.eavesdrop import GivenEndpoints
    from node.traffic.completeness import CaptureCounter
    from node.traffic.eavesdropper import Eavesdropper

    before = time.process_time()
    heard = Eavesdropper(TrafficLogWriter(log), GivenEndpoints([endpoint]), [0], CaptureCounter()).listen()
    cpu = time.process_time() - before
    print(json.dumps({"complete": heard.complete, "cpu_us": 1e6 * cpu / heard.capture.frames}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--frames", type=int, default=1_000_000, help="releases in the log for info")
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="print JSON (it always does)")
    parser.add_argument("--info", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--hear", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.info:
        info_here(options.info)
        return
    if options.hear:
        hear_here(*options.hear)
        return
    with tempfile.TemporaryDirectory(prefix="log") as name:
        folder = Path(name)
        result: dict[str, Any] = {**writing(folder, 50_000)}
        big = folder / "big.mcap"
        write(big, options.frames)
        result["releases"] = options.frames
        result["file_mb"] = big.stat().st_size / 1e6
        result["read_us"] = reading(big)
        result["info"] = info(big)
        big.unlink()
        result["salvage"] = salvaging(folder, options.cuts)
        result["eavesdropper"] = eavesdropping(folder, 100_000)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
