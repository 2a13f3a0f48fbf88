"""How long an agent has listened, by which it judges the silence of others.

Rules that hold here:
- Time in which the agent itself did not listen (it was stopped, or got no processor) is no neighbour's silence.
- No sockets here: the owner tells for how long it means to wait, and when it has looked.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Listening:
    """Seconds of listening; between two looks at most as many pass as the owner meant to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_at = clock()
        self._meant = 0.0
        self.seconds = 0.0

    def wait(self, seconds: float) -> None:
        """The owner is going to wait, at most so long."""
        self._meant = max(0.0, seconds)

    def look(self) -> None:
        """The owner looks at what has arrived."""
        now = self._clock()
        self.seconds += min(now - self._looked_at, self._meant)
        self._looked_at = now
