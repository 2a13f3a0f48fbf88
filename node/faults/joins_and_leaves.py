"""Which agents join a run and which leave it: what the ``join`` and ``leave`` events of a configuration come to.

Rules that hold here:
- It is decided when the run is dealt, from the configuration and the seed: it is public, and every agent can be told.
- No agent joins twice, and at least one is there from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from node.configuration.events import EventSection, aimed_at
from node.folder.public import MembershipNumbers


@dataclass(frozen=True)
class Movement:
    """``agents`` join or leave (``fault``) together, ``at`` seconds after those of the beginning were ready."""

    at: float
    fault: str
    agents: tuple[int, ...]


@dataclass(frozen=True)
class Membership:
    """``joins`` and ``leaves``: when, by agent. ``starts``: from where the agents that join start."""

    movements: tuple[Movement, ...] = ()
    starts: Mapping[int, str] = field(default_factory=dict)

    @property
    def joins(self) -> dict[int, float]:
        return {agent: move.at for move in self.movements if move.fault == "join" for agent in move.agents}

    @property
    def leaves(self) -> dict[int, float]:
        return {agent: move.at for move in self.movements if move.fault == "leave" for agent in move.agents}

    def learning(self, agent: int, neighbours: Sequence[int]) -> dict[str, Any]:
        """What of this the agent's algorithm has to know; empty where nothing changes."""
        absent = [int(j) for j in neighbours if j in self.joins]
        return ({"absent": absent} if absent else {}) | (
            {"start": self.starts[agent]} if self.starts.get(agent, "zero") != "zero" else {}
        )

    def around(self, agent: int, neighbours: Sequence[int]) -> MembershipNumbers:
        """What of this the agent's process has to know."""
        return MembershipNumbers(
            joins=agent in self.joins,
            joining=tuple(int(j) for j in neighbours if j in self.joins),
            leaving=tuple(int(j) for j in neighbours if j in self.leaves),
        )


def membership(events: Sequence[EventSection], names: Sequence[str], seed: int) -> Membership:
    """Find which agents join and leave, and when; raises ValueError for events that contradict each other."""
    movements: list[Movement] = []
    starts: dict[int, str] = {}
    before: dict[str, set[int]] = {"join": set(), "leave": set()}
    for number, event in enumerate(events):
        if event.fault not in before:
            continue
        taken = before[event.fault]
        agents = aimed_at(event, number, names, seed, without=taken)
        twice = sorted(taken.intersection(agents))
        if twice:
            raise ValueError(f"event.{number}.target: agent {twice[0]} {event.fault}s in an earlier event already")
        taken.update(agents)
        if event.fault == "join":
            starts.update(dict.fromkeys(agents, event.start or "zero"))
        if event.lasting is None:
            movements.append(Movement(event.at, event.fault, agents))
            continue
        apart = event.lasting / max(1, len(agents) - 1)
        movements += [Movement(event.at + k * apart, event.fault, (agent,)) for k, agent in enumerate(agents)]
    if len(before["join"]) == len(names):
        raise ValueError('event: all agents have fault = "join"; at least one agent has to be there from the start')
    return Membership(tuple(movements), starts)
