"""Executes recorded agents again and compares what they release, bit for bit.

Rules that hold here:
- A re-executed agent receives exactly what each of its recorded releases says it used, in that order.
- A restart of the agent is part of the record; see `reexecute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator_free.agent import Agent
from coordinator_free.release import FloatArray, Release


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
        return "the re-executed agent releases nothing"
    if again.same_as(recorded):
        return None
    for name in ("sender", "index", "used", "round", "recipient"):
        if getattr(again, name) != getattr(recorded, name):
            return f"{name} is {getattr(recorded, name)} in the record and {getattr(again, name)} when executed again"
    if again.vector.shape != recorded.vector.shape:
        return f"the vector has shape {recorded.vector.shape} in the record and {again.vector.shape} again"
    largest = float(abs(again.vector - recorded.vector).max(initial=0.0))
    return f"the vector differs by up to {largest:.3g}"
