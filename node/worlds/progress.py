"""What the launcher sees of a run at a moment: its progress."""

from __future__ import annotations

from dataclasses import dataclass


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
