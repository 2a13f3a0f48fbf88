"""One agent's life: it becomes ready, speaks and hears until it has finished, and sees that its neighbours have too.

Rules that hold here:
- A release goes one way: the agent's wake, its charge, its journal, its bytes, the socket.
- Waiting is for a socket, a signal or a deadline, and every deadline's error names who is missing.
- An agent that waits repeats its last releases, the same bytes: that repairs slow joiners, loss and restarted peers.
- Nothing that arrives can raise out of the loop.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.agent import Activation, Agent, Halt
from coordinator_free.agents.registry import make
from coordinator_free.clocks import waits
from coordinator_free.faults.conditions import conditions
from coordinator_free.inbox import NewestInbox, RoundInbox
from coordinator_free.privacy.ledger import LedgerError
from coordinator_free.release import FloatArray, Release
from node.agent.charging import Charger
from node.agent.silence import Listening
from node.agent.snapshot import packed_snapshot, unpacked_snapshot
from node.faults.links import Shim
from node.faults.partition import Partition
from node.folder.arrays import packed
from node.folder.journal import Journal, read_journal
from node.folder.keys import read_keys
from node.folder.ledger import LedgerFile
from node.folder.shard import read_shard
from node.folder.status import LEAVE, State, StatusFile
from node.folder.whole import write_whole
from node.places import agent_folder, shard_path
from node.sockets.agent_sockets import Endpoints, FileEndpoints, Post
from node.sockets.names import NamedEndpoints
from node.wire import EAVESDROPPER, Done, Hello, Parts, Receiver, Refused, decode, encode, own_name

DRAIN = 64
"""Messages per neighbour that one drain takes at most."""
SPEAKING = 19
"""What an agent that is ready adds to its niceness: those who are not yet, and the eavesdropper, come first."""
HANG_UP = 60.0
"""Seconds that what was said has to go out at the end: a slow eavesdropper is waited for, but not for ever."""
LAG = 1.0
"""Seconds that an agent's clock may be behind before missed ticks are given up."""
STOOD_STILL = 3.0
"""Seconds without a turn on the processor after which all of them are. A thousand busy agents wait one for theirs."""
CATCHING_UP = 0.5
"""Seconds that who stood still listens before it speaks: the network hands over what waited bit by bit."""


class AgentFailure(Exception):
    """Why an agent could not go on; ``code`` is its exit status."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Stopped(AgentFailure):
    """The agent was told to stop."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM, "stopped by a signal")


class _Left(Exception):
    """The agent was told to leave the run."""


NOT_READY, LEDGER, SILENT = 3, 4, 5
FIRST_LOOK, LAST_LOOK = 0.02, 0.4
"""Seconds between two looks of an agent that gets ready, at first and at most: its neighbours' words come one by one,
and to wake for each costs more than all of them together."""


@dataclass
class Surroundings:
    """What an agent process needs besides its algorithm: public numbers of the run, and where things are.

    Times are in seconds. ``bind`` is the endpoint to speak at; ``publish`` makes it known where it was chosen by the
    system.
    """

    folder: Path
    run: bytes
    digest: bytes
    agent: int
    neighbours: tuple[int, ...]
    dimension: int
    releases: int
    endpoints: Endpoints
    bind: str
    publish: Callable[[str], None] | None
    eavesdropper: bool
    repeat: float
    deadline: float
    linger: float
    rate: float = 1.0
    clock_seed: int = 0
    skew_ns: int = 0
    """How much this agent's own clock is ahead."""
    silent: float = 60.0
    on_silent: str = "wait"
    hold: Callable[[], None] = lambda: None
    """Returns when this agent may look for its neighbours."""
    shim: Shim | None = None
    """Network conditions between the socket and the checks."""
    niceness: int = SPEAKING
    joins: bool = False
    """The others are running already, and some of them may have left."""
    joining: frozenset[int] = frozenset()
    """Neighbours that join later: nobody waits for them at the start."""
    leaving: frozenset[int] = frozenset()
    """Neighbours that leave: nobody waits for them at the end."""
    notes: list[str] = field(default_factory=list)

    @property
    def awaited(self) -> frozenset[int]:
        """The neighbours without whom this agent does not begin."""
        return frozenset(self.neighbours) - self.joining - (self.leaving if self.joins else frozenset())


class Life:
    """One agent from its first hello to its last done."""

    def __init__(self, agent: Agent, ledger: LedgerFile, around: Surroundings, post: Post) -> None:
        self._agent = agent
        self._around = around
        self._post = post
        self._names = around.endpoints if isinstance(around.endpoints, NamedEndpoints) else None
        self._receiver = Receiver(around.run, around.agent, around.neighbours, around.dimension, around.releases)
        self._charger = Charger(ledger, agent, around.releases, around.run)
        self._status = StatusFile(around.folder / "status")
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._leave = False
        signal.signal(LEAVE, self._on_leave)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        post.watch(self._wake_read)
        self._inbox: NewestInbox | RoundInbox
        if agent.activation is Activation.ROUNDS:
            self._inbox = RoundInbox(around.neighbours)
        else:
            self._inbox = NewestInbox(newest_only=agent.newest_only)
        self._shim = around.shim
        self._drain = DRAIN * max(1, len(around.neighbours))
        self._met: set[int] = set()
        self._coming = set(around.neighbours) - around.awaited
        """Neighbours that may join, or have left before this agent came, and have not been connected to."""
        self._absent: set[int] = set()
        """Neighbours whose silence outlasted the deadline, until they say something new."""
        self._listening = Listening()
        """The clock of all that is said of others' silence."""
        self._word_at: dict[int, float] = {}
        """In rounds: when each neighbour was last heard, were it with a repeat; at first when this agent began."""
        self._strangers: set[int] = set()
        self._done: dict[int, Done] = {}
        self._last_frames: deque[tuple[bytes, bytes, bytes]] = deque(maxlen=2)
        self._said_last = -1
        self._spoken: set[int] = set()
        self._state = State.STARTING
        self._pid = os.getpid()
        self._bytes = 0
        self._repeated = 0
        self._memory: int | None = None
        self._cpu = 0.0
        self._ready_cpu = 0.0
        self._ready_after = 0.0
        self._ready_ns = 0
        self._heard_at = 0.0
        self._journal = Journal(around.folder / "journal.bin")

    def _on_signal(self, *_: object) -> None:
        self._stop = True

    def _on_leave(self, *_: object) -> None:
        self._leave = True

    def _check_stop(self) -> None:
        if self._stop:
            raise Stopped
        if self._leave and self._state is State.SPOKEN:
            raise _Left

    # -- speaking -----------------------------------------------------------------------------------------------

    def _speak(self, release: Release) -> None:
        parts = encode(self._around.run, release)
        if isinstance(self._inbox, RoundInbox):
            record = {"frame": [_text(part) for part in parts], "state": _text(packed_snapshot(self._agent.snapshot()))}
            self._charger.charge(release.index, **record)
        else:
            self._charger.charge(release.index)
        self._journal.write(self._own_time(), parts)
        self._post.say(parts)
        self._last_frames.append(parts)
        self._said_last = release.index
        self._spoken.add(release.index)
        self._bytes += sum(map(len, parts))
        self._show()

    def _own_time(self) -> int:
        """What this agent's own clock shows, in ns; nothing depends on it."""
        return time.time_ns() + self._around.skew_ns

    def _repeat(self, *, done: bool = False) -> None:
        """Say the last releases again, the same bytes, which costs no privacy."""
        count = 2 if self._agent.activation is Activation.ROUNDS else 1
        for parts in list(self._last_frames)[-count:]:
            self._post.say(parts)
            self._repeated += 1
        if done:
            self._say_done()

    def _say_hello(self) -> None:
        """Who meets this agent only now, since one of the two was started again, is to go on with what it last said."""
        if isinstance(self._inbox, NewestInbox):
            self._repeat()
        self._post.say(encode(self._around.run, Hello(self._around.agent, self._around.digest)))

    def _say_done(self) -> None:
        skipped = tuple(sorted(set(range(self._said_last + 1)) - self._spoken))
        done = Done(self._around.agent, self._said_last, skipped, tuple(sorted(self._done)))
        self._post.say(encode(self._around.run, done))

    def _show(self) -> None:
        self._status.show(
            self._state,
            self._pid,
            len(self._spoken),
            self._receiver.received,
            self._charger.charged,
            self._bytes,
            self._ready_ns,
        )

    # -- hearing ------------------------------------------------------------------------------------------------

    def _hear(self) -> bool:
        """Take what arrived; True if anything new did."""
        self._listening.look()
        if self._names is not None:
            while (moved := self._names.moved()) is not None:
                self._post.follow(*moved)
        if (self._around.joining or self._coming) and self._state >= State.READY:
            self._welcome()
        frames: Sequence[Parts] = self._post.drain(self._drain)
        if self._shim is not None:
            frames = self._shim.pass_on(frames)
        releases, others = self._receiver.take(frames)
        new = bool(releases)
        inbox = self._inbox
        for release in releases:
            if release.round is None and isinstance(inbox, RoundInbox):
                self._receiver.dropped["round"] += 1
            else:
                inbox.offer(release)
        if len(self._met) < len(self._around.neighbours):
            # Whoever speaks in this run was ready once: a restarted agent hears no hello from those who go on.
            self._met.update(release.sender for release in releases)
            self._met.update(message.sender for message in others if isinstance(message, Done))
        for message in others:
            if isinstance(message, Done):
                new |= self._done.get(message.sender) != message
                self._done[message.sender] = message
            elif message.digest == self._around.digest:
                self._met.add(message.sender)
            else:
                self._strangers.add(message.sender)
        if new:
            self._heard_at = self._listening.seconds
        if isinstance(inbox, RoundInbox):
            self._absent.difference_update(release.sender for release in releases)
            words = {*self._receiver.repeated, *(m.sender for m in releases), *(m.sender for m in others)}
            self._word_at.update(dict.fromkeys(words, self._listening.seconds))
            self._receiver.repeated.clear()
        return new

    def _welcome(self) -> None:
        """Listen to who has joined, and let whoever began to listen know that this agent is here."""
        for j in sorted(self._coming):
            endpoint = self._around.endpoints.lookup(j)
            if endpoint is not None:
                self._post.connect(endpoint, j)
                self._coming.discard(j)
        if self._post.notice_listeners():
            self._say_hello()

    def _wait(self, seconds: float) -> None:
        """Until something may have arrived, a held frame is due, a signal came, or the time is up."""
        if self._shim is not None and self._shim.due is not None:
            seconds = min(seconds, self._shim.due - time.monotonic())
        self._listening.wait(seconds)
        self._post.wait(seconds)

    # -- the three parts of a life ------------------------------------------------------------------------------

    def become_ready(self) -> None:
        """Until every neighbour and the eavesdropper listen and every neighbour was heard."""
        around = self._around
        bound = self._post.bind(around.bind)
        if around.publish is not None:
            around.publish(bound)
        around.hold()
        began_at = now = time.monotonic()
        next_hello = now
        look, patience = FIRST_LOOK, 4.0 * around.repeat
        expected = expected_listeners(around, around.awaited)
        unknown = set(around.awaited)
        self._recall()
        self._state = State.LISTENING
        self._show()
        while True:
            for j in sorted(unknown):
                endpoint = around.endpoints.lookup(j)
                if endpoint is not None:
                    self._post.connect(endpoint, j)
                    unknown.discard(j)
            began = self._post.notice_listeners()
            now = time.monotonic()
            listening = expected <= self._post.listeners
            # A hello that is said when all listen is heard by all: the repeated ones are for those who are early.
            if (began and listening) or now >= next_hello:
                self._say_hello()
                next_hello = now + patience
                patience = min(2.0 * patience, 10.0 * around.repeat)
            self._hear()
            self._check_stop()
            if self._strangers:
                self._say_hello()
                raise AgentFailure(NOT_READY, self._disagreement())
            if not unknown and listening and self._met.issuperset(around.awaited):
                break
            if now >= began_at + around.deadline:
                if around.joins and (not around.eavesdropper or EAVESDROPPER in self._post.listeners):
                    around.notes.append("joined without some: " + self._not_ready(unknown))
                    break
                if self._said_all():
                    around.notes.append("had said all before its restart: " + self._not_ready(unknown))
                    break
                raise AgentFailure(NOT_READY, self._not_ready(unknown))
            until = min(next_hello, began_at + around.deadline)
            self._wait((min(until, now + look) if unknown else until) - now)
            select.select([self._wake_read], [], [], look)
            look = min(2.0 * look, LAST_LOOK)
        self._ready_ns = time.monotonic_ns()
        self._ready_after = self._ready_ns / 1e9 - began_at
        self._ready_cpu = time.process_time()
        if self._around.niceness:
            _make_way(self._around.niceness)
        self._state = State.READY
        self._show()

    def _said_all(self) -> bool:
        """Whether this agent was restarted after its very last release: who has heard that may be gone for good."""
        last = self._around.releases - 1
        return self._charger.charged > last and last in self._spoken

    def _recall(self) -> None:
        """After a restart: what was said before, as the journal has it."""
        for _, parts in read_journal(self._around.folder / "journal.bin"):
            message = decode(parts)
            if isinstance(message, Release):
                self._spoken.add(message.index)
                self._bytes += sum(map(len, parts))
                self._last_frames.append(parts)

    def _disagreement(self) -> str:
        names = ", ".join(f"agent {j}" for j in sorted(self._strangers))
        return f"{names}: another public configuration than mine (algorithm, updates, graph or privacy differ); refused"

    def _not_ready(self, unknown: set[int]) -> str:
        around = self._around
        wanting = []
        silent = sorted(around.awaited - self._met)
        deaf = sorted(j for j in around.awaited if own_name(j) not in self._post.listeners)
        if unknown:
            wanting.append(_unknown(around.endpoints, sorted(unknown)))
        if silent:
            wanting.append("nothing heard from " + _agents(silent))
        if deaf:
            wanting.append("not listened to by " + _agents(deaf))
        if around.eavesdropper and EAVESDROPPER not in self._post.listeners:
            wanting.append("the eavesdropper does not listen")
        if self._receiver.dropped["run"]:
            wanting.append(f"{self._receiver.dropped['run']} frames of another run were refused")
        return f"not ready after network.deadline = {around.deadline:g} s: " + "; ".join(wanting)

    def speak_and_hear(self) -> None:
        """Everything between ready and finished."""
        self._state = State.SPOKEN
        self._word_at = dict.fromkeys(self._around.neighbours, self._listening.seconds)
        before = time.process_time()
        resumed = self._resume()
        if not resumed:
            release = self._agent.start()
            if release is not None:
                self._speak(release)
        try:
            if isinstance(self._inbox, RoundInbox):
                self._in_rounds(self._inbox)
            else:
                self._on_a_clock(self._inbox)
        except _Left:
            self._around.notes.append(f"left after release {self._said_last}")
        self._cpu = time.process_time() - before
        self._memory = _proportional_memory()

    def _on_a_clock(self, inbox: NewestInbox) -> None:
        """Wake at the ticks of a Poisson clock; the socket is drained at a tick, not at each arrival.

        An agent that stood still (it was stopped, or the machine was) has nothing new to say at the ticks that it
        missed: it gives them up, and first hears all that has waited for it. One that is late because it
        was busy, with a neighbour's flood for example, goes on as fast as it can, and hears no more at a time.
        """
        agent = self._agent
        ticks = waits(self._around.clock_seed, self._around.agent, self._around.rate)
        now = time.monotonic()
        tick = now + next(ticks)
        while not agent.finished:
            due = max(tick, now)
            now = time.monotonic()
            while now < tick and not self._has_heard_all:
                select.select([self._wake_read], [], [], tick - now)
                self._check_stop()
                now = time.monotonic()
            self._check_stop()
            if now > due + STOOD_STILL:
                caught_up = now + CATCHING_UP
                while now < caught_up:
                    self._hear()
                    self._check_stop()
                    self._wait(caught_up - now)
                    now = time.monotonic()
                tick = now + next(ticks)
                continue
            self._hear()
            for release in inbox.take():
                agent.receive(release)
            said = agent.wake()
            if said is not None:
                self._speak(said)
            tick = max(tick + next(ticks), now - LAG)

    @property
    def _has_heard_all(self) -> bool:
        """Whether the last release of every neighbour is here; never of agents that answer each other."""
        if self._agent.addressed or not 0 < len(self._around.neighbours) == len(self._done):
            return False
        return all(self._receiver.newest(j) >= done.last for j, done in self._done.items())

    def _in_rounds(self, inbox: RoundInbox) -> None:
        """Wake when a round is complete; while waiting repeat the last two releases."""
        agent = self._agent
        while not agent.finished:
            for release in self._await_round(inbox):
                agent.receive(release)
            said = agent.wake()
            if said is not None:
                self._speak(said)

    def _await_round(self, inbox: RoundInbox) -> list[Release]:
        """What the next wake is to consume.

        With ``carry-on`` a round is closed without neighbours of whom nothing was heard for ``network.silent``, not
        even a repeat (whoever waits repeats itself), and who was carried past goes on with the newest round. A silent
        neighbour is waited for again once it says something new. An agent that hears nobody is itself the one that is
        cut off: each of its rounds waits for the deadline, or it would spend its budget alone.
        """
        around = self._around
        waiting_since = self._listening.seconds
        next_repeat = time.monotonic() + around.repeat
        self._hear()
        while True:
            if around.on_silent == "carry-on" and (past := inbox.carried_past) is not None:
                around.notes.append(f"carried past: from round {inbox.round} to round {past + 1}")
                return inbox.take_past(past)
            alone = self._absent.issuperset(around.neighbours)
            gone = inbox.passed_over if around.on_silent == "carry-on" else frozenset()
            missing = [j for j in inbox.missing if j not in gone and (alone or j not in self._absent)]
            if not missing:
                return inbox.take(without=self._absent | gone)
            self._check_stop()
            now, listened = time.monotonic(), self._listening.seconds
            since = waiting_since if alone else 0.0
            silent = [j for j in missing if listened >= max(self._word_at[j], since) + around.silent]
            if silent and around.on_silent != "wait":
                reason = f"round {inbox.round}: nothing from {_agents(silent)} for network.silent = {around.silent:g} s"
                if around.on_silent == "stop":
                    raise AgentFailure(SILENT, reason)
                if not alone:
                    around.notes.append(reason + "; carried on without")
                self._absent.update(silent)
                if alone:
                    return inbox.take(without=self._absent)
                continue
            if now >= next_repeat:
                self._repeat()
                next_repeat = now + around.repeat
            self._wait(next_repeat - now)
            self._hear()

    def _resume(self) -> bool:
        """After a restart: go on from the ledger, repeat the last release if its bytes are still here."""
        if self._charger.charged == 0:
            return False
        if isinstance(self._inbox, RoundInbox):
            return self._resume_round(self._inbox)
        state: dict[str, FloatArray] = {}
        if self._last_frames and isinstance(last := decode(self._last_frames[-1]), Release):
            state = {"model": last.vector, "index": np.array([float(last.index)])}
            self._said_last = last.index
        self._agent.restore(state, self._charger.charged)
        self._around.notes.append(f"restarted: goes on with index {self._charger.charged}")
        self._repeat()
        return True

    def _resume_round(self, inbox: RoundInbox) -> bool:
        # A torn record was charged and never said. What it held is computed again from the state before it, and under
        # its own index: a round has one set of inputs, so that release, noise and all, is the same to the last bit.
        records = [record for record in self._charger.records() if "state" in record]
        indices = [int(record["again" if "again" in record else "first"]) for record in records]
        following = max(indices, default=-1) + 1
        if not self._charger.covers(following):
            following = self._charger.charged
        if not records:
            if following > 0:
                self._agent.restore({}, following)
            return False
        state = unpacked_snapshot(base64.b64decode(records[-1]["state"]))
        self._last_frames.clear()
        for index, record in zip(indices[-2:], records[-2:], strict=True):
            first, second, third = (base64.b64decode(part) for part in record["frame"])
            self._last_frames.append((first, second, third))
            if index not in self._spoken:  # it ended between its charge and its journal
                self._journal.write(self._own_time(), self._last_frames[-1])
        self._agent.restore(state, following)
        with contextlib.suppress(Refused):
            last = decode(self._last_frames[-1])
            if isinstance(last, Release) and last.round is not None:
                inbox.jump(last.round)
                self._said_last = last.index
        self._spoken = set(indices)
        self._around.notes.append(f"restarted: repeats round {inbox.round}")
        self._repeat()
        return True

    def see_neighbours_out(self) -> None:
        """Repeat the last release and done until every neighbour is done too and knows that this agent is."""
        around, me = self._around, self._around.agent
        if self._state is not State.FAILED:
            self._state = State.FINISHED
        self._show()
        if self._leave and not self._agent.finished:
            self._repeat(done=True)
            return
        self._say_done()
        patience = around.repeat
        next_repeat = time.monotonic() + patience
        self._heard_at = self._listening.seconds
        while True:
            self._check_stop()
            known = len(self._done)
            self._hear()
            self._post.notice_listeners()
            if known < len(self._done) == len(around.neighbours):
                self._say_done()  # what it has heard of some of them is told with the next repeat
            if isinstance(self._inbox, NewestInbox):
                for release in self._inbox.take():
                    self._agent.receive(release)
            waiting = [
                j
                for j in around.neighbours
                if j not in around.leaving
                and (j not in self._done or (me not in self._done[j].heard and own_name(j) in self._post.listeners))
            ]
            if not waiting:
                break
            now = time.monotonic()
            if self._listening.seconds >= self._heard_at + around.linger:
                silent = [j for j in waiting if j not in self._done]
                if silent:
                    around.notes.append(f"linger of {around.linger:g} s passed: no done from {_agents(silent)}")
                break
            if now >= next_repeat:
                self._repeat(done=True)
                # Who is in a round may need the last release. Everybody else waits for the slowest, and a thousand who
                # repeat themselves every second would keep it from ever ending.
                if isinstance(self._inbox, NewestInbox) or len(self._done) == len(around.neighbours):
                    patience = min(2 * patience, 10 * around.repeat)
                next_repeat = now + patience
            self._wait(next_repeat - now)

    def fail(self, reason: str) -> None:
        """Say nothing new from here on; neighbours still hear `done`."""
        self._state = State.FAILED
        self._around.notes.append(reason)

    # -- the end ------------------------------------------------------------------------------------------------

    def write_final(self, code: int, reason: str | None) -> None:
        """The final model, mode 0600, and what this agent counted. Each file appears whole or not at all."""
        arrays: dict[str, FloatArray] = {"model": self._agent.model}
        if code == 0:
            finish = self._agent.finish()
            if finish is not None:
                arrays["finish"] = finish
        write_whole(self._around.folder / "final.npz", packed(arrays))
        receiver = self._receiver
        missing = {
            str(j): receiver.missing(j, done.last, done.skipped)
            for j, done in sorted(self._done.items())
            if receiver.missing(j, done.last, done.skipped)
        }
        counted: dict[str, Any] = {
            "agent": self._around.agent,
            "code": code,
            "reason": reason,
            "notes": self._around.notes,
            "ready_s": self._ready_after,
            "ready_cpu_s": self._ready_cpu,
            "sent": len(self._spoken),
            "last": self._said_last,
            "received": receiver.received,
            "repeats_said": self._repeated,
            "repeats_heard": receiver.repeats,
            "late": receiver.late,
            "missing": missing,
            "not_done": sorted(set(self._around.neighbours) - self._done.keys()),
            "dropped_by_reason": dict(receiver.dropped + self._post.dropped),
            "bytes": self._bytes,
            "charged": self._charger.charged,
            "pss_kb": self._memory,
            "cpu_s": self._cpu,
        }
        if self._shim is not None:
            counted["links"] = self._shim.as_json()
        write_whole(self._around.folder / "final.json", json.dumps(counted, indent=1).encode())

    def close(self) -> None:
        self._show()
        self._journal.close()
        # A slow eavesdropper has not read all of it yet; who was told to stop does not wait for that.
        self._post.close(1.0 if self._stop else HANG_UP)
        self._status.close()
        signal.set_wakeup_fd(-1)
        os.close(self._wake_read)
        os.close(self._wake_write)


def expected_listeners(around: Surroundings, neighbours: Iterable[int]) -> frozenset[bytes]:
    """The names of those ``neighbours``, and of the eavesdropper if there is one."""
    return frozenset(own_name(j) for j in neighbours) | ({EAVESDROPPER} if around.eavesdropper else set())


def live(agent: Agent, ledger: LedgerFile, around: Surroundings, post: Post) -> int:
    """Run one agent to its end; returns its exit status (0: it finished)."""
    life = Life(agent, ledger, around, post)
    code, reason = 0, None
    try:
        life.become_ready()
        try:
            life.speak_and_hear()
        except (LedgerError, OSError, Halt) as error:
            code, reason = SILENT if isinstance(error, Halt) else LEDGER, f"stopped speaking: {error}"
            life.fail(reason)
        life.see_neighbours_out()
    except AgentFailure as failure:
        code, reason = failure.code, str(failure)
        life.fail(reason)
    try:
        life.write_final(code, reason)
    except OSError as error:
        code = code or LEDGER
        print(f"the final model could not be written: {error}", file=sys.stderr)
    finally:
        life.close()
    return code


def run_from_folder(
    run: Path,
    number: int,
    bind: str,
    *,
    endpoints: Endpoints | None = None,
    hold: Callable[[], None] = lambda: None,
) -> int:
    """Run agent ``number`` of a dealt run, heard at ``bind``; returns its exit status.

    It reads its own shard, ledger and secret, and nothing of anybody else. Without ``endpoints`` its own is published
    in the run's folder and its neighbours' are found there, once ``hold`` returned.
    """
    folder = agent_folder(run, number)
    setting, public, shard_digest = read_shard(shard_path(run, number), folder / "secret")
    agent = make(public.algorithm, setting)
    ledger = LedgerFile.open(folder / "ledger.jsonl", shard_digest)
    published = FileEndpoints(run / "endpoints")
    network, members = public.network, public.membership
    weather = conditions(network.conditions, public.seed)
    partition = Partition.of(run)
    around = Surroundings(
        folder=folder,
        run=public.run,
        digest=public.digest,
        agent=number,
        neighbours=setting.neighbours,
        dimension=public.release_dimension,
        releases=public.releases,
        endpoints=endpoints or published,
        bind=(published.lookup(number) or bind) if endpoints is None else bind,
        publish=(lambda endpoint: published.publish(number, endpoint)) if endpoints is None else None,
        eavesdropper=network.eavesdropper,
        repeat=network.repeat,
        deadline=network.deadline,
        linger=network.linger,
        rate=public.rate,
        clock_seed=public.seed,
        skew_ns=round(1e9 * public.skew),
        silent=network.silent,
        on_silent=network.on_silent,
        hold=hold,
        joins=members.joins or (bool(members.leaving) and (folder / "journal.bin").exists()),
        joining=frozenset(members.joining),
        leaving=frozenset(members.leaving),
        shim=None if weather.calm and partition is None else Shim(weather, number, setting.neighbours, partition),
    )
    post = Post(
        number,
        expected=expected_listeners(around, around.neighbours),
        dimension=around.dimension,
        addressed=around.neighbours if agent.addressed else (),
        keys=read_keys(run, number, setting.neighbours, eavesdropper=around.eavesdropper)
        if network.encryption
        else None,
    )
    return live(agent, ledger, around, post)


def _make_way(niceness: int) -> None:
    """Add to the niceness of this process's threads, and have none of them cut another's turn on the processor short.

    Without that, the eavesdropper gets no more turns than each of a thousand busy agents, and hears half a minute late.
    And ZeroMQ's own thread would take in what arrives message by message, each time in another's turn.
    """
    for thread in map(int, os.listdir("/proc/self/task")):  # noqa: PTH208 - procfs, names only
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def _unknown(endpoints: Endpoints, numbers: list[int]) -> str:
    if isinstance(endpoints, NamedEndpoints):
        return "; ".join(endpoints.problem(j) for j in numbers[:8])
    return "no endpoint of " + _agents(numbers)


def _agents(numbers: list[int]) -> str:
    shown = ", ".join(str(j) for j in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    return ("agent " if len(numbers) == 1 else "agents ") + shown


def _text(part: bytes) -> str:
    return base64.b64encode(part).decode()


def _proportional_memory() -> int | None:
    """This process's proportional set size in kB (shared pages count by share)."""
    try:
        with open("/proc/self/smaps_rollup") as lines:  # noqa: PTH123 - procfs, not a path of ours
            for line in lines:
                if line.startswith("Pss:"):
                    return int(line.split()[1])
    except OSError:
        return None
    return None
