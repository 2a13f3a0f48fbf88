"""What a process of ours needs of the operating system: to be told to stop, and enough open files."""

from __future__ import annotations

import contextlib
import resource
import signal


class StopSignals:
    """SIGTERM and SIGINT as a question: call it to ask whether one of them was received."""

    def __init__(self) -> None:
        self._received = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self._received = True

    def __call__(self) -> bool:
        return self._received

    def ignore(self) -> None:
        """Ignore both signals from here on: Python's own end would restore their defaults, and they would kill it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


def allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one: a thousand agents are a thousand connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
