"""Partitions and pauses of a run: which agents are separated, which are paused, and when.

Rules that hold here:
- A function of the configuration and the seed, in seconds after all agents were ready; nothing here reads a clock.
- There is one partition at a time: the next replaces the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coordinator_free.faults.targets import bisection, division, isolation
from node.configuration.events import EventSection, aimed_at, ending, numbers_of


@dataclass(frozen=True)
class Outage:
    """A partition into ``groups`` (agent i is in group ``groups[i]``), or a pause of ``agents``."""

    fault: str
    at: float
    until: float
    agents: tuple[int, ...]
    groups: tuple[int, ...] = ()


def outages(events: Sequence[EventSection], names: Sequence[str], seed: int) -> dict[int, Outage]:
    """The partitions and pauses of a run of agents with these ``names``, by the number of their event."""
    found = {}
    for number, event in enumerate(events):
        until = ending(events, number)
        if event.fault not in ("partition", "pause") or until is None:
            continue
        if event.fault == "pause":
            found[number] = Outage("pause", event.at, until, aimed_at(event, number, names, seed))
            continue
        if event.groups == "bisect":
            groups = bisection(len(names), seed, number)
        elif event.groups == "isolate":
            groups = isolation(aimed_at(event, number, names, seed), len(names))
        else:
            groups = division([numbers_of(group, names) for group in event.groups], len(names))
        apart = tuple(i for i, group in enumerate(groups) if group)
        found[number] = Outage("partition", event.at, until, apart, tuple(groups))
    return found


def cut(partitions: Sequence[Outage], sender: int, receiver: int, now: float) -> bool:
    """Whether a frame from ``sender`` to ``receiver`` is lost at ``now``."""
    begun = [outage for outage in partitions if outage.at <= now]
    if not begun:
        return False
    last = max(begun, key=lambda outage: outage.at)
    return now < last.until and last.groups[sender] != last.groups[receiver]


def awake(waits: Iterator[float], planned: Sequence[Outage], agent: int, start: float = 0.0) -> Iterator[float]:
    """The ``waits`` of an agent's clock, which starts at ``start``, without the ticks during its pauses."""
    mine = [outage for outage in planned if outage.fault == "pause" and agent in outage.agents]
    now, ticked = start, start
    for wait in waits:
        now += wait
        if not any(outage.at <= now < outage.until for outage in mine):
            yield now - ticked
            ticked = now
