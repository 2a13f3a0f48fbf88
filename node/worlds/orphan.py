"""A run whose launcher is gone: its zygote is found by process id and start time, and can be stopped."""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path

STOP_SECONDS = 10.0
"""Seconds that the zygote has to end: it gives its children two, and kills the others."""


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
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def running_zygote(folder: Path) -> int | None:
    """Return the process id of a run's zygote, if it still runs."""
    try:
        zygote = json.loads((folder / "processes.json").read_text())["zygote"]
    except (OSError, ValueError, KeyError):
        return None
    alive = zygote["started"] is not None and started_at(zygote["pid"]) == zygote["started"]
    return int(zygote["pid"]) if alive else None


def stop_run(folder: Path) -> bool:
    """End a run's processes. They have two seconds to end by themselves, then the zygote kills them.

    Returns
    -------
    bool
        False if no process of the run was running.
    """
    zygote = running_zygote(folder)
    if zygote is None:
        return False
    os.kill(zygote, signal.SIGTERM)
    descriptor = os.pidfd_open(zygote)
    try:
        select.select([descriptor], [], [], STOP_SECONDS)
    finally:
        os.close(descriptor)
    return True
