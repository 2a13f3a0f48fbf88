"""What one agent sends: its releases, once each and then repeated, its hello and its done.

Rules that hold here:
- A release goes one way: its charge, its journal, its bytes, the socket.
- A repeat is the same bytes, and costs no privacy.
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Iterable, Sequence

from coordinator_free.agent import Activation, Agent, Diverged
from coordinator_free.release import Release
from node.agent.charging import Charger
from node.agent.receipts import Receipts
from node.agent.snapshot import packed_snapshot
from node.agent.surroundings import Surroundings
from node.folder.journal import Journal, read_journal
from node.hello import Hello
from node.sockets.agent_sockets import Post
from node.wire import Done, Parts, decode, encode


class Outgoing:
    """The way of one agent's messages to its socket, and the counts of what was sent.

    ``sent`` are the indices of its releases, ``last`` the newest of them (-1: none), ``bytes`` their size, ``repeats``
    the number of messages sent again, ``frames`` the newest two releases as they were sent.
    """

    def __init__(self, agent: Agent, around: Surroundings, charger: Charger, post: Post) -> None:
        self._agent = agent
        self._around = around
        self._charger = charger
        self._post = post
        self._in_rounds = agent.activation is Activation.ROUNDS
        self._journal = Journal(around.folder / "journal.bin")
        self.frames: deque[Parts] = deque(maxlen=2)
        self.sent: set[int] = set()
        self.last = -1
        self.bytes = 0
        self.repeats = 0

    def release(self, release: Release) -> None:
        """Charge a release, note it, and send it.

        A release that is not finite is charged all the same: that it was not sent is to be seen, and rests on it.

        Raises
        ------
        LedgerError, OSError, Diverged
            It was not sent.
        """
        if not release.finite:
            self._charger.charge(release.index)
            raise Diverged(release)
        parts = encode(self._around.run, release)
        if self._in_rounds:
            state = _text(packed_snapshot(self._agent.snapshot()))
            self._charger.charge(release.index, frame=[_text(part) for part in parts], state=state)
        else:
            self._charger.charge(release.index)
        self._note(parts)
        self._post.send(parts)
        self.frames.append(parts)
        self.last = release.index
        self.sent.add(release.index)
        self.bytes += sum(map(len, parts))

    def repeat(self) -> None:
        """Send the last releases again: in rounds two, since a neighbour may be one round behind."""
        for parts in list(self.frames)[-2 if self._in_rounds else -1 :]:
            self._post.send(parts)
            self.repeats += 1

    def hello(self, receipts: Receipts, *, asks: bool = False) -> None:
        """Send a hello: this agent is here, and these are its receipt and those that it owes to its neighbours.

        Without rounds the last release goes first: a neighbour that was just started has no model of this agent.
        """
        if not self._in_rounds:
            self.repeat()
        self.send_receipt(receipts, asks=asks)

    def send_receipt(self, receipts: Receipts, *, asks: bool = False) -> None:
        """Send a hello that repeats no release."""
        around = self._around
        self._post.send(
            encode(around.run, Hello(around.agent, around.digest, receipts.own(), asks, receipts.answers()))
        )

    def done(self, received_done_of: Iterable[int]) -> None:
        """Send a done: no new release follows, which indices were skipped, and whose done is here."""
        skipped = tuple(sorted(set(range(self.last + 1)) - self.sent))
        done = Done(self._around.agent, self.last, skipped, tuple(sorted(received_done_of)))
        self._post.send(encode(self._around.run, done))

    def recall(self) -> None:
        """After a restart: take from the journal what was sent before."""
        for _, parts in read_journal(self._around.folder / "journal.bin"):
            message = decode(parts)
            if isinstance(message, Release):
                self.sent.add(message.index)
                self.bytes += sum(map(len, parts))
                self.frames.append(parts)

    def recall_records(self, frames: Sequence[tuple[int, Parts]], indices: Iterable[int]) -> None:
        """After a restart in rounds: take the last releases from the ledger, which also holds a torn end.

        Parameters
        ----------
        frames
            The newest releases, at most two, each with its index.
        indices
            All indices that the ledger says were sent.
        """
        self.frames.clear()
        for index, parts in frames:
            self.frames.append(parts)
            if index not in self.sent:  # the process ended between the charge and the journal
                self._note(parts)
        self.sent = set(indices)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _note(self, parts: Parts) -> None:
        # By this agent's own clock, on which nothing depends.
        self._journal.write(time.time_ns() + self._around.skew_ns, parts)


def _text(part: bytes) -> str:
    return base64.b64encode(part).decode()
