"""Carries out a run's ``[[event]]`` tables while the launcher watches: partitions, pauses, kills, joins, leaves.

Rules that hold here:
- Only processes of this run are signalled, by the process ids that the zygote reported.
- Every event is written to ``faults.jsonl`` in the run's folder when it is carried out or skipped.
- Every fault ends: a partition expires by itself, and a paused process is resumed at the end.
"""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from coordinator_free.faults.targets import churn
from node.configuration.events import EventSection, aimed_at
from node.faults.joins_and_leaves import Movement, membership
from node.faults.log import Fault, begin_faults, write_fault
from node.faults.outages import outages
from node.faults.partition import Partition
from node.folder.status import LEAVE, State, read_status
from node.places import agent_folder

AGAIN = 0.05
"""Seconds after which a restart whose process has not been reaped yet is tried again."""

Alive = Mapping[int | str, int]
Action = Callable[[Alive], None]


class Faults:
    """Carries out the events of one run.

    Parameters
    ----------
    folder
        The run's folder.
    events
        The events, in the order of the configuration.
    names
        The agents' names, in the order of their numbers.
    seed
        Decides which agents are hit.
    restart
        Starts an agent whose process is gone, or that joins now.

    Attributes
    ----------
    joiners : frozenset of int
        Agents that the launcher must not start with the others.
    """

    def __init__(
        self,
        folder: Path,
        events: Sequence[EventSection],
        names: Sequence[str],
        seed: int,
        restart: Callable[[int], None],
    ) -> None:
        self._folder = folder
        self._events = events
        self._names = list(names)
        self._seed = seed
        self._outages = outages(events, names, seed)
        self._membership = membership(events, names, seed)
        self.joiners = frozenset(self._membership.joins)
        self._restart = restart
        self._began: float | None = None
        self._queue: list[tuple[float, int, str, Action]] = []
        self._order = itertools.count()
        self._paused: dict[int, int] = {}
        self._awaited: set[int] = set()
        self._divided = -1
        begin_faults(folder)
        partitioned = any(event.fault == "partition" for event in events)
        self._partition = Partition(folder, len(self._names)) if partitioned else None

    def carry_out(self, alive: Alive) -> None:
        """Carry out the events that are due. The first call is time zero."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
            for number, event in enumerate(self._events):
                if event.rate is not None:
                    self._plan_churn(number, event, event.rate)
                elif event.fault not in ("join", "leave"):
                    self._plan(event.at, event.fault, self._action(number, event))
            for movement in self._membership.movements:
                self._plan(movement.at, movement.fault, self._move(movement))
        while self._queue and self._queue[0][0] <= now - self._began:
            _, _, _, action = heapq.heappop(self._queue)
            action(alive)

    def patience(self, most: float) -> float:
        """Seconds until the next event is due, at most ``most``."""
        if self._began is None or not self._queue:
            return most
        return min(most, max(0.0, self._began + self._queue[0][0] - time.monotonic()))

    def meant(self, agent: int) -> bool:
        """Whether an event killed ``agent`` and will start it again."""
        return agent in self._awaited

    @property
    def restarts_ahead(self) -> bool:
        """Whether an agent that was killed will be started again."""
        return bool(self._awaited)

    def close(self) -> None:
        """End every fault, and record the events that the run was too short for."""
        for _, _, name, _ in sorted(self._queue, key=lambda planned: planned[:2]):
            if name in ("partition", "pause", "kill", "join", "leave"):
                self._note(name, (), skipped="the run was over")
        self._queue.clear()
        self._wake(dict(self._paused), {})
        if self._partition is not None:
            self._partition.heal()
            self._partition.close()

    def _plan(self, at: float, name: str, action: Action) -> None:
        heapq.heappush(self._queue, (at, next(self._order), name, action))

    def _note(
        self, fault: str, agents: Sequence[int], *, groups: Sequence[int] | None = None, skipped: str | None = None
    ) -> None:
        at = None if self._began is None else round(time.monotonic() - self._began, 3)
        line: Fault = {"fault": fault, "at_s": at, "agents": list(agents), "time_ns": time.time_ns()}
        if groups is not None:
            line["groups"] = list(groups)
        if skipped is not None:
            line["skipped"] = skipped
        write_fault(self._folder, line)

    def _action(self, number: int, event: EventSection) -> Action:
        if event.fault == "partition":
            return lambda _: self._divide(number)
        if event.fault == "heal":
            return self._heal
        if event.fault == "pause":
            return lambda alive: self._pause(number, alive)
        return self._kill(aimed_at(event, number, self._names, self._seed), event.at, event.restart)

    def _plan_churn(self, number: int, event: EventSection, rate: float) -> None:
        assert event.lasting is not None
        candidates = aimed_at(event, number, self._names, self._seed)
        for absence in churn(candidates, rate, event.restart, event.lasting, self._seed, number):
            at = event.at + absence.at
            self._plan(at, "kill", self._kill([absence.agent], at, absence.away))

    # -- partitions -----------------------------------------------------------------------------------------------

    def _divide(self, number: int) -> None:
        outage = self._outages[number]
        assert self._partition is not None
        self._partition.divide(outage.groups, outage.until - outage.at)
        self._divided = number
        self._note("partition", outage.agents, groups=outage.groups)
        self._plan(outage.until, "expire", lambda _: self._expire(number))

    def _expire(self, number: int) -> None:
        if self._divided == number:
            self._mend()

    def _mend(self) -> None:
        if self._divided >= 0 and self._partition is not None:
            self._partition.heal()
            self._divided = -1
            self._note("heal", ())

    # -- processes ------------------------------------------------------------------------------------------------

    def _heal(self, alive: Alive) -> None:
        self._mend()
        self._wake(dict(self._paused), alive)

    def _pause(self, number: int, alive: Alive) -> None:
        outage = self._outages[number]
        stopped = {agent: alive[agent] for agent in outage.agents if agent in alive}
        for pid in stopped.values():
            _signal(pid, signal.SIGSTOP)
        self._paused |= stopped
        self._note("pause", list(stopped), skipped=None if stopped else "the agents to be paused had ended")
        self._plan(outage.until, "resume", lambda now_alive: self._wake(stopped, now_alive))

    def _wake(self, paused: Mapping[int, int], alive: Alive) -> None:
        woken = [agent for agent, pid in paused.items() if self._paused.get(agent) == pid]
        for agent in woken:
            if alive.get(agent, paused[agent]) == paused[agent]:
                _signal(paused[agent], signal.SIGCONT)
            del self._paused[agent]
        if woken:
            self._note("resume", woken)

    def _kill(self, victims: Sequence[int], at: float, away: float | None) -> Action:
        """A finished agent is not killed: its neighbours may have left, and it would wait for them in vain."""

        def kill(alive: Alive) -> None:
            killed = [agent for agent in victims if agent in alive and not self._finished(agent)]
            if away is not None:
                self._awaited.update(killed)
            for agent in killed:
                self._paused.pop(agent, None)
                _signal(alive[agent], signal.SIGKILL)
            self._note("kill", killed, skipped=None if killed else "the agents to be killed had finished")
            if away is not None:
                for agent in killed:
                    self._plan(at + away, "restart", self._rebirth(agent))

        return kill

    def _rebirth(self, agent: int) -> Action:
        def restart(alive: Alive) -> None:
            assert self._began is not None
            if agent in alive:  # not reaped yet
                self._plan(time.monotonic() - self._began + AGAIN, "restart", restart)
                return
            self._note("restart", [agent])
            self._restart(agent)
            self._awaited.discard(agent)

        return restart

    # -- joining and leaving ---------------------------------------------------------------------------------------

    def _move(self, movement: Movement) -> Action:
        if movement.fault == "leave":
            return lambda alive: self._dismiss(movement.agents, alive)
        return lambda _: self._admit(movement.agents)

    def _admit(self, agents: Sequence[int]) -> None:
        self._note("join", agents)
        for agent in agents:
            self._restart(agent)

    def _dismiss(self, agents: Sequence[int], alive: Alive) -> None:
        """Signal agents to leave; an agent that is not ready yet gets its signal later."""
        assert self._began is not None
        there = [agent for agent in agents if agent in alive and not self._finished(agent)]
        early = [agent for agent in there if not self._ready(agent)]
        signalled = [agent for agent in there if agent not in early]
        for agent in signalled:
            _signal(alive[agent], LEAVE)
        if early:
            again = time.monotonic() - self._began + AGAIN
            self._plan(again, "leave", lambda now_alive: self._dismiss(early, now_alive))
        if signalled or not early:
            self._note("leave", signalled, skipped=None if signalled else "the agents to leave were not there")

    def _ready(self, agent: int) -> bool:
        status = read_status(agent_folder(self._folder, agent) / "status")
        return status is not None and status.state >= State.SPOKEN

    def _finished(self, agent: int) -> bool:
        status = read_status(agent_folder(self._folder, agent) / "status")
        return status is not None and status.state >= State.FINISHED


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
