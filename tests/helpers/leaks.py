"""What a test may not leave behind: child processes, threads, open files and sockets."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

GRACE_SECONDS = 60.0
"""ZeroMQ and the kernel close what a test has let go a moment later; a busy machine takes longer."""
KEPT_BY_LIBRARIES = tuple(f"{Path(place).resolve()}/" for place in (sys.prefix, sys.base_prefix, "/usr/share"))
"""Fonts and other files of installed packages, which their libraries keep open on purpose."""


def children() -> set[int]:
    """Process ids of the direct children of this process, ended but unreaped ones too."""
    found = set()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - procfs, before and after every test
        try:
            with open(f"/proc/self/task/{task}/children") as file:  # noqa: PTH123 - likewise
                found |= {int(pid) for pid in file.read().split()}
        except OSError:  # the thread has ended
            continue
    return found


def open_files() -> dict[int, str]:
    """What each file descriptor of this process is; a ZeroMQ context that is not terminated holds several."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - procfs, before and after every test
        try:
            place = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - likewise
        except OSError:  # the descriptor of this very listing
            continue
        if not place.startswith((*KEPT_BY_LIBRARIES, "/dev/")):
            found[int(name)] = place
    return found


def processes_of(run: Path) -> dict[int, str]:
    """Every process on this machine that has the run's folder on its command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(run) in command:
                found[int(folder.name)] = command
    return found


Open = tuple[set[int], set[threading.Thread], dict[int, str]]


def held() -> Open:
    """Child processes, threads and open files of this process."""
    return children(), set(threading.enumerate()), open_files()


def left_since(before: Open) -> list[str]:
    """What is held now and was not held before, one line each."""
    processes, threads, files = held()
    left = [f"process {pid}" for pid in processes - before[0]]
    left += [f"thread {thread.name}" for thread in threads - before[1]]
    # A number alone says nothing: a file that was open before may have been exchanged for another.
    return left + [f"file {number}: {place}" for number, place in files.items() if before[2].get(number) != place]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a process, a thread, a file or a socket open. About 0.2 ms where nothing is left."""
    before = held()
    yield
    left = left_since(before)
    if left:
        gc.collect()  # what only a reference cycle holds is closed with it
        deadline = time.monotonic() + GRACE_SECONDS
        while (left := left_since(before)) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not left, "left behind: " + ", ".join(left)
