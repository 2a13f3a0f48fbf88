"""When listening is over: decided from counts and times alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QUIET_SECONDS: Final = 1.0
"""Listening ends this long after the last frame of a complete capture, even if agents are still connected."""
GONE_SECONDS: Final = 2.0
"""Listening ends this long after the last agent disconnected, if the capture is incomplete: an agent may come back."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that decide whether listening is over: counts, and times in seconds of one clock."""

    doors: int
    """Number of endpoints."""
    unknown: int
    """Number of endpoints whose address is not known yet."""
    met: int
    """Number of endpoints that were ever connected."""
    connected: int
    """Number of open connections."""
    complete: bool
    """Whether the capture is complete so far."""
    now: float
    frame_at: float
    """Time of the last frame."""
    there_at: float
    """Last time at which any agent was connected."""
    patience: float | None = None
    """Seconds for which to wait for agents that are being restarted; None if no agent is restarted."""
    resumed: bool = False
    """Whether frames of earlier logs of the run were counted."""


def over(at: Situation) -> str | None:
    """Return why listening is over, or None while it goes on.

    It is over when all agents connected and have disconnected, or when the capture is complete and no frame arrives.
    With patience, not every agent needs to have connected.
    """
    all_came = at.unknown == 0 and at.met >= at.doors
    gone = GONE_SECONDS if at.patience is None else at.patience
    none_left = at.connected <= 0 and (at.complete or at.now >= at.there_at + gone)
    if none_left and (all_came or (at.patience is not None and (at.resumed or at.met > 0))):
        return "all agents disconnected"
    if all_came and at.complete and at.now >= at.frame_at + QUIET_SECONDS:
        return "complete"
    return None
