"""Services of the operating system for a process of a run: signals, open files, and memory that stays private."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SET_PARENT_DEATH_SIGNAL = 1
_SET_DUMPABLE = 4
"""PR_SET_PDEATHSIG and PR_SET_DUMPABLE of prctl(2)."""


class StopSignals:
    """SIGTERM and SIGINT as a question: call it to ask whether one of them was received."""

    def __init__(self) -> None:
        self._received = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self._received = True

    def __call__(self) -> bool:
        """Whether one of the signals was received."""
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


def keep_private() -> None:
    """Keep the memory of this process to itself: no core file, and no reading by other processes of the same user.

    It holds rows or secrets, and a core file would leave them in the current folder. Forked children inherit both;
    a program that is started inherits the limit alone. A system without such a switch is left as it is.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


@contextlib.contextmanager
def undone_when_told() -> Iterator[None]:
    """Let SIGTERM and SIGINT end a piece of work by an exception, so that what it was making is removed.

    Further signals are ignored until then, or they would break off the removal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    heeded = (n for n in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(n) is not signal.SIG_IGN)
    before = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent() -> None:
    """Receive SIGTERM when the process that started this one ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
