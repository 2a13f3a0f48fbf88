"""What the launcher sees of a run: its progress at a moment, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from node.folder.endings import Failure


@dataclass(frozen=True)
class Progress:
    """A moment of a run: counts over all agents, and seconds since its start.

    ``ready_after`` is the time of the last agent that became ready: among a thousand agents the launcher looks seconds
    later. ``sent`` and ``charged`` are counts of releases, ``planned`` is the number that all agents are to send,
    ``heard`` the number that the eavesdropper has logged.
    """

    agents: int
    ready: int
    finished: int
    sent: int
    planned: int
    charged: int
    heard: int
    ready_after: float
    seconds: float


@dataclass
class Watch:
    """What became of a run: seconds until all agents were ready, seconds that it took, and the failures."""

    ready_s: float | None = None
    wall_s: float = 0.0
    world: str = "processes"
    failures: list[Failure] = field(default_factory=list)
    eavesdropper_status: int | None = None
