"""What one agent receives: from the socket through the checks into its inbox, and what is known of each neighbour.

Rules that hold here:
- Nothing that arrives can raise out of here.
- The silence of a neighbour is measured on the clock of this agent's own listening (`node.agent.silence`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from coordinator_free.agent import Activation, Agent
from coordinator_free.algorithm import Algorithm
from coordinator_free.inbox import NewestInbox, RoundInbox, RoundWait
from coordinator_free.release import Release
from node.agent.charging import Charger
from node.agent.receipts import Receipts
from node.agent.silence import Listening
from node.agent.surroundings import Surroundings
from node.hello import Hello
from node.sockets.agent_sockets import Post
from node.wire import Done, Parts, Receiver

DRAIN = 64
"""Messages per neighbour that one drain takes at most."""


class Incoming:
    """The way of neighbours' messages into the inbox of one agent.

    ``inbox`` holds releases until the agent consumes them; ``waiting`` (in rounds) knows which neighbours are silent.
    ``met`` are the neighbours whose hello counts (`node.agent.receipts`), ``strangers`` those with another public
    configuration, ``done`` the last `Done` of each neighbour, ``news_at`` the second of listening at which something
    new last arrived.
    """

    def __init__(self, agent: Agent, around: Surroundings, charger: Charger, post: Post) -> None:
        self._around = around
        self._post = post
        self._shim = around.shim
        self._limit = DRAIN * max(1, len(around.neighbours))
        self.receiver = Receiver(
            around.run, around.agent, around.neighbours, around.dimension, around.releases, around.largest
        )
        self.receipts = Receipts(
            around.agent,
            around.secret,
            around.run,
            starts=charger.starts,
            charged=lambda: charger.charged,
            releases=around.releases,
            dropped=self.receiver.dropped,
        )
        self.listening = Listening()
        self.inbox: NewestInbox | RoundInbox
        self._offer: Callable[[Release], None]
        self.waiting: RoundWait | None = None
        if agent.activation is Activation.ROUNDS:
            late = isinstance(agent, Algorithm) and agent.carries_on
            self.inbox = RoundInbox(around.neighbours, late=late, awaited=agent.awaited)
            self.waiting = RoundWait(around.neighbours, around.silent, around.on_silent)
            self._offer = self._offer_to_round
        else:
            self.inbox = NewestInbox(newest_only=agent.newest_only)
            self._offer = self.inbox.offer
        self.met: set[int] = set()
        self.strangers: set[int] = set()
        self.done: dict[int, Done] = {}
        self.news_at = 0.0
        self.coming = set(around.neighbours) - around.awaited
        """Neighbours that may join, or have left before this agent came, and have not been connected to."""

    def receive(self) -> bool:
        """Take what arrived; True if any of it is new."""
        self.listening.look()
        while (moved := self._around.endpoints.moved()) is not None:
            self._post.follow(*moved)
        frames: Sequence[Parts] = self._post.drain(self._limit)
        if self._shim is not None:
            frames = self._shim.pass_on(frames)
        releases, others = self.receiver.take(frames)
        for release in releases:
            self._offer(release)
        new = self._take_others(others) or bool(releases)
        if new:
            self.news_at = self.listening.seconds
        if self.waiting is not None:
            self.waiting.came_back(release.sender for release in releases)
            self.waiting.heard(
                {*self.receiver.repeated, *(m.sender for m in releases), *(m.sender for m in others)},
                self.listening.seconds,
            )
            self.receiver.repeated.clear()
        return new

    def _offer_to_round(self, release: Release) -> None:
        if release.round is None or release.round >= self._around.releases:
            self.receiver.dropped["round"] += 1
        else:
            self.inbox.offer(release)

    def _take_others(self, others: Sequence[Hello | Done]) -> bool:
        new = False
        for message in others:
            if isinstance(message, Done):
                new |= self.done.get(message.sender) != message
                self.done[message.sender] = message
            elif message.digest == self._around.digest:
                if self.receipts.take(message):
                    self.met.add(message.sender)
            else:
                self.strangers.add(message.sender)
        return new

    def connect_to_coming(self) -> None:
        """Connect to the neighbours that have joined since."""
        for j in sorted(self.coming):
            endpoint = self._around.endpoints.lookup(j)
            if endpoint is not None:
                self._post.connect(endpoint, j)
                self.coming.discard(j)

    def wait(self, seconds: float) -> None:
        """Wait until something may have arrived, a held frame is due, a signal came, or the time is up."""
        if self._shim is not None and self._shim.due is not None:
            seconds = min(seconds, self._shim.due - time.monotonic())
        self.listening.wait(seconds)
        self._post.wait(seconds)

    @property
    def has_all(self) -> bool:
        """Whether every neighbour is done and its last release is here."""
        if not 0 < len(self._around.neighbours) == len(self.done):
            return False
        return all(self.receiver.newest(j) >= done.last for j, done in self.done.items())

    @property
    def ended(self) -> dict[int, int]:
        """The last index of each neighbour that is done, unless it was restarted and has sent something newer since."""
        return {j: done.last for j, done in self.done.items() if self.receiver.newest(j) <= done.last}

    def missing(self) -> dict[int, tuple[int, ...]]:
        """The indices that each neighbour sent by its done and that never arrived; only of neighbours that are done."""
        gaps = {j: self.receiver.missing(j, done.last, done.skipped) for j, done in sorted(self.done.items())}
        return {j: gap for j, gap in gaps.items() if gap}
