"""Agents killed at random instants and started again, in many small runs: what must never happen is counted.

    python benchmarks/chaos.py [--kills 1000] [--seed 1]

Runs alternate between synchronous ADMM and asynchronous coordinate descent, six private agents on a ring that loses a
tenth of all copies. Every kill is SIGKILL to one or two agents, half of the times at a random instant, half as soon as
the first of them writes to its ledger or journal or some microseconds later: between the write of a charge, its sync,
the journal and the socket. A victim that has charged what its journal does not hold was killed ``inside`` the way of a
release. Of half of those the charge is cut off anywhere, as a machine that crashes before the sync may leave it; half
of the others get the beginning of one more record (the kernel finishes most writes that SIGKILL meets): both are
``torn``. Whenever an agent is dead, and at the end, what it said is held against its ledger as that is on the disk.

Prints one JSON document: ``kills``, ``runs``, ``inside``, ``torn``; ``uncharged`` (releases said without a charge at
that moment), ``redrawn`` (indices said with two different bodies), ``overspent`` (agents whose ledger holds more than
their budget, torn charges included), ``hung`` (runs that did not end), ``false_success`` (runs without a failure in
which an agent did not use up its updates, a release of a round is lacking, or that cannot be verified): all five must
be 0, else the exit status is 1 and ``lacking`` says what was missing, in which run; and ``failed``, runs that said
themselves that they failed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coordinator_free.release import Release
from node.audit.verify import verify
from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.folder.journal import read_journal
from node.folder.ledger import LedgerFile
from node.folder.shard import read_rows
from node.folder.spending import spent
from node.folder.status import State, read_status
from node.places import agent_folder, shard_path
from node.traffic.run_logs import frames_of
from node.wire import Parts, Refused, decode
from node.worlds import launcher, steps
from node.worlds.progress import Progress

AGENTS = 6
UPDATES = 80
LIMIT = 150.0
"""Seconds after which a run is hung: one with all its kills takes about thirty."""
KILLS_A_RUN = 30
PATIENCE = 1.0
"""Seconds that a kill waits for its victim to write."""
ROUNDING = 1e-9
"""Of an epsilon."""
LATE = 0.002
"""Seconds after a write in which it may still come."""


@dataclass
class Counts:
    """Of all runs together."""

    kills: int = 0
    runs: int = 0
    inside: int = 0
    torn: int = 0
    uncharged: int = 0
    redrawn: int = 0
    overspent: int = 0
    hung: int = 0
    false_success: int = 0


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
            "clock": {"updates": UPDATES} if synchronous else {"rate": 8.0, "updates": UPDATES},
            "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": 1.0},
            "network": {"repeat": 0.1, "deadline": 30.0, "linger": 15.0, "loss": 0.1},
        }
    )


def strike(victims: Sequence[int], pids: Mapping[int | str, int], folder: Path, luck: random.Random) -> None:
    """Kill ``victims``; half of the times when the first of them has just written something."""
    if luck.random() < 0.5:
        _await_write(agent_folder(folder, victims[0]), PATIENCE)
        until = time.perf_counter() + luck.choice((0.0, luck.random() * LATE))
        while time.perf_counter() < until:
            pass
    for victim in victims:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pids[victim], signal.SIGKILL)


def _await_write(folder: Path, seconds: float) -> None:
    """Until a file in ``folder`` is written to, at most so long; the kernel tells by SIGIO, while it writes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
    try:
        fcntl.fcntl(descriptor, fcntl.F_NOTIFY, fcntl.DN_MODIFY)
        signal.sigtimedwait({signal.SIGIO}, seconds)
    finally:
        os.close(descriptor)  # which ends the notices
        while signal.sigtimedwait({signal.SIGIO}, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def autopsy(folder: Path, agent: int, luck: random.Random, counts: Counts) -> None:
    """Hold a dead agent's journal against its ledger, and leave the ledger as a crash of the machine may leave it."""
    path = agent_folder(folder, agent) / "ledger.jsonl"
    _, public = read_rows(shard_path(folder, agent))
    run = public.run.hex()
    frames = [decode(parts) for _, parts in read_journal(agent_folder(folder, agent) / "journal.bin")]
    said = {frame.index for frame in frames if isinstance(frame, Release)}
    with LedgerFile.read(path, None) as held:
        counts.uncharged += sum(held.ledger.charged(run, index) is None for index in said)
        last = (held.records(run) or [{}])[-1]
    inside = "torn" not in last and last.get("again", last.get("first", -1)) not in {-1, *said}
    counts.inside += inside
    if luck.random() < 0.5:
        data = path.read_bytes()
        record = data.splitlines(keepends=True)[-1]
        cut = luck.randrange(1, len(record))
        counts.torn += 1
        if not data.endswith(b"\n"):
            return  # the kill itself has torn it
        if inside:
            os.truncate(path, len(data) - len(record) + cut)
        else:
            with path.open("ab") as file:
                file.write(record[:cut])


def disturb(cluster: launcher.Cluster, folder: Path, kills: int, luck: random.Random, counts: Counts) -> bool:
    """Kill and restart up to ``kills`` times; whether the run ended in time."""

    def late(progress: Progress) -> bool:
        return progress.seconds > LIMIT

    cluster.watch(until=lambda progress: progress.ready == AGENTS or late(progress))
    while kills > 0:
        time.sleep(luck.expovariate(8.0))  # the random instant itself
        alive = cluster.alive
        candidates = [agent for agent in range(AGENTS) if agent in alive and not _finished(folder, agent)]
        if cluster.progress().seconds > LIMIT or all(_finished(folder, agent) for agent in range(AGENTS)):
            break
        victims = luck.sample(candidates, min(len(candidates), kills, luck.choice((1, 1, 2))))
        if victims:
            strike(victims, alive, folder, luck)
        kills -= len(victims)
        counts.kills += len(victims)
        cluster.watch(until=lambda progress, v=victims: not cluster.alive.keys() & set(v) or late(progress))  # type: ignore[misc]
        for victim in victims:
            autopsy(folder, victim, luck, counts)
            cluster.restart(victim)
    ended = cluster.watch(until=late)
    return not cluster.alive and ended.wall_s <= LIMIT


def judge(folder: Path, counts: Counts) -> None:
    """What was heard, or is in a journal, against the ledgers."""
    bodies: dict[tuple[int, int], set[bytes]] = {}
    for release in _releases(folder):
        bodies.setdefault((release.sender, release.index), set()).add(release.vector.tobytes())
    for agent in range(AGENTS):
        rows, public = read_rows(shard_path(folder, agent))
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", rows.digest()) as held:
            run = public.run.hex()
            counts.uncharged += sum(held.ledger.charged(run, k) is None for sender, k in bodies if sender == agent)
    counts.redrawn += sum(len(found) > 1 for found in bodies.values())
    spending = spent(folder)
    assert spending.budget is not None
    counts.overspent += int((spending.epsilons > spending.budget + ROUNDING).sum())


def lacks(folder: Path, synchronous: bool) -> dict[str, Any]:
    """What a run lacks of what its success claims; empty if nothing."""
    lacking: dict[str, Any] = {}
    for agent in range(AGENTS):
        final = json.loads((agent_folder(folder, agent) / "final.json").read_text())
        if final["code"] != 0 or final["charged"] != UPDATES or (synchronous and final["sent"] != UPDATES):
            lacking[f"agent {agent}"] = {key: final[key] for key in ("code", "charged", "sent", "last", "notes")}
    heard = {(release.sender, release.index) for release in _releases(folder)}
    if synchronous and len(heard) < AGENTS * UPDATES:
        lacking["releases"] = len(heard)
    verdict = verify(folder)
    if not verdict.ok:
        lacking["verify"] = verdict.to_json()
    return lacking


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
    counts = Counts()
    failed: list[Any] = []
    lacking: list[Any] = []
    while counts.kills < options.kills:
        with tempfile.TemporaryDirectory() as place:
            folder, synchronous = Path(place) / "run", counts.runs % 2 == 0
            chosen = configuration(synchronous, counts.runs)
            steps.deal(chosen, folder)
            cluster = launcher.Cluster(folder, chosen, AGENTS)
            cluster.start()
            try:
                kills = min(KILLS_A_RUN, options.kills - counts.kills)
                ended = disturb(cluster, folder, kills, luck, counts)
                watch = cluster.watch(until=lambda _: True) if not ended else cluster.watch()
            finally:
                cluster.stop()
            counts.runs += 1
            counts.hung += not ended
            judge(folder, counts)
            trouble = [asdict(failure) for failure in watch.failures if failure.status != -signal.SIGKILL]
            if trouble or not ended:
                failed.append({"run": counts.runs, "hung": not ended, "trouble": trouble})
            elif lack := lacks(folder, synchronous):
                counts.false_success += 1
                lacking.append({"run": counts.runs, **lack})
        print(f"{counts.kills} kills in {counts.runs} runs", file=sys.stderr, flush=True)
    print(json.dumps({**asdict(counts), "failed": failed, "lacking": lacking}, indent=1))
    return int(any((counts.uncharged, counts.redrawn, counts.overspent, counts.hung, counts.false_success)))


if __name__ == "__main__":
    sys.exit(main())
