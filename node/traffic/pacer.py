"""When each frame of a replay is due: pure arithmetic on times of one clock, which the caller reads.

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
    """An endpoint, a rate or a number of loops that a replay does not accept; one line."""


def check_rate(rate: float) -> float:
    """Return the rate, if it is in the accepted range; raises `ReplayError`."""
    if not (math.isfinite(rate) and SLOWEST <= rate <= FASTEST):
        raise ReplayError(f"--rate {rate:g}: should be from {SLOWEST:g} to {FASTEST:g} (1 is the recorded pace)")
    return rate


@dataclass
class Pacer:
    """The time line of a replay, in seconds of the caller's clock.

    Parameters
    ----------
    rate
        Speed relative to the recording; None is as fast as possible.
    anchor
        The time at which the time line begins.
    """

    rate: float | None
    anchor: float
    due: float = field(init=False)
    """The time at which the current frame is due."""
    _paused_at: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.due = self.anchor

    @property
    def paused(self) -> bool:
        """Whether the replay is paused."""
        return self._paused_at is not None

    def expect(self, offset: float) -> None:
        """Take the next frame, recorded ``offset`` seconds after the start of the time line."""
        if self.rate is not None:
            self.due = max(self.due, self.anchor + offset / self.rate)

    def wait(self, now: float) -> float | None:
        """Seconds until the current frame is due, 0 if it is due; None while paused."""
        if self.paused:
            return None
        return 0.0 if self.rate is None else max(0.0, self.due - now)

    def press(self, key: KeyPress | None, now: float) -> bool:
        """Pause, resume or step; returns whether the current frame is sent at once (a step while paused)."""
        if key is KeyPress.PAUSE:
            if self._paused_at is None:
                self._paused_at = now
            else:
                # The pause is cut out of the time line: the wait for the next frame goes on where the pause began.
                self.anchor += now - self._paused_at
                self.due += now - self._paused_at
                self._paused_at = None
        return key is KeyPress.STEP and self.paused

    def lateness(self, now: float) -> float | None:
        """Seconds since the current frame was due; None if it has no due time (paused, as fast as possible)."""
        return None if self.rate is None or self.paused else now - self.due

    def begin_loop(self) -> None:
        """Begin the time line again at its present end."""
        self.anchor = self.due
