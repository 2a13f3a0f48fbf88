"""Agents killed at random instants and started again, in many small runs: what must never happen is counted.

    python benchmarks/chaos.py [--kills 1000] [--seed 1]

Runs alternate between synchronous ADMM and asynchronous coordinate descent, six private agents on a ring that loses a
tenth of all copies. Every kill is SIGKILL at a random instant; after half of them the victim's ledger gets the
beginning of one more record, cut anywhere, which is what a crash inside a write leaves on a disk (the kernel finishes
a write that SIGKILL meets). Prints one JSON document: ``kills``, ``runs``, ``torn``; ``uncharged`` (releases heard
without a charge), ``redrawn`` (indices heard with two different bodies), ``hung`` (runs that did not end),
``false_success`` (runs without a failure that lack a release or cannot be verified): all four must be 0, else the exit
status is 1 and ``lacking`` says what was missing; and ``failed``, runs that said themselves that they failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from coordinator_free.release import Release
from node import launcher
from node.config import Configuration, from_table
from node.journal import read_journal
from node.ledger_file import LedgerFile
from node.logs import frames_of
from node.shard import agent_folder, read_rows, shard_path
from node.status import State, read_status
from node.verify import verify
from node.wire import Parts, Refused, decode

AGENTS = 6
UPDATES = 40
LIMIT = 90.0
"""Seconds after which a run is hung: an undisturbed one takes about ten."""
KILLS_A_RUN = 8


def configuration(synchronous: bool, seed: int) -> Configuration:
    learning: dict[str, Any] = {"loss": "logistic", "mu": 1.0, "smoothness": "bound"}
    if synchronous:
        learning = {"algorithm": "pvp", "loss": "logistic", "capacity": 100.0, "rho": 0.01, "penalty": 2.0}
    return from_table(
        {
            "run": {"seed": seed},
            "data": {"source": "breast-cancer", "agents": AGENTS},
            "topology": {"kind": "ring"},
            "learning": learning,
            "clock": {"rate": 8.0, "updates": UPDATES},
            "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": 1.0},
            "network": {"repeat": 0.1, "deadline": 30.0, "linger": 15.0, "loss": 0.1},
        }
    )


def tear(ledger: Path, luck: random.Random) -> None:
    """Leave the beginning of a record at the end of ``ledger``."""
    last = ledger.read_bytes().splitlines()[-1]
    with ledger.open("ab") as file:
        file.write(last[: luck.randrange(1, len(last))])


def disturb(cluster: launcher.Cluster, folder: Path, kills: int, luck: random.Random) -> tuple[int, int, bool]:
    """Kill and restart up to ``kills`` times; (kills, torn ledgers, whether the run ended in time)."""
    killed = torn = 0

    def late(progress: launcher.Progress) -> bool:
        return progress.seconds > LIMIT

    cluster.watch(until=lambda progress: progress.ready == AGENTS or late(progress))
    while killed < kills:
        time.sleep(luck.expovariate(4.0))  # the random instant itself
        candidates = [agent for agent in range(AGENTS) if agent in cluster.alive and not _finished(folder, agent)]
        if not candidates or cluster.progress().seconds > LIMIT:
            break
        victim = luck.choice(candidates)
        os.kill(cluster.alive[victim], signal.SIGKILL)
        killed += 1
        cluster.watch(until=lambda progress, victim=victim: victim not in cluster.alive or late(progress))  # type: ignore[misc]
        if luck.random() < 0.5:
            tear(agent_folder(folder, victim) / "ledger.jsonl", luck)
            torn += 1
        cluster.restart(victim)
        cluster.watch(until=lambda progress, victim=victim: victim in cluster.alive or late(progress))  # type: ignore[misc]
    ended = cluster.watch(until=late)
    return killed, torn, not cluster.alive and ended.wall_s <= LIMIT


def judge(folder: Path) -> dict[str, int]:
    """What was heard, or is in a journal, against the ledgers."""
    bodies: dict[tuple[int, int], set[bytes]] = {}
    for release in _releases(folder):
        bodies.setdefault((release.sender, release.index), set()).add(release.vector.tobytes())
    uncharged = 0
    for agent in range(AGENTS):
        rows, public = read_rows(shard_path(folder, agent))
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", rows.digest()) as held:
            run = str(public["run"])
            uncharged += sum(held.ledger.charged(run, k) is None for sender, k in bodies if sender == agent)
    return {"uncharged": uncharged, "redrawn": sum(len(found) > 1 for found in bodies.values())}


def _releases(folder: Path) -> list[Release]:
    frames: list[Parts] = [frame.parts for frame in frames_of(folder, [])]
    for agent in range(AGENTS):
        frames += [parts for _, parts in read_journal(agent_folder(folder, agent) / "journal.bin")]
    found = []
    for parts in frames:
        try:
            message = decode(parts)
        except Refused:
            continue
        if isinstance(message, Release):
            found.append(message)
    return found


def _finished(folder: Path, agent: int) -> bool:
    status = read_status(agent_folder(folder, agent) / "status")
    return status is not None and status.state >= State.FINISHED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    luck = random.Random(options.seed)
    total = dict.fromkeys(("kills", "runs", "torn", "uncharged", "redrawn", "hung", "false_success"), 0)
    failed: list[Any] = []
    lacking: list[Any] = []
    while total["kills"] < options.kills:
        with tempfile.TemporaryDirectory() as place:
            folder, synchronous = Path(place) / "run", total["runs"] % 2 == 0
            chosen = configuration(synchronous, total["runs"])
            launcher.deal(chosen, folder)
            cluster = launcher.Cluster(folder, chosen, AGENTS)
            cluster.start()
            try:
                kills, torn, ended = disturb(cluster, folder, min(KILLS_A_RUN, options.kills - total["kills"]), luck)
                watch = cluster.watch(until=lambda _: True) if not ended else cluster.watch()
            finally:
                cluster.stop()
            total["runs"] += 1
            total["kills"] += kills
            total["torn"] += torn
            total["hung"] += not ended
            for key, count in judge(folder).items():
                total[key] += count
            trouble = [failure for failure in watch.failures if failure["status"] != -signal.SIGKILL]
            if trouble:
                failed.append(trouble)
            elif ended:
                heard = {(release.sender, release.index) for release in _releases(folder)}
                verdict = verify(folder)
                if (synchronous and len(heard) < AGENTS * UPDATES) or not verdict.ok:
                    total["false_success"] += 1
                    lacking.append({"run": total["runs"], "releases": len(heard), **verdict.as_json()})
    print(json.dumps({**total, "failed": failed, "lacking": lacking}, indent=1))
    return int(any(total[key] for key in ("uncharged", "redrawn", "hung", "false_success")))


if __name__ == "__main__":
    sys.exit(main())
