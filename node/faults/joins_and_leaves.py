"""The agents that join and leave a run: what the ``join`` and ``leave`` events of a configuration mean.

Rules that hold here:
- It is decided when the run is dealt, from the configuration and the seed: it is public, and every agent may know it.
- No agent joins twice, and at least one is there from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from node.configuration.events import EventSection, aimed_at
from node.folder.public import MembershipNumbers


@dataclass(frozen=True)
class Movement:
    """``agents`` join or leave (``fault``) together, ``at`` seconds after the first agents were ready."""

    at: float
    fault: str
    agents: tuple[int, ...]


class JoinSettings(TypedDict, total=False):
    """Settings of an algorithm that follow from joins."""

    absent: list[int]
    """Neighbours that are not there from the start."""
    start: str
    """The model with which the agent starts."""


@dataclass(frozen=True)
class Membership:
    """All joins and leaves of a run. ``starts``: the model with which each joining agent starts."""

    movements: tuple[Movement, ...] = ()
    starts: Mapping[int, str] = field(default_factory=dict)

    @property
    def joins(self) -> dict[int, float]:
        """Seconds at which each agent joins."""
        return {agent: move.at for move in self.movements if move.fault == "join" for agent in move.agents}

    @property
    def leaves(self) -> dict[int, float]:
        """Seconds at which each agent leaves."""
        return {agent: move.at for move in self.movements if move.fault == "leave" for agent in move.agents}

    def learning(self, agent: int, neighbours: Sequence[int]) -> JoinSettings:
        """The settings of the agent's algorithm that follow from joins; empty if there are none."""
        settings: JoinSettings = {}
        absent = [int(j) for j in neighbours if j in self.joins]
        if absent:
            settings["absent"] = absent
        if self.starts.get(agent, "zero") != "zero":
            settings["start"] = self.starts[agent]
        return settings

    def around(self, agent: int, neighbours: Sequence[int]) -> MembershipNumbers:
        """The joins and leaves that concern the agent's process."""
        return MembershipNumbers(
            joins=agent in self.joins,
            joining=tuple(int(j) for j in neighbours if j in self.joins),
            leaving=tuple(int(j) for j in neighbours if j in self.leaves),
        )


def membership(events: Sequence[EventSection], names: Sequence[str], seed: int) -> Membership:
    """Find the agents that join and leave, and when.

    Raises
    ------
    ValueError
        If events contradict each other.
    """
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
