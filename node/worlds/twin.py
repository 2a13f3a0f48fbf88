"""A dealt run in the twin: the same agents, ledgers and log, in one process on a virtual clock.

Rules that hold here:
- Releases are charged as in every other world: to publish the results spends the budget all the same.
- Times in the log are virtual; the frames are the bytes that processes would send.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from coordinator_free.agent import Activation, Diverged
from coordinator_free.agents.registry import make
from coordinator_free.clocks import waits
from coordinator_free.faults.conditions import conditions
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import Release
from coordinator_free.twin.run import Transcript, run_asynchronous, run_rounds
from node.agent.charging import Charger, start_of
from node.agent.farewell import leave
from node.exit_codes import ExitCode
from node.faults.joins_and_leaves import Membership, membership
from node.faults.log import Fault, write_fault
from node.faults.outages import Outage, awake, outages
from node.faults.twin_links import TwinLinks
from node.folder.counted import Counted
from node.folder.ledger import LedgerFile
from node.folder.run import read_run
from node.folder.shard import read_secret, setting
from node.hello import Hello
from node.places import agent_folder
from node.plug_ins import exit_status_of
from node.processes import keep_private
from node.traffic.attachments import run_attachments
from node.traffic.writer import TrafficLogWriter
from node.wire import Done, encode

SECOND = 1_000_000_000


def run_twin(folder: Path) -> None:
    """Run the dealt run in ``folder`` to its end and leave what its processes would have left."""
    with ExitStack() as ledgers:
        world = TwinWorld(folder, ledgers)
        with TrafficLogWriter(folder / "traffic.mcap", run_attachments(folder)) as log:
            transcript = world.run(log)
    world.leave(transcript)


class TwinWorld:
    """The agents of a dealt run, their ledgers, and the links between them, on a virtual clock (seconds).

    Parameters
    ----------
    folder
        A dealt run.
    held
        Closes the ledgers that are opened here, also where opening the next one or a release fails.

    Raises
    ------
    ValueError
        For a run that cannot be read, or a ledger without room for it.
    """

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self._folder = folder
        self._run = run = read_run(folder)
        places = [agent_folder(folder, i) for i in range(run.agents)]
        self._ledgers = [
            held.enter_context(LedgerFile.open(place / "ledger.jsonl", rows.digest()))
            for place, rows in zip(places, run.rows, strict=True)
        ]
        settings = [
            setting(rows, public, read_secret(place / "secret"), start_of(ledger, public))
            for rows, public, place, ledger in zip(run.rows, run.public, places, self._ledgers, strict=True)
        ]
        self._agents = [make(run.public[i].algorithm, settings[i]) for i in range(run.agents)]
        self._in_rounds = self._agents[0].activation is Activation.ROUNDS
        self._chargers = [
            Charger(ledger, agent, run.public[i].releases, run.run)
            for i, (ledger, agent) in enumerate(zip(self._ledgers, self._agents, strict=True))
        ]
        self._seed = run.public[0].seed
        weather = conditions(run.public[0].network.conditions, self._seed)
        events, names = run.configuration.event, run.manifest.names
        self._planned = list(outages(events, names, self._seed).values())
        partitions = [outage for outage in self._planned if outage.fault == "partition"]
        self._links = None if weather.calm and not partitions else TwinLinks(weather, partitions)
        self._members = membership(events, names, self._seed)
        self._sent: list[list[int]] = [[] for _ in self._agents]
        self._bytes = [0] * run.agents
        self._now, self._frame = 0.0, 0
        """Time and bytes of the release that is on its way."""
        self._log: TrafficLogWriter

    def run(self, log: TrafficLogWriter) -> Transcript:
        """Run the agents to their end; the log gets what an eavesdropper would receive, at virtual times."""
        run = self._run
        digest = run.public[0].digest
        for i in range(run.agents):
            log.write(encode(run.run, Hello(i, digest)), 0)
        self._log = log
        transcript = self._rounds() if self._in_rounds else self._asynchronous()
        last = max(transcript.times, default=0.0)
        if not self._in_rounds:
            note_events(self._folder, log, self._members, self._planned, last)
        for i, sent in enumerate(self._sent):
            done = Done(i, max(sent, default=-1), (), run.network.neighbours(i))
            log.write(encode(run.run, done), int(last * SECOND))
        return transcript

    def _rounds(self) -> Transcript:
        return run_rounds(self._agents, self._run.network, on_release=self._send, ledger=self._charge)

    def _asynchronous(self) -> Transcript:
        run, members = self._run, self._members
        clocks = [waits(self._seed, i, run.public[i].rate) for i in range(run.agents)]
        return run_asynchronous(
            self._agents,
            run.network,
            rate=run.configuration.clock.rate,
            seed=self._seed,
            clocks=[awake(clock, self._planned, i, members.joins.get(i, 0.0)) for i, clock in enumerate(clocks)],
            delay=None if self._links is None else self._delay,
            on_release=self._send,
            ledger=self._charge,
            joins=members.joins,
            leaves=members.leaves,
        )

    def _charge(self, release: Release, _: Mechanism | None) -> None:
        self._chargers[release.sender].charge(release.index)
        if not release.finite:
            raise Diverged(release)

    def _send(self, time: float, release: Release) -> None:
        parts = encode(self._run.run, release)
        self._log.write(parts, int(max(0.0, time) * SECOND))
        self._sent[release.sender].append(release.index)
        self._now, self._frame = max(0.0, time), sum(map(len, parts))
        self._bytes[release.sender] += self._frame
        if self._in_rounds:  # a round waits for every release: its links count, and delay nothing
            for j in self._run.network.neighbours(release.sender):
                if release.recipient is None or release.recipient == j:
                    self._delay(release, j)

    def _delay(self, release: Release, receiver: int) -> float | None:
        """Return the seconds that a link takes for a release; None if it is lost."""
        return 0.0 if self._links is None else self._links.meet(release, receiver, self._now, self._frame)

    def leave(self, transcript: Transcript) -> None:
        """Write what each agent leaves."""
        for i, agent in enumerate(self._agents):
            leave(agent_folder(self._folder, i), agent.model, transcript.finishes[i], self._counted(i))

    def _counted(self, agent: int) -> Counted:
        sent = self._sent[agent]
        return Counted(
            agent=agent,
            code=ExitCode.FINISHED,
            reason=None,
            notes=(),
            ready_s=0.0,
            sent=len(sent),
            last=max(sent, default=-1),
            received=sum(len(self._sent[j]) for j in self._run.network.neighbours(agent)),
            repeats_sent=0,
            repeats_received=0,
            late=0,
            missing={},
            not_done=(),
            dropped_by_reason={},
            bytes=self._bytes[agent],
            charged=self._chargers[agent].charged,
            pss_kb=None,
            cpu_s=0.0,
            links=None if self._links is None else self._links.of(agent),
        )


def note_events(
    folder: Path, log: TrafficLogWriter, members: Membership, planned: Sequence[Outage], last: float
) -> None:
    """Note which agents joined and left, what was cut and which agents stood still, as the launcher would.

    Times are virtual. ``last`` is the time of the last release: of what comes after it, only the beginnings are noted.
    """
    lines = [(move.at, _fault(move.fault, move.at, move.agents)) for move in members.movements]
    for outage in planned:
        begun = _fault(outage.fault, outage.at, outage.agents)
        if outage.groups:
            begun["groups"] = list(outage.groups)
        lines.append((outage.at, begun))
        if outage.until <= last:
            over = ("heal", ()) if outage.groups else ("resume", outage.agents)
            lines.append((outage.until, _fault(over[0], outage.until, over[1])))
    for at, line in sorted(lines, key=lambda line: line[0]):
        if at > last:
            line["agents"], line["skipped"] = [], "the run was over"
        write_fault(folder, line)
        log.event(line, line["time_ns"])


def _fault(name: str, at: float, agents: Sequence[int]) -> Fault:
    return {"fault": name, "at_s": at, "agents": list(agents), "time_ns": int(at * SECOND)}


def main() -> int:
    """``python -m node.worlds.twin FOLDER``; exit status 2 with one line for bad input."""
    return exit_status_of(lambda: run_twin(Path(sys.argv[1])), ValueError)


if __name__ == "__main__":
    keep_private()
    sys.exit(main())
