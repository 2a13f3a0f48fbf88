"""What is watched, as it stands: the feed, the counts of a running run, and the answers to a page's questions.

Rules that hold here:
- One task looks at files, however many pages are open. Pages wait for what it finds.
- The looks themselves run in a thread, so that pages are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from node.folder.endings import failures_of
from node.folder.status import State, read_overheard, read_status
from node.places import agent_folder
from node.view.feed import Capture, Feed
from node.view.subject import Subject
from node.worlds import orphan

if TYPE_CHECKING:
    from node.view.ledgers import Budgets

LOOK: Final = 0.25
"""Seconds between two looks at a log that may grow; the eavesdropper writes every second."""
COUNT: Final = 0.5
"""Seconds between two looks at the agents' counts; more for more than 200 agents."""
QUIET: Final = 10.0
"""Seconds without a new chunk after which a log that was not closed is no longer taken for one that grows."""
JUDGE: Final = 2.0
"""Seconds between two verdicts over a log that grows."""


class Watched:
    """A subject while it is shown. `watch` follows it; everything else may be asked at any time.

    Parameters
    ----------
    subject
        What is shown.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.feed = Feed(subject)
        self._changed = asyncio.Condition()
        self._counts: dict[str, int] = {}
        self._failures: list[str] = []
        self._running = subject.folder is not None and _running(subject)
        self._grew = -QUIET
        self._live = self._running
        self._capture: Capture | None = None
        self._judged, self._judged_rows = 0.0, -1
        self._caught_up = False
        self._followed = False
        self._layout: tuple[tuple[int, int], dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self._budgets: Budgets | None = None

    async def watch(self) -> None:
        """Follow the subject until cancelled."""
        loop = asyncio.get_running_loop()
        counted = -1.0
        many = (self.subject.agents or 0) > 200
        while True:
            now = loop.time()
            new = await asyncio.to_thread(self.feed.look)
            if new and self._followed:
                self._grew = now
            self._followed = self._followed or not new
            if counted < 0 or now - counted >= COUNT * (1 + many):
                counted = now
                await asyncio.to_thread(self._count)
            await asyncio.to_thread(self._judge, now, not new)
            self._caught_up = not new
            self._live = self._running or self._growing(now)
            async with self._changed:
                self._changed.notify_all()
            if not new:
                await asyncio.sleep(LOOK)

    async def changed(self, sent: int, told: Mapping[str, Any]) -> None:
        """Wait until there are more batches than ``sent``, or another state than ``told``."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.feed.batches) > sent or self.state() != told)

    def state(self) -> dict[str, Any]:
        """Return what a page is told besides rows: whether anything runs, counts, capture, failures."""
        capture = self._capture
        return {
            "running": self._running,
            "live": self._live,
            "caught_up": self._caught_up,
            "counts": dict(self._counts),
            "failures": list(self._failures),
            "capture": None if capture is None else asdict(capture),
            "agents": self._agents(),
            "links": 0 if self.subject.graph else len(self.feed.inferred),
        }

    def network(self) -> dict[str, Any]:
        """The graph with a place for each agent, and the public facts of the run."""
        inferred = self.feed.inferred if not self.subject.graph else frozenset()
        agents = self._agents()
        with self._lock:
            if self._layout is None or self._layout[0] != (agents, len(inferred)):
                self._layout = (agents, len(inferred)), self._laid_out(agents, inferred)
            layout = self._layout[1]
        return {
            "name": self.subject.name,
            "run": None if self.subject.run is None else self.subject.run.hex(),
            "folder": self.subject.folder is not None,
            "facts": self.subject.facts(),
            "inferred": not self.subject.graph,
            **layout,
            "uncovered": self.subject.local_figures(),
        }

    def agent(self, agent: int) -> dict[str, Any]:
        """What a run's folder tells of one agent; raises LookupError for a number that is none."""
        if not 0 <= agent < self._agents():
            raise LookupError(agent)
        from node.view.ledgers import burned

        folder = self.subject.folder
        return {
            "agent": agent,
            "ledger": None if folder is None else burned(folder, agent, self.subject.run),
            "counted": self.subject.counted(agent),
        }

    def budgets(self) -> dict[str, Any]:
        """What all ledgers were charged; raises LookupError where there are none."""
        folder, agents = self.subject.folder, self.subject.agents
        if folder is None or agents is None:
            raise LookupError("ledgers")
        from node.view.ledgers import Budgets

        with self._lock:
            self._budgets = self._budgets or Budgets(folder, agents, self.subject.run)
            return self._budgets.now()

    def _agents(self) -> int:
        known = self.subject.agents
        return self.feed.senders if known is None else known

    def _laid_out(self, agents: int, inferred: frozenset[tuple[int, int]]) -> dict[str, Any]:
        from topology.large_layout import laid_out

        if inferred:
            edges = np.array(sorted(inferred), dtype=np.int64).reshape(-1, 2)
            weights = np.ones(len(edges))
        else:
            edges, weights = self.subject.edges()
        there = (edges < agents).all(axis=1)
        edges, weights = edges[there], weights[there]
        places = laid_out(agents, edges)
        return {
            "agents": agents,
            "places": places.round(4).tolist(),
            "edges": edges.tolist(),
            "weights": [float(f"{weight:.6g}") for weight in weights.tolist()],
        }

    def _growing(self, now: float) -> bool:
        closed = self._capture is not None and self._capture.closed
        return not closed and (self.subject.recorded_here or now < self._grew + QUIET)

    def _count(self) -> None:
        folder, agents = self.subject.folder, self.subject.agents
        if folder is None or agents is None:
            return
        self._running = _running(self.subject)
        statuses = [read_status(agent_folder(folder, agent) / "status") for agent in range(agents)]
        known = [status for status in statuses if status is not None]
        overheard = read_overheard(folder / "eavesdropper.status")
        self._counts = {
            "ready": sum(State.READY <= status.state <= State.FINISHED for status in known),
            "finished": sum(status.state is State.FINISHED for status in known),
            "sent": sum(status.sent for status in known),
            "planned": sum(self.subject.manifest["releases"]),
            "charged": sum(status.charged for status in known),
            "logged": 0 if overheard is None else overheard.releases,
        }
        self._failures = [f"{failure.process}: {failure.words}" for failure in failures_of(folder)[:50]]

    def _judge(self, now: float, caught_up: bool) -> None:
        """The verdict over the capture. During a run only once in a while: it looks at every index of every agent."""
        closed = self._capture is not None and self._capture.closed
        known = closed and self.feed.rows == self._judged_rows
        early = now < self._judged + JUDGE and (self._running or not caught_up)
        if known or (early and self._capture is not None):
            return
        self._judged, self._judged_rows = now, self.feed.rows
        self._capture = self.feed.capture()


def _running(subject: Subject) -> bool:
    folder = subject.folder
    assert folder is not None
    return orphan.running_zygote(folder) is not None
