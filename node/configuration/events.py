"""``[[event]]``: a fault, when it happens, which agents it hits, and how long it lasts.

Rules that hold here:
- Every partition and every pause ends: by itself, or by a later ``heal``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from coordinator_free.faults.targets import LONGEST, TARGETS, targets
from node.configuration.agent_names import numbered
from node.configuration.units import PerSecond, PositiveSeconds, Seconds


def _agent(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _target(value: object) -> object:
    counted = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if counted or value in TARGETS or (isinstance(value, list) and value and all(_agent(agent) for agent in value)):
        return value
    raise ValueError(f"should be one of {', '.join(TARGETS)}, how many, or a list of agents, such as [0, 3]")


def _groups(value: object) -> object:
    if value in ("bisect", "isolate"):
        return value
    if isinstance(value, list) and value and all(isinstance(g, list) and all(map(_agent, g)) for g in value):
        named = [agent for group in value for agent in group]
        if len(named) == len(set(named)):
            return value
        raise ValueError("should name each agent once")
    raise ValueError('should be "bisect", "isolate", or a list of lists of agents, such as [[0, 1], [2, 3]]')


_TAKES = {
    "partition": ({"groups"}, {"target", "lasting"}),
    "pause": ({"target"}, {"lasting"}),
    "kill": ({"target"}, {"restart"}),
    "heal": (set(), set()),
    "join": ({"target"}, {"lasting", "start"}),
    "leave": ({"target"}, {"lasting"}),
}
"""What each fault needs, and what it may have."""


class EventSection(BaseModel):
    """One event. ``at`` is seconds after all agents that are there from the beginning were ready."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    at: Seconds
    fault: Literal["partition", "heal", "pause", "kill", "join", "leave"]
    target: Annotated[Any, AfterValidator(_target)] = None
    """"one", "minority", "majority", "all" or a number of agents (drawn from the seed), or a list by number or name."""
    groups: Annotated[Any, AfterValidator(_groups)] = None
    """Of a partition: "bisect", "isolate" (each ``target``), or lists of agents."""
    lasting: PositiveSeconds | None = None
    """Of a join or leave: the agents come or go one after another, evenly over so many seconds."""
    start: Literal["zero", "neighbours"] | None = None
    """The model that a joining agent starts from: zeros, or the mixture of its neighbours' last releases."""
    restart: Seconds | None = None
    """Seconds after a kill; without it the agent stays dead. With ``rate`` their mean, of an exponential law."""
    rate: PerSecond | None = None
    """Of kills: so many, on average, of agents of ``target``, one by one as a Poisson process, for ``lasting``."""

    @model_validator(mode="after")
    def _takes(self) -> EventSection:
        needed, more = _TAKES[self.fault]
        optional = ("target", "groups", "lasting", "restart", "start", "rate")
        given = {key for key in optional if getattr(self, key) is not None}
        if self.fault == "kill" and given & {"rate", "lasting"}:
            needed = needed | {"rate", "lasting"}
        if self.groups == "isolate":
            needed, more = needed | {"target"}, more - {"target"}
        elif self.fault == "partition":
            more = more - {"target"}
        if not needed <= given <= needed | more:
            takes = " and ".join(sorted(needed)) or "nothing but at"
            raise ValueError(
                f'fault "{self.fault}" takes {takes}' + (f", and maybe {', '.join(sorted(more))}" if more else "")
            )
        return self


def ending(events: Sequence[EventSection], number: int) -> float | None:
    """When the partition or pause ``number`` ends, in seconds after all were ready; None: never."""
    event = events[number]
    ends = [other.at for other in events if other.fault == "heal" and other.at > event.at]
    if event.lasting is not None:
        ends.append(event.at + event.lasting)
    return min(ends, default=None)


def outage(events: Sequence[EventSection]) -> float:
    """The longest time, in seconds, that an event keeps an agent from its neighbours and gives it back."""
    longest = 0.0
    for number, event in enumerate(events):
        away = (event.restart or 0.0) * (1.0 if event.rate is None else LONGEST)
        end = ending(events, number) if event.fault in ("partition", "pause") else event.at + away
        longest = max(longest, (end if end is not None else event.at) - event.at)
    return longest


def numbers_of(agents: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """The agents' numbers: a whole number is one already, and text names an agent of ``names``; raises ValueError."""
    for agent in agents:
        if isinstance(agent, int) and agent >= len(names):
            raise ValueError(f"{agent!r} is no agent: accepted are 0 to {len(names) - 1}, and the agents' names")
    texts = iter(numbered([agent for agent in agents if isinstance(agent, str)], names))
    return [agent if isinstance(agent, int) else next(texts) for agent in agents]


def aimed_at(
    event: EventSection, number: int, names: Sequence[str], seed: int, without: Collection[int] = ()
) -> tuple[int, ...]:
    """The agents that event ``number`` hits; where it has to draw them, none of those ``without``."""
    named = numbers_of(event.target, names) if isinstance(event.target, list) else event.target
    return targets(named, len(names), seed, number, without=without)


def check_names(events: Sequence[EventSection], names: Sequence[str]) -> None:
    """Raise ValueError, one line, for an event that names an agent that is none."""
    for number, event in enumerate(events):
        if isinstance(event.target, int) and event.target > len(names):
            raise ValueError(f"event.{number}.target = {event.target}: there are {len(names)} agents")
        for key in ("target", "groups"):
            value = getattr(event, key)
            if isinstance(value, list):
                named = [a for group in value for a in group] if key == "groups" else value
                try:
                    numbers_of(named, names)
                except ValueError as error:
                    raise ValueError(f"event.{number}.{key}: {error}") from None
