"""What a test may not leave behind: child processes and open ZeroMQ contexts; a conftest imports the fixture."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq


def children() -> set[int]:
    """Process ids of the direct children of this process, ended but unreaped ones too."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def open_contexts() -> list[zmq.Context]:
    """ZeroMQ contexts that are not terminated; each holds a thread and its sockets."""
    gc.collect()
    return [thing for thing in gc.get_objects() if isinstance(thing, zmq.Context) and not thing.closed]


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


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before, contexts = children(), len(open_contexts())
    yield
    left = children() - before
    assert not left, f"processes left behind: {left}"
    assert len(open_contexts()) <= contexts, "ZeroMQ contexts left open"
