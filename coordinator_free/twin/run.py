"""The twin: runs agents in one process, on a virtual clock or round by round, and executes recorded agents again.

Rules that hold here:
- The agents are the very objects that run over processes, and what they consume is decided by the same inboxes.
- A release is charged before anybody hears it.
- A synchronous run does not depend on the order in which ready agents are served; an asynchronous one is a function of
  the clocks and delays.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """Agents wait for releases that nobody will make."""


@dataclass
class Transcript:
    """What was said in a run, in order, and what the agents kept to themselves.

    ``times`` are virtual times, or rounds. ``finishes[i]`` is agent i's free finish: not covered by epsilon.
    """

    releases: list[Release] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    finishes: list[FloatArray | None] = field(default_factory=list)


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
    one in ``leaves`` says nothing from then on.

    ``clocks`` replaces the Poisson clocks of (seed, rate). Without ``delay`` a release arrives at once. At the end each
    agent hears the last release of each neighbour even if it was lost, since agents over sockets repeat their last one.
    """
    if clocks is None:
        clocks = [waits(seed, i, rate) for i in range(len(agents))]
    inboxes = [NewestInbox(newest_only=agent.newest_only) for agent in agents]
    offers = [[(j, inboxes[j].offer) for j in network.neighbours(i)] for i in range(len(agents))]
    transcript = Transcript()
    keep, stamp = transcript.releases.append, transcript.times.append
    arrivals: list[tuple[float, int, int, Release]] = []
    lost: dict[tuple[int, int], Release] = {}
    sent = 0

    def deliver(now: float, release: Release) -> None:
        nonlocal sent
        if ledger is not None:
            ledger(release, agents[release.sender].charge(release.index))
        keep(release)
        stamp(now)
        if on_release is not None:
            on_release(now, release)
        if delay is None and release.recipient is None:
            for _, offer in offers[release.sender]:
                offer(release)
            return
        for j, offer in offers[release.sender]:
            if release.recipient is not None and release.recipient != j:
                continue
            wait = 0.0 if delay is None else delay(release, j)
            lost.pop((release.sender, j), None)
            if wait is None:
                lost[release.sender, j] = release
            elif wait == 0.0:
                offer(release)
            else:
                sent += 1
                heapq.heappush(arrivals, (now + wait, sent, j, release))

    begins, ends = joins or {}, leaves or {}
    for i, agent in enumerate(agents):
        first = agent.start() if i not in begins else None
        if first is not None:
            deliver(0.0, first)
    ticks = [(begins.get(i, 0.0) + next(clocks[i]), i) for i, agent in enumerate(agents) if not agent.finished]
    heapq.heapify(ticks)
    while ticks:
        now, i = ticks[0]
        while arrivals and arrivals[0][0] <= now:
            _, _, j, arrived = heapq.heappop(arrivals)
            inboxes[j].offer(arrived)
        agent = agents[i]
        if i in ends and now >= ends[i]:
            heapq.heappop(ticks)
            continue
        for release in inboxes[i].take():
            agent.receive(release)
        said = agent.wake()
        if said is not None:
            deliver(now, said)
        if agent.finished:
            heapq.heappop(ticks)
        else:
            heapq.heapreplace(ticks, (now + next(clocks[i]), i))
    for _, _, j, arrived in sorted(arrivals, key=lambda arrival: arrival[:2]):
        inboxes[j].offer(arrived)
    for (_, j), release in lost.items():
        inboxes[j].offer(release)
    for i, agent in enumerate(agents):
        for release in inboxes[i].take():
            agent.receive(release)
    transcript.finishes = [agent.finish() for agent in agents]
    return transcript


def run_rounds(
    agents: Sequence[Agent],
    network: Network,
    *,
    on_release: Listener | None = None,
    ledger: Charge | None = None,
) -> Transcript:
    """Run until every agent is finished: each wakes when every neighbour's release of its round is here."""
    inboxes = [RoundInbox(network.neighbours(i)) for i in range(len(agents))]
    transcript = Transcript()
    ready: deque[int] = deque()

    def deliver(release: Release) -> None:
        if ledger is not None:
            ledger(release, agents[release.sender].charge(release.index))
        at = float(release.round if release.round is not None else -1)
        transcript.releases.append(release)
        transcript.times.append(at)
        if on_release is not None:
            on_release(at, release)
        for j in network.neighbours(release.sender):
            if release.recipient is None or release.recipient == j:
                inboxes[j].offer(release)
                if not inboxes[j].missing:
                    ready.append(j)

    for agent in agents:
        first = agent.start()
        if first is not None:
            deliver(first)
    while ready:
        i = ready.popleft()
        agent = agents[i]
        while not agent.finished and not inboxes[i].missing:
            for release in inboxes[i].take():
                agent.receive(release)
            said = agent.wake()
            if said is not None:
                deliver(said)
    waiting = [i for i, agent in enumerate(agents) if not agent.finished]
    if waiting:
        i = min(waiting, key=lambda agent: inboxes[agent].round)
        missing = list(inboxes[i].missing)
        raise Stalled(
            f"{len(waiting)} agents wait for ever: agent {i} in round {inboxes[i].round} for agents {missing}"
        )
    for i, agent in enumerate(agents):
        if network.neighbours(i) and not inboxes[i].missing:
            for release in inboxes[i].take():
                agent.receive(release)
    transcript.finishes = [agent.finish() for agent in agents]
    return transcript


@dataclass(frozen=True)
class Difference:
    """The first release at which a re-execution and the record part."""

    index: int
    reason: str


def reexecute(
    agent: Agent, releases_of_neighbours: Mapping[tuple[int, int], Release], recorded: Sequence[Release]
) -> Difference | None:
    """Feed a fresh ``agent`` what each of its ``recorded`` releases says it used, and compare bit for bit.

    ``releases_of_neighbours`` holds every neighbour's releases by (sender, index). An agent that was restarted goes on
    from the snapshot after the own index that its next release names, or from the start if it names none. A restart
    shows in the record as a skipped index or another own index than the previous one; where it shows in neither, it is
    tried when going on without one gives another release.
    """
    snapshots: dict[int, dict[str, FloatArray]] = {}
    previous: int | None = None
    opening = agent.start()
    for release in recorded:
        own = next((index for sender, index in reversed(release.used) if sender == release.sender), None)
        if own is not None and own not in snapshots:
            return Difference(release.index, f"goes on from its release {own}, which is not in the record")
        consumed = []
        for key in release.used:
            if key[0] == release.sender:
                continue
            if key not in releases_of_neighbours:
                return Difference(release.index, f"release {key[1]} of agent {key[0]}, which it used, is missing")
            consumed.append(releases_of_neighbours[key])

        reason: str | None = "the agent was restarted"
        if release.index == (0 if previous is None else previous + 1) and own == previous:
            reason = _compare(opening or _continue(agent, consumed), release)
        if reason is not None and (previous is not None or release.index > 0):
            agent.restore({} if own is None else snapshots[own], release.index)
            after = _compare(_continue(agent, consumed), release)
            reason = None if after is None else after if reason == "the agent was restarted" else reason
        if reason is not None:
            return Difference(release.index, reason)
        opening = None
        snapshots[release.index] = agent.snapshot()
        previous = release.index
    return None


def _continue(agent: Agent, consumed: Sequence[Release]) -> Release | None:
    for heard in consumed:
        agent.receive(heard)
    return agent.wake()


def _compare(again: Release | None, recorded: Release) -> str | None:
    """How a re-executed release differs from the recorded one; None if it does not."""
    if again is None:
        return "the re-executed agent says nothing"
    if again.same_as(recorded):
        return None
    for name in ("sender", "index", "used", "round", "recipient"):
        if getattr(again, name) != getattr(recorded, name):
            return f"{name} is {getattr(recorded, name)} in the record and {getattr(again, name)} when executed again"
    if again.vector.shape != recorded.vector.shape:
        return f"the vector has shape {recorded.vector.shape} in the record and {again.vector.shape} again"
    largest = float(abs(again.vector - recorded.vector).max(initial=0.0))
    return f"the vector differs by up to {largest:.3g}"
