"""What an agent's process needs besides its algorithm, and the ways in which it can be ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from node.exit_codes import ExitCode
from node.faults.links import Shim
from node.sockets.agent_sockets import Endpoints
from node.wire import EAVESDROPPER, own_name

SPEAKING = 19
"""What an agent that is ready adds to its niceness: agents that are not ready, and the eavesdropper, come first."""


class AgentFailure(Exception):
    """Why an agent could not go on; ``code`` is its exit status."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Stopped(AgentFailure):
    """The agent was told to stop."""

    def __init__(self) -> None:
        super().__init__(ExitCode.STOPPED, "stopped by a signal")


class Left(Exception):
    """The agent was told to leave the run."""


@dataclass
class Surroundings:
    """What an agent process needs besides its algorithm: public numbers of the run, and where things are.

    Times are in seconds. ``bind`` is the agent's own endpoint; ``publish`` makes it known where the system chose it.
    """

    folder: Path
    run: bytes
    digest: bytes
    agent: int
    neighbours: tuple[int, ...]
    dimension: int
    releases: int
    endpoints: Endpoints
    bind: str
    publish: Callable[[str], None] | None
    eavesdropper: bool
    repeat: float
    deadline: float
    linger: float
    silent: float
    on_silent: str
    rate: float
    clock_seed: int
    skew_ns: int
    """How much this agent's own clock is ahead."""
    secret: bytes = field(default=b"", repr=False)
    """The agent's own, for the tags of its receipts; empty: it sends none."""
    hold: Callable[[], None] = lambda: None
    """Returns when this agent may look for its neighbours."""
    shim: Shim | None = None
    """Network conditions between the socket and the checks."""
    largest: float = sys.float_info.max
    """The size of the largest coordinate that an honest neighbour can send."""
    niceness: int = SPEAKING
    joins: bool = False
    """The other agents are running already, and some of them may have left."""
    joining: frozenset[int] = frozenset()
    """Neighbours that join later: this agent does not wait for them at the start."""
    leaving: frozenset[int] = frozenset()
    """Neighbours that leave: this agent does not wait for them at the end."""
    notes: list[str] = field(default_factory=list)

    @property
    def awaited(self) -> frozenset[int]:
        """The neighbours without which this agent does not begin."""
        return frozenset(self.neighbours) - self.joining - (self.leaving if self.joins else frozenset())


def expected_listeners(around: Surroundings, neighbours: Iterable[int]) -> frozenset[bytes]:
    """Return the names of those ``neighbours``, and of the eavesdropper if there is one."""
    return frozenset(own_name(j) for j in neighbours) | ({EAVESDROPPER} if around.eavesdropper else set())
