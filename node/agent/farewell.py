"""How an agent ends: it repeats its last release and its done until every neighbour is done, and leaves its model.

Rules that hold here:
- Each of the two files it leaves appears whole or not at all, mode 0600.
- An agent that stops waiting for a neighbour says so in its notes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from coordinator_free.inbox import NewestInbox
from coordinator_free.release import FloatArray
from node.agent.conversation import Conversation
from node.agent.readiness import Ready
from node.folder.arrays import packed
from node.folder.counted import Counted, write_counted
from node.folder.status import State
from node.folder.whole import write_whole
from node.places import agents_in_words
from node.wire import own_name

LAST_REPEAT = 10.0
"""The longest time between two repeats of a finished agent, as a multiple of ``network.repeat``."""


@dataclass
class Measured:
    """Times (seconds) and memory (kB) of the agent's process; zero or None for a part of its life that never came."""

    ready: Ready = Ready(0.0, 0.0)  # noqa: RUF009 - frozen
    cpu: float = 0.0
    memory: int | None = None


def see_neighbours_out(talk: Conversation) -> None:
    """Repeat the last release and done until every neighbour is done too and knows that this agent is.

    An agent that left the run says so once. Ends after ``network.linger`` without anything new.

    Raises
    ------
    Stopped
        If the agent is told to stop meanwhile.
    """
    around, incoming = talk.around, talk.incoming
    talk.enter(State.FINISHED if talk.state is not State.FAILED else State.FAILED)
    if talk.orders.leave and not talk.agent.finished:
        talk.outgoing.repeat()
        talk.done()
        return
    talk.done()
    repeats = _Repeats(talk)
    incoming.news_at = incoming.listening.seconds
    while True:
        talk.check_orders()
        _take(talk)
        waiting = _waited_for(talk)
        if not waiting:
            return
        if incoming.listening.seconds >= incoming.news_at + around.linger:
            silent = [j for j in waiting if j not in incoming.done]
            if silent:
                around.notes.append(f"linger of {around.linger:g} s passed: no done from {agents_in_words(silent)}")
            return
        talk.wait(repeats.next_in(time.monotonic()))


def _take(talk: Conversation) -> None:
    """Receive; the agent still takes models in, for its finish."""
    known = len(talk.incoming.done)
    talk.receive()
    talk.post.notice_listeners()
    if known < len(talk.incoming.done) == len(talk.around.neighbours):
        talk.done()  # the next repeat tells of fewer
    if isinstance(talk.incoming.inbox, NewestInbox):
        for release in talk.incoming.inbox.take():
            talk.agent.receive(release)


def _waited_for(talk: Conversation) -> list[int]:
    """The neighbours that are not done, or still listen and do not know that this agent is."""
    done, me, listeners = talk.incoming.done, talk.around.agent, talk.post.listeners
    return [
        j
        for j in talk.around.neighbours
        if j not in talk.around.leaving and (j not in done or (me not in done[j].heard and own_name(j) in listeners))
    ]


class _Repeats:
    """Repeats of a finished agent, less and less often where no neighbour may need the last release.

    A neighbour that is in a round may need it. All other agents wait for the slowest, and a thousand that repeat
    themselves every second would keep it from ever ending.
    """

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._patience = talk.around.repeat
        self._next = time.monotonic() + self._patience

    def next_in(self, now: float) -> float:
        """Repeat if it is time; returns the seconds until the next repeat."""
        talk = self._talk
        if now >= self._next:
            talk.outgoing.repeat()
            talk.done()
            if isinstance(talk.incoming.inbox, NewestInbox) or len(talk.incoming.done) == len(talk.around.neighbours):
                self._patience = min(2 * self._patience, LAST_REPEAT * talk.around.repeat)
            self._next = now + self._patience
        return self._next - now


def write_final(talk: Conversation, code: int, reason: str | None, measured: Measured) -> None:
    """Write the final model, and what this agent counted.

    Parameters
    ----------
    talk
        The agent at its end.
    code, reason
        Its exit status, and why it is not 0.
    measured
        Times and memory of its process.

    Raises
    ------
    OSError
        If one of the files cannot be written.
    """
    finish = _finish(talk) if code == 0 else None
    around, outgoing, incoming, receiver = talk.around, talk.outgoing, talk.incoming, talk.incoming.receiver
    counted = Counted(
        agent=around.agent,
        code=code,
        reason=reason,
        notes=tuple(around.notes),
        sent=len(outgoing.sent),
        last=outgoing.last,
        received=receiver.received,
        repeats_sent=outgoing.repeats,
        repeats_received=receiver.repeats,
        late=receiver.late,
        missing={str(j): gaps for j, gaps in incoming.missing().items()},
        not_done=tuple(sorted(set(around.neighbours) - incoming.done.keys())),
        dropped_by_reason=dict(receiver.dropped + talk.post.dropped),
        bytes=outgoing.bytes,
        charged=talk.charger.charged,
        links=None if around.shim is None else around.shim.counted(),
        ready_s=measured.ready.after,
        ready_cpu_s=measured.ready.cpu,
        pss_kb=measured.memory,
        cpu_s=measured.cpu,
    )
    leave(around.folder, talk.agent.model, finish, counted)


def _finish(talk: Conversation) -> FloatArray | None:
    """The free finish. It uses the records without noise, and others see how an agent ends: it ends none."""
    try:
        return talk.agent.finish()
    except Exception as error:
        talk.around.notes.append(f"no free finish: it failed with a {type(error).__name__}")
        return None


def leave(folder: Path, model: FloatArray, finish: FloatArray | None, counted: Counted) -> None:
    """Write what an agent leaves in its folder: ``final.npz`` and ``final.json``.

    Parameters
    ----------
    folder
        The agent's folder.
    model, finish
        Its last model, and the free finish if there is one; shape (p,).
    counted
        Its exit status and what it counted.
    """
    arrays = {"model": model} if finish is None else {"model": model, "finish": finish}
    write_whole(folder / "final.npz", packed(arrays))
    write_counted(folder, counted)
