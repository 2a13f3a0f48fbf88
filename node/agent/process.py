"""One agent's process, from what lies in its folder to its exit status.

The order of its life: `readiness`, then `clock` or `rounds` (after a `restart` from where it was), then `farewell`.

Rules that hold here:
- A release goes one way: the agent's wake, its charge, its journal, its bytes, the socket.
- Waiting is for a socket, a signal or a deadline, and every deadline's error names the missing agents.
- Nothing that arrives can raise out of the loop. An error of the algorithm stops the agent's releases, with a reason
  that holds none of its numbers; the details stay in a file of the agent's own (`DETAILS`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from coordinator_free.agent import Agent, Diverged, Halt
from coordinator_free.agents.registry import make
from coordinator_free.faults.conditions import conditions
from coordinator_free.inbox import NewestInbox
from coordinator_free.privacy.ledger import LedgerError
from coordinator_free.privacy.mechanism import LARGEST_PLAIN, LARGEST_RECEIVED
from node.agent.charging import start_of
from node.agent.clock import live_on_a_clock
from node.agent.conversation import Conversation
from node.agent.farewell import Measured, see_neighbours_out, write_final
from node.agent.readiness import become_ready
from node.agent.restart import resume
from node.agent.rounds import live_in_rounds
from node.agent.surroundings import AgentFailure, Left, Surroundings, expected_listeners
from node.exit_codes import ExitCode
from node.faults.links import Shim
from node.faults.partition import Partition
from node.folder.keys import read_keys
from node.folder.ledger import LedgerFile
from node.folder.shard import read_shard
from node.folder.status import State
from node.folder.whole import write_whole
from node.places import agent_folder, shard_path
from node.plug_ins import place_of
from node.sockets.agent_sockets import Endpoints, FileEndpoints, Post

DETAILS = "error.txt"
"""The traceback of an algorithm's error, in the agent's folder, mode 0600: a message may hold private numbers."""


def live(agent: Agent, ledger: LedgerFile, around: Surroundings, post: Post) -> int:
    """Run one agent to its end; returns its exit status (0: it finished)."""
    # Standard error is shown to others, and what float64 warns of may depend on the records.
    with np.errstate(all="ignore"):
        return _live(agent, ledger, around, post)


def _live(agent: Agent, ledger: LedgerFile, around: Surroundings, post: Post) -> int:
    talk = Conversation(agent, ledger, around, post)
    measured = Measured()
    code, reason = int(ExitCode.FINISHED), None
    try:
        measured.ready = become_ready(talk)
        if around.niceness:
            _make_way(around.niceness)
        talk.enter(State.READY)
        post.settled = not (around.joining or talk.incoming.coming)
        try:
            with _halting(around.folder):
                _release_and_receive(talk, measured)
        except (LedgerError, OSError, Halt) as error:
            code = _code_of(error)
            reason = f"stopped releasing: {error}"
            talk.fail(reason)
        with contextlib.suppress(Halt), _halting(around.folder):
            see_neighbours_out(talk)
    except AgentFailure as failure:
        code, reason = failure.code, str(failure)
        talk.fail(reason)
    try:
        write_final(talk, int(code), reason, measured)
    except OSError as error:
        code = code or ExitCode.LEDGER
        print(f"the final model could not be written: {error}", file=sys.stderr)
    finally:
        talk.close()
    return int(code)


@contextlib.contextmanager
def _halting(folder: Path) -> Iterator[None]:
    """Turn an error that has no place in an agent's life into a `Halt`, and keep its details to the agent."""
    try:
        yield
    except (AgentFailure, LedgerError, OSError, Halt):
        raise
    except Exception as error:
        write_whole(folder / DETAILS, traceback.format_exc().encode())
        place = place_of(error)
        what = f"the algorithm failed with a {type(error).__name__}{' at ' + place if place else ''}"
        raise Halt(f"{what}; its details are in {DETAILS}") from error


def _code_of(error: Exception) -> ExitCode:
    if isinstance(error, Diverged):
        return ExitCode.FAILED
    return ExitCode.SILENT if isinstance(error, Halt) else ExitCode.LEDGER


def _release_and_receive(talk: Conversation, measured: Measured) -> None:
    """Live everything between ready and finished."""
    talk.state = State.SPOKEN
    before = time.process_time()
    if not resume(talk):
        talk.release(talk.agent.start())
    inbox, waiting = talk.incoming.inbox, talk.incoming.waiting
    try:
        if isinstance(inbox, NewestInbox):
            live_on_a_clock(talk, inbox)
        elif waiting is not None:
            live_in_rounds(talk, inbox, waiting)
    except Left:
        talk.around.notes.append(f"left after release {talk.outgoing.last}")
    measured.cpu = time.process_time() - before
    measured.memory = _proportional_memory()


def run_from_folder(
    run: Path,
    number: int,
    bind: str,
    *,
    endpoints: Endpoints | None = None,
    hold: Callable[[], None] = lambda: None,
) -> int:
    """Run agent ``number`` of a dealt run, which its neighbours reach at ``bind``; returns its exit status.

    It reads its own shard, ledger and secret, and nothing of anybody else. Without ``endpoints`` its own is published
    in the run's folder and its neighbours' are found there, once ``hold`` returned.
    """
    folder = agent_folder(run, number)
    setting, public, shard_digest = read_shard(shard_path(run, number), folder / "secret")
    ledger = LedgerFile.open(folder / "ledger.jsonl", shard_digest)
    agent = make(public.algorithm, replace(setting, starts=start_of(ledger, public)))
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
        secret=setting.secret if ledger.budget is not None else b"",
        silent=network.silent,
        on_silent=network.on_silent,
        largest=LARGEST_PLAIN if setting.mechanism == "none" else LARGEST_RECEIVED,
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
    """Add to the niceness of this process's threads, and let none of them cut another's turn on the processor short.

    Without that, the eavesdropper gets no more turns than each of a thousand busy agents, and logs half a minute late.
    And ZeroMQ's own thread would take in what arrives message by message, each time in another's turn.
    """
    for thread in map(int, os.listdir("/proc/self/task")):  # noqa: PTH208 - procfs, names only
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def _proportional_memory() -> int | None:
    """Return the proportional set size of the process in kB (shared pages count by share)."""
    try:
        with open("/proc/self/smaps_rollup") as lines:  # noqa: PTH123 - procfs, not a path of ours
            for line in lines:
                if line.startswith("Pss:"):
                    return int(line.split()[1])
    except OSError:
        return None
    return None
