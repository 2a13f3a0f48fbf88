"""The twin: runs agents in one process, on a virtual clock or round by round.

Rules that hold here:
- The agents are the very objects that run over processes, and what they consume is decided by the same inboxes.
- A release is charged before any agent receives it.
- A synchronous run does not depend on the order in which ready agents are served; an asynchronous one is a function of
  the clocks and delays.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_free.agent import Agent
from coordinator_free.clocks import waits
from coordinator_free.inbox import NewestInbox, RoundInbox
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray, Release
from topology.network import Network

Charge = Callable[[Release, Mechanism | None], None]
"""Called with a release and what it costs, before the release is delivered; raises to forbid it."""

Delay = Callable[[Release, int], float | None]
"""Virtual time from a release to its arrival at one neighbour; None: it is lost on this link."""

Listener = Callable[[float, Release], None]
"""Called with the virtual time (or the round) of a release, and the release, when it is made."""


class Stalled(RuntimeError):
    """Agents wait for releases that no agent will make."""


@dataclass
class Transcript:
    """What was released in a run, in order, and what the agents kept to themselves.

    ``times`` are virtual times, or rounds. ``finishes[i]`` is agent i's free finish: not covered by epsilon.
    """

    releases: list[Release] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    finishes: list[FloatArray | None] = field(default_factory=list)


class _Record:
    """Charges each release, then writes it down."""

    def __init__(self, agents: Sequence[Agent], ledger: Charge | None, on_release: Listener | None) -> None:
        self.transcript = Transcript()
        self._agents, self._ledger, self._on_release = agents, ledger, on_release
        self._keep, self._stamp = self.transcript.releases.append, self.transcript.times.append

    def add(self, at: float, release: Release) -> None:
        """Raise what the ledger raises; nothing is written down then."""
        if self._ledger is not None:
            self._ledger(release, self._agents[release.sender].charge(release.index))
        self._keep(release)
        self._stamp(at)
        if self._on_release is not None:
            self._on_release(at, release)


class _Air:
    """The releases between agents that have a clock: those on their way, and the last that each link lost."""

    def __init__(self, network: Network, inboxes: Sequence[NewestInbox], delay: Delay | None) -> None:
        self._inboxes, self._delay = inboxes, delay
        self._offers = [[(j, inboxes[j].offer) for j in network.neighbours(i)] for i in range(len(inboxes))]
        self._arrivals: list[tuple[float, int, int, Release]] = []
        self._lost: dict[tuple[int, int], Release] = {}
        self._sent = 0

    def send(self, now: float, release: Release) -> None:
        """Send a release to its recipient, or to every neighbour of its sender."""
        offers = self._offers[release.sender]
        if release.recipient is not None:
            offers = [(j, offer) for j, offer in offers if j == release.recipient]
        if self._delay is None:
            for _, offer in offers:
                offer(release)
            return
        for j, offer in offers:
            wait = self._delay(release, j)
            self._lost.pop((release.sender, j), None)
            if wait is None:
                self._lost[release.sender, j] = release
            elif wait == 0.0:
                offer(release)
            else:
                self._sent += 1
                heapq.heappush(self._arrivals, (now + wait, self._sent, j, release))

    def arrive(self, now: float) -> None:
        """Put into the inboxes what has arrived by ``now``."""
        while self._arrivals and self._arrivals[0][0] <= now:
            _, _, j, arrived = heapq.heappop(self._arrivals)
            self._inboxes[j].offer(arrived)

    def settle(self) -> None:
        """Put into the inboxes all that is on its way, then the last lost releases."""
        self.arrive(math.inf)
        for (_, j), release in self._lost.items():
            self._inboxes[j].offer(release)


def _receive(agent: Agent, releases: Iterable[Release]) -> None:
    for release in releases:
        agent.receive(release)


def run_asynchronous(
    agents: Sequence[Agent],
    network: Network,
    *,
    rate: float,
    seed: int,
    clocks: Sequence[Iterator[float]] | None = None,
    delay: Delay | None = None,
    on_release: Listener | None = None,
    ledger: Charge | None = None,
    joins: Mapping[int, float] | None = None,
    leaves: Mapping[int, float] | None = None,
) -> Transcript:
    """Run until every agent is finished: each wakes after its clock's waits and consumes what arrived since.

    An agent in ``joins`` has its clock started then, and has heard its neighbours' newest releases by its first wake;
    one in ``leaves`` releases nothing from then on.

    ``clocks`` replaces the Poisson clocks of (seed, rate). Without ``delay`` a release arrives at once. At the end each
    agent hears the last release of each neighbour even if it was lost, since agents over sockets repeat their last one.
    """
    if clocks is None:
        clocks = [waits(seed, i, rate) for i in range(len(agents))]
    inboxes = [NewestInbox(newest_only=agent.newest_only) for agent in agents]
    record, air = _Record(agents, ledger, on_release), _Air(network, inboxes, delay)
    begins, ends = joins or {}, leaves or {}
    for i, agent in enumerate(agents):
        first = agent.start() if i not in begins else None
        if first is not None:
            record.add(0.0, first)
            air.send(0.0, first)
    ticks = [(begins.get(i, 0.0) + next(clocks[i]), i) for i, agent in enumerate(agents) if not agent.finished]
    heapq.heapify(ticks)
    while ticks:
        now, i = ticks[0]
        agent = agents[i]
        air.arrive(now)
        left = i in ends and now >= ends[i]
        if not left:
            _receive(agent, inboxes[i].take())
            said = agent.wake()
            if said is not None:
                record.add(now, said)
                air.send(now, said)
        if left or agent.finished:
            heapq.heappop(ticks)
        else:
            heapq.heapreplace(ticks, (now + next(clocks[i]), i))
    air.settle()
    for agent, inbox in zip(agents, inboxes, strict=True):
        _receive(agent, inbox.take())
    record.transcript.finishes = [agent.finish() for agent in agents]
    return record.transcript


class _RoundAir:
    """The releases between agents in rounds: each arrives at once; ``ready`` are the agents whose round is complete."""

    def __init__(self, agents: Sequence[Agent], network: Network, record: _Record) -> None:
        self._network, self._record = network, record
        self.inboxes = [RoundInbox(network.neighbours(i), awaited=agent.awaited) for i, agent in enumerate(agents)]
        self.ready = deque(i for i, agent in enumerate(agents) if agent.gathers)

    def send(self, release: Release | None) -> None:
        """Record a release and send it to its recipient, or to every neighbour of its sender; None: do nothing."""
        if release is None:
            return
        self._record.add(float(release.round if release.round is not None else -1), release)
        for j in self._network.neighbours(release.sender):
            if release.recipient is None or release.recipient == j:
                self.inboxes[j].offer(release)
                if not self.inboxes[j].missing:
                    self.ready.append(j)


def run_rounds(
    agents: Sequence[Agent],
    network: Network,
    *,
    on_release: Listener | None = None,
    ledger: Charge | None = None,
) -> Transcript:
    """Run until every agent is finished: each wakes when every release that it awaits of its round is here.

    Raises
    ------
    Stalled
        Some agents wait for releases that no agent will make.
    """
    record = _Record(agents, ledger, on_release)
    air = _RoundAir(agents, network, record)
    inboxes = air.inboxes
    for agent in agents:
        air.send(agent.start())
    while air.ready:
        i = air.ready.popleft()
        agent = agents[i]
        while not agent.finished and not inboxes[i].missing:
            _receive(agent, inboxes[i].take())
            air.send(agent.wake())
    _check_that_none_waits(agents, inboxes)
    complete = [i for i in range(len(agents)) if network.neighbours(i) and not inboxes[i].missing]
    for i in complete:
        _receive(agents[i], inboxes[i].take())
    record.transcript.finishes = [agent.finish() for agent in agents]
    return record.transcript


def _check_that_none_waits(agents: Sequence[Agent], inboxes: Sequence[RoundInbox]) -> None:
    waiting = [i for i, agent in enumerate(agents) if not agent.finished]
    if waiting:
        i = min(waiting, key=lambda agent: inboxes[agent].round)
        missing = list(inboxes[i].missing)
        raise Stalled(
            f"{len(waiting)} agents wait for ever: agent {i} in round {inboxes[i].round} for agents {missing}"
        )
