"""Keys from a terminal while a replay runs."""

from __future__ import annotations

import os
import select
import termios
import time
import tty
from enum import Enum
from typing import Any


class KeyPress(Enum):
    """A key that controls a replay."""

    PAUSE = "space"
    STEP = "right arrow"


class Terminal:
    """Single keys from a terminal, as a context manager; no keys if the input is not a terminal."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor if os.isatty(descriptor) else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Terminal:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None and self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def key(self, seconds: float) -> KeyPress | None:
        """Return the key that is pressed within ``seconds``; without a terminal, sleep for as long."""
        if self._descriptor is None:
            return no_keys(seconds)
        typed = self._typed(max(0.0, seconds))
        if typed == b" ":
            return KeyPress.PAUSE
        if typed == b"\x1b" and self._typed(0.05) in (b"[", b"O") and self._typed(0.05) == b"C":
            return KeyPress.STEP
        return None

    def _typed(self, seconds: float) -> bytes:
        assert self._descriptor is not None
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return b""
        try:
            typed = os.read(self._descriptor, 1)
        except OSError:
            typed = b""
        if not typed:
            self._descriptor = None  # the terminal is gone: there will be no more keys
        return typed


def no_keys(seconds: float) -> KeyPress | None:
    """Wait for ``seconds`` and return no key."""
    time.sleep(max(0.0, seconds))
    return None
