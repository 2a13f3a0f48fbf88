"""One agent among its neighbours: what it sends, what it receives, the orders it gets, and the state that it shows.

The parts of an agent's life (readiness, clock or rounds, farewell) are functions of a conversation.
"""

from __future__ import annotations

import os
import time

from coordinator_free.agent import Agent
from coordinator_free.release import Release
from node.agent.charging import Charger
from node.agent.incoming import Incoming
from node.agent.orders import Orders
from node.agent.outgoing import Outgoing
from node.agent.surroundings import AgentFailure, Surroundings
from node.exit_codes import ExitCode
from node.folder.ledger import LedgerFile
from node.folder.status import State, StatusFile
from node.hello import Receipt
from node.sockets.agent_sockets import Post

HANG_UP = 60.0
"""Seconds that messages have to go out at the end: a slow eavesdropper is waited for, but not for ever."""
HANG_UP_STOPPED = 1.0
"""The same for an agent that was told to stop."""
ANSWER_SECONDS = 0.05
"""Seconds between two answers to neighbours that ask for receipts: one answers all that have asked since."""


class Conversation:
    """The agent, its surroundings, and the state of everything between them.

    Raises `LedgerError` where the ledger has no room for what the agent is to release in this run.
    """

    def __init__(self, agent: Agent, ledger: LedgerFile, around: Surroundings, post: Post) -> None:
        self.agent = agent
        self.around = around
        self.post = post
        self.charger = Charger(ledger, agent, around.releases, around.run)
        self._status = StatusFile(around.folder / "status")
        self.orders = Orders()
        post.watch(self.orders.descriptor)
        self.incoming = Incoming(agent, around, self.charger, post)
        self.outgoing = Outgoing(agent, around, self.charger, post)
        self.state = State.STARTING
        self.ready_ns = 0
        self._pid = os.getpid()
        self._next_answer = 0.0

    def enter(self, state: State) -> None:
        """Go on to the next part of life, and show it."""
        self.state = state
        self.show()

    def show(self) -> None:
        """Write state and counts to the status file."""
        self._status.show(
            self.state,
            self._pid,
            len(self.outgoing.sent),
            self.incoming.receiver.received,
            self.charger.charged,
            self.outgoing.bytes,
            self.ready_ns,
        )

    def release(self, release: Release | None) -> None:
        """Charge and send a release, if there is one."""
        if release is not None:
            self.outgoing.release(release)
            if self.incoming.receipts.due:
                self.outgoing.send_receipt(self.incoming.receipts)
            self.show()

    def done(self) -> None:
        """Send a done: no new release follows."""
        self.outgoing.done(self.incoming.done)

    def hello(self, *, asks: bool = False) -> None:
        """Send a hello; with ``asks`` neighbours are to send back the newest receipt that they hold of this agent."""
        self.outgoing.hello(self.incoming.receipts, asks=asks)

    def receive(self) -> bool:
        """Take what arrived; True if any of it is new.

        Raises
        ------
        AgentFailure
            If a neighbour holds a receipt of this agent that is newer than its ledger.
        """
        if (self.around.joining or self.incoming.coming) and self.state >= State.READY:
            self.incoming.connect_to_coming()
            if self.post.notice_listeners():
                self.hello()  # a neighbour that began to listen waits for it
        new = self.incoming.receive()
        receipts = self.incoming.receipts
        if receipts.newer is not None:
            raise AgentFailure(ExitCode.LEDGER, _went_backwards(receipts.newer, self.charger))
        if receipts.owed and time.monotonic() >= self._next_answer:
            self._next_answer = time.monotonic() + ANSWER_SECONDS
            self.hello()
        return new

    def wait(self, seconds: float) -> None:
        """Wait until something may have arrived, a signal came, or the time is up."""
        self.incoming.wait(seconds)

    def check_orders(self) -> None:
        """Raise `Stopped` or `Left` if the agent was told so."""
        self.orders.check(may_leave=self.state is State.SPOKEN)

    def fail(self, reason: str) -> None:
        """Release nothing new from here on; neighbours still get `done`."""
        self.state = State.FAILED
        self.around.notes.append(reason)

    def close(self) -> None:
        """Show the end, and hang up once everything has gone out."""
        self.show()
        self.outgoing.close()
        self.post.close(HANG_UP_STOPPED if self.orders.stop else HANG_UP)
        self._status.close()
        self.orders.close()


def _went_backwards(newer: Receipt, charger: Charger) -> str:
    return (
        f"ledger: it has {charger.starts} starts and {charger.charged} charged indices in this run; a neighbour holds "
        f"this agent's receipt of {newer.starts} starts and {newer.charged} indices: this ledger is an old copy, which "
        "forgets charges; accepted is the newest ledger of this agent"
    )
