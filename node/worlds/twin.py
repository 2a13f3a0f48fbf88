"""A dealt run in the twin: the same agents, ledgers and log, in one process on a virtual clock.

Rules that hold here:
- Releases are charged like in every other world: whoever publishes the results has spent.
- Times in the log are virtual; the frames are the bytes that processes would send.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.agent import Activation
from coordinator_free.agents.registry import make
from coordinator_free.clocks import waits
from coordinator_free.faults.conditions import conditions
from coordinator_free.privacy.mechanisms import Mechanism
from coordinator_free.release import Release
from coordinator_free.twin.run import run_asynchronous, run_rounds
from node.agent.charging import Charger
from node.faults.joins_and_leaves import Membership, membership
from node.faults.log import write_fault
from node.faults.outages import Outage, awake, outages
from node.faults.twin_links import TwinLinks
from node.folder.arrays import packed
from node.folder.ledger import LedgerFile
from node.folder.run import read_run
from node.folder.shard import read_secret, setting
from node.folder.whole import write_whole
from node.places import agent_folder
from node.plug_ins import find_here
from node.traffic.eavesdropper import run_attachments
from node.traffic.reader import TrafficLogWriter
from node.wire import Done, Hello, encode

SECOND = 1_000_000_000


def run_twin(folder: Path) -> None:
    """Run the dealt run in ``folder`` to its end and leave what its processes would have left."""
    run = read_run(folder)
    secrets = [read_secret(agent_folder(folder, i) / "secret") for i in range(run.agents)]
    settings = [setting(run.rows[i], run.public[i], secrets[i]) for i in range(run.agents)]
    agents = [make(run.public[i].algorithm, settings[i]) for i in range(run.agents)]
    ledgers = [
        LedgerFile.open(agent_folder(folder, i) / "ledger.jsonl", run.rows[i].digest()) for i in range(run.agents)
    ]
    chargers = [
        Charger(ledger, agent, run.public[i].releases, run.run)
        for i, (ledger, agent) in enumerate(zip(ledgers, agents, strict=True))
    ]
    sent: list[list[int]] = [[] for _ in agents]
    size = [0] * run.agents
    digest = run.public[0].digest
    weather = conditions(run.public[0].network.conditions, run.public[0].seed)
    events, names, seed = run.configuration.event, run.manifest["names"], run.public[0].seed
    planned = list(outages(events, names, seed).values())
    partitions = [outage for outage in planned if outage.fault == "partition"]
    links = None if weather.calm and not partitions else TwinLinks(weather, partitions)
    members = membership(events, names, seed)
    now, frame = 0.0, 0
    with TrafficLogWriter(folder / "traffic.mcap", run_attachments(folder)) as log:
        for i in range(run.agents):
            log.write(encode(run.run, Hello(i, digest)), 0)

        def charge(release: Release, _: Mechanism | None) -> None:
            chargers[release.sender].charge(release.index)

        def hear(time: float, release: Release) -> None:
            nonlocal now, frame
            parts = encode(run.run, release)
            log.write(parts, int(max(0.0, time) * SECOND))
            sent[release.sender].append(release.index)
            now, frame = max(0.0, time), sum(map(len, parts))
            size[release.sender] += frame
            if links is not None and agents[0].activation is Activation.ROUNDS:
                for j in run.network.neighbours(release.sender):
                    if release.recipient is None or release.recipient == j:
                        links.meet(release, j, now, frame)

        def delay(release: Release, receiver: int) -> float | None:
            return 0.0 if links is None else links.meet(release, receiver, now, frame)

        if agents[0].activation is Activation.ROUNDS:
            transcript = run_rounds(agents, run.network, on_release=hear, ledger=charge)
        else:
            clocks = [waits(seed, i, run.public[i].rate) for i in range(run.agents)]
            transcript = run_asynchronous(
                agents,
                run.network,
                rate=run.configuration.clock.rate,
                seed=seed,
                clocks=[awake(clock, planned, i, members.joins.get(i, 0.0)) for i, clock in enumerate(clocks)],
                delay=None if links is None else delay,
                on_release=hear,
                ledger=charge,
                joins=members.joins,
                leaves=members.leaves,
            )
            note_events(folder, log, members, planned, max(transcript.times, default=0.0))
        end = int(max(transcript.times, default=0.0) * SECOND)
        for i in range(run.agents):
            log.write(encode(run.run, Done(i, max(sent[i], default=-1), (), run.network.neighbours(i))), end)
    for ledger in ledgers:
        ledger.close()
    for i, agent in enumerate(agents):
        arrays = {"model": agent.model}
        finish = transcript.finishes[i]
        if finish is not None:
            arrays["finish"] = finish
        write_whole(agent_folder(folder, i) / "final.npz", packed(arrays))
        counted: dict[str, Any] = {
            "agent": i,
            "code": 0,
            "reason": None,
            "notes": [],
            "ready_s": 0.0,
            "sent": len(sent[i]),
            "last": max(sent[i], default=-1),
            "received": int(np.sum([len(sent[j]) for j in run.network.neighbours(i)])),
            "repeats_said": 0,
            "repeats_heard": 0,
            "late": 0,
            "missing": {},
            "not_done": [],
            "dropped_by_reason": {},
            "bytes": size[i],
            "charged": chargers[i].charged,
            "pss_kb": None,
            "cpu_s": 0.0,
        }
        if links is not None:
            counted["links"] = links.of(i)
        write_whole(agent_folder(folder, i) / "final.json", json.dumps(counted, indent=1).encode())


def note_events(
    folder: Path, log: TrafficLogWriter, members: Membership, planned: Sequence[Outage], last: float
) -> None:
    """Write down who joined and left, what was cut and who stood still, at virtual times, as the launcher would.

    Nothing was said after ``last``.
    """
    lines: list[dict[str, Any]] = [
        {"fault": move.fault, "at_s": move.at, "agents": list(move.agents)} for move in members.movements
    ]
    for outage in planned:
        groups = {"groups": list(outage.groups)} if outage.groups else {}
        lines.append({"fault": outage.fault, "at_s": outage.at, "agents": list(outage.agents), **groups})
        over = {"fault": "resume", "agents": list(outage.agents)} if not groups else {"fault": "heal", "agents": []}
        lines.append({"at_s": outage.until, **over})
    for line in sorted(lines, key=lambda line: float(line["at_s"])):
        if line["at_s"] > last:
            if line["fault"] in ("resume", "heal"):
                continue
            line |= {"agents": [], "skipped": "the run was over"}
        line["time_ns"] = int(line["at_s"] * SECOND)
        write_fault(folder, line)
        log.event(line, line["time_ns"])


def main() -> int:
    """``python -m node.worlds.twin FOLDER``; exit status 2 with one line for bad input."""
    find_here()
    try:
        run_twin(Path(sys.argv[1]))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
