"""What the launcher sees of a run at a moment: its progress, and which agents a run that stands still waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from node.folder.endings import Failure
from node.folder.status import State, Status
from node.places import agent_name, agents_in_words


@dataclass(frozen=True)
class Progress:
    """A moment of a run: counts over all agents, and seconds since its start.

    ``ready_after`` is the time of the last agent that became ready: among a thousand agents the launcher looks seconds
    later. ``sent`` and ``charged`` are counts of releases, ``planned`` is the number that all agents are to send,
    ``logged`` the number that the eavesdropper has logged. ``failures`` are the processes that ended without having
    finished, in that order. ``still`` are the seconds since an agent last got further, and ``waited_for`` the agents
    that are furthest behind where that is long ago.
    """

    agents: int
    ready: int
    finished: int
    sent: int
    planned: int
    charged: int
    logged: int
    ready_after: float
    seconds: float
    failures: tuple[Failure, ...] = ()
    still: float = 0.0
    waited_for: tuple[int, ...] = ()

    def waiting(self) -> str | None:
        """One line about a run that stands still: for which agents it waits, and how they ended; None if it goes on."""
        if not self.waited_for:
            return None
        words = {failure.process: failure.words for failure in self.failures}
        ends = [(agent, words[agent_name(agent)]) for agent in self.waited_for if agent_name(agent) in words]
        told = "".join(f"; agent {agent}: {end}" for agent, end in ends[:3])
        # Its neighbours may have got as far as an agent that ended, and wait for it too.
        waited_for = [agent for agent, _ in ends] or self.waited_for
        return f"nothing new for {self.still:.0f} s: waiting for {agents_in_words(waited_for)}{told}"


class Standstill:
    """Notices that no agent gets further, and which agents the others wait for.

    An agent in rounds is at most one round ahead of its neighbours. So in a run that stands still the agents with the
    fewest releases are those that the others wait for.

    Parameters
    ----------
    patience
        Seconds without anything new after which a run stands still.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._seen: list[tuple[int, int]] = []
        self._since = 0.0

    def look(self, statuses: Sequence[Status | None], now: float) -> tuple[float, tuple[int, ...]]:
        """Return the seconds (by the clock of ``now``) since anything changed, and the agents that are waited for."""
        seen = [(0, 0) if status is None else (status.state, status.sent) for status in statuses]
        if seen != self._seen:
            self._seen, self._since = seen, now
        still = now - self._since
        return still, self._furthest_behind() if still >= self._patience else ()

    def _furthest_behind(self) -> tuple[int, ...]:
        # An agent that failed got as far as its releases.
        places = {
            agent: (min(state, State.SPOKEN), sent)
            for agent, (state, sent) in enumerate(self._seen)
            if state != State.FINISHED
        }
        last = min(places.values(), default=None)
        return tuple(agent for agent, place in places.items() if place == last)
