"""The processes of a run without their launcher, or without their zygote: they are found, waited for, and ended.

Rules that hold here:
- The zygote is known by process id and start time. All processes of a run are in the zygote's session, also after its
  end, and the system does not use the number of a session again while a process is in it.
- An end is waited for as long as processes go on ending, not for a fixed time.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

STUCK_SECONDS = 10.0
"""Seconds without the end of a single process after which the zygote is killed."""
GRACE_SECONDS = 2.0
"""Seconds that processes without a zygote have between SIGTERM and SIGKILL."""
LOOK_SECONDS = 0.5
"""Seconds between two looks at how many processes have ended."""


class _Process(NamedTuple):
    """A process as the system tells of it: session, and start time in clock ticks since boot."""

    pid: int
    session: int
    started: int


def write_processes(folder: Path, zygote: int, sockets: Path | None) -> None:
    """Write ``processes.json``: the zygote's process id and start time, and the folder of the ipc sockets."""
    document = {
        "zygote": {"pid": zygote, "started": started_at(zygote)},
        "sockets": str(sockets) if sockets is not None else None,
    }
    (folder / "processes.json").write_text(json.dumps(document, allow_nan=False) + "\n")


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone.

    Process id and start time together identify a process; the system uses an id again.
    """
    process = _process(pid)
    return None if process is None else process.started


def _process(pid: int) -> _Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else _Process(pid, int(fields[3]), int(fields[19]))


def running_zygote(folder: Path) -> int | None:
    """Return the process id of a run's zygote, if it still runs."""
    noted = _noted(folder)
    if noted is None:
        return None
    pid, started, _ = noted
    return pid if started_at(pid) == started else None


def left_of(folder: Path) -> list[int]:
    """Return the process ids of a run's processes that are left without their zygote."""
    noted = _noted(folder)
    if noted is None:
        return []
    zygote, started, _ = noted
    if started_at(zygote) is not None:
        return []  # it runs, or the number is another process's by now
    processes = (_process(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - procfs
    return [p.pid for p in processes if p is not None and p.session == zygote and p.started >= started]


def _noted(folder: Path) -> tuple[int, int, Path | None] | None:
    """The zygote's process id and start time, and the folder of sockets; None where nothing was noted."""
    try:
        document = json.loads((folder / "processes.json").read_text())
        pid, started, sockets = document["zygote"]["pid"], document["zygote"]["started"], document["sockets"]
    except (OSError, ValueError, KeyError):
        return None
    return None if started is None else (int(pid), int(started), None if sockets is None else Path(sockets))


def stop_run(folder: Path) -> bool:
    """End a run's processes, and remove their sockets.

    Returns
    -------
    bool
        False if no process of the run was running.
    """
    zygote = running_zygote(folder)
    if zygote is not None:
        with suppress(ProcessLookupError):
            os.kill(zygote, signal.SIGTERM)
        see_out(folder, zygote)
    return end_left(folder) or zygote is not None


def see_out(folder: Path, zygote: int) -> None:
    """Wait until the ``zygote`` of the run in ``folder`` has ended; kill it once its processes end no more."""
    try:
        descriptor = os.pidfd_open(zygote)
    except ProcessLookupError:
        return
    try:
        ended, since = _ended(folder), time.monotonic()
        while not select.select([descriptor], [], [], LOOK_SECONDS)[0]:
            now = time.monotonic()
            if _ended(folder) != ended:
                ended, since = _ended(folder), now
            elif now >= since + STUCK_SECONDS:
                os.kill(zygote, signal.SIGKILL)
    finally:
        os.close(descriptor)


def ends_within(seconds: float, zygote: int) -> bool:
    """Wait for the end of a ``zygote``, at most so long; returns whether it has ended."""
    try:
        descriptor = os.pidfd_open(zygote)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _ended(folder: Path) -> int:
    """A number that grows with each process that ended."""
    try:
        return (folder / "exits.jsonl").stat().st_size
    except OSError:
        return 0


def end_left(folder: Path) -> bool:
    """End the processes that are left without their zygote, and remove their sockets; False if none was left."""
    left = left_of(folder)
    deadline = time.monotonic() + GRACE_SECONDS
    for number in (signal.SIGTERM, signal.SIGCONT):  # one that is paused receives nothing before it goes on
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    while (still := left_of(folder)) and time.monotonic() < deadline + STUCK_SECONDS:
        if time.monotonic() >= deadline:
            for pid in still:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        select.select([], [], [], 0.05)
    noted = _noted(folder)
    if noted is not None and noted[2] is not None and running_zygote(folder) is None:
        shutil.rmtree(noted[2], ignore_errors=True)
    return bool(left)
