"""What an agent's process is told by signals: to stop, or to leave the run.

Rules that hold here:
- A signal ends any wait at once: each of them is also a byte in a pipe, and the pipe is one of the things waited for.
- An agent leaves between two releases, never before its first: `check` is told whether it may leave now.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from node.agent.surroundings import Left, Stopped
from node.folder.status import LEAVE


class Orders:
    """SIGTERM and SIGINT (``stop``) and `LEAVE` (``leave``), as they arrive in the main thread."""

    def __init__(self) -> None:
        self.stop = False
        self.leave = False
        self._unread = False
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(LEAVE, self._on_leave)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    @property
    def descriptor(self) -> int:
        """A file descriptor that is readable once a signal came."""
        return self._read

    def check(self, *, may_leave: bool) -> None:
        """Raise `Stopped`, or `Left` if the agent was told to leave and may."""
        if self._unread:
            self._unread = False
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 4096)  # or an order that is carried out later would end all waits before it
        if self.stop:
            raise Stopped
        if self.leave and may_leave:
            raise Left

    def wait(self, seconds: float) -> None:
        """Wait for a signal alone."""
        select.select([self._read], [], [], seconds)

    def close(self) -> None:
        """Let signals be. What they are to do from here on is the process's end."""
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)

    def _on_stop(self, *_: object) -> None:
        self.stop = self._unread = True

    def _on_leave(self, *_: object) -> None:
        self.leave = self._unread = True
