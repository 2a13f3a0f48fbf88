"""When each frame of a replay is due: pure arithmetic over the times of one clock, which the caller reads.

Rules that hold here:
- One absolute anchor: a frame is due at anchor + (its time - the start) / rate. Sleeps are never summed.
- A pause moves the anchor once, by its length.
- Frames keep the order of the file, whatever their times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from node.traffic.terminal import KeyPress

SLOWEST: Final = 0.01
FASTEST: Final = 1000.0


class ReplayError(ValueError):
    """An endpoint, a rate or a number of loops that a replay cannot have; one line."""


def check_rate(rate: float) -> float:
    """Return the rate if a replay can have it; raises `ReplayError`."""
    if not (math.isfinite(rate) and SLOWEST <= rate <= FASTEST):
        raise ReplayError(f"--rate {rate:g}: should be from {SLOWEST:g} to {FASTEST:g} (1 is the recorded pace)")
    return rate


@dataclass
class Pacer:
    """The time line of a replay, in seconds of the caller's clock.

    Parameters
    ----------
    rate
        How many times as fast as recorded; None is as fast as possible.
    anchor
        The time at which the time line begins.
    """

    rate: float | None
    anchor: float
    due: float = field(init=False)
    """When the frame at hand goes out."""
    _paused_at: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.due = self.anchor

    @property
    def paused(self) -> bool:
        """Whether the time line stands still."""
        return self._paused_at is not None

    def expect(self, offset: float) -> None:
        """Take the next frame, recorded ``offset`` seconds after the start of the time line."""
        if self.rate is not None:
            self.due = max(self.due, self.anchor + offset / self.rate)

    def wait(self, now: float) -> float | None:
        """Seconds until the frame at hand is due, 0 if it is; None while paused."""
        if self.paused:
            return None
        return 0.0 if self.rate is None else max(0.0, self.due - now)

    def press(self, key: KeyPress | None, now: float) -> bool:
        """Pause, go on or step; returns whether the frame at hand goes out at once (a step while paused)."""
        if key is KeyPress.PAUSE:
            if self._paused_at is None:
                self._paused_at = now
            else:
                # The pause is cut out of the time line: the next frame is due as long from now as it was then.
                self.anchor += now - self._paused_at
                self.due += now - self._paused_at
                self._paused_at = None
        return key is KeyPress.STEP and self.paused

    def lateness(self, now: float) -> float | None:
        """Seconds since the frame at hand was due; None where it has no due time (paused, as fast as possible)."""
        return None if self.rate is None or self.paused else now - self.due

    def begin_loop(self) -> None:
        """Begin the time line again where it ended."""
        self.anchor = self.due
