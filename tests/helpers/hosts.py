"""Processes of ``sottovoce host`` on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from node.folder.status import Status, read_status
from node.places import agent_folder


def start_host(
    part: Path, exchange: Path, *given: str, inside: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start the host of a part, after the words ``inside`` that say where."""
    words = [sys.executable, "-m", "node.cli", "host", str(part), "--endpoints", str(exchange), *given]
    return subprocess.Popen(
        [*inside, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def tells(process: subprocess.Popen[str], words: str) -> None:
    """Read what a host prints until it has told something."""
    assert process.stdout is not None
    assert any(words in line for line in process.stdout)


def all_ready(*processes: subprocess.Popen[str]) -> None:
    """Read what hosts print until all of their agents are ready."""
    for process in processes:
        tells(process, "all ready")


def finished(*processes: subprocess.Popen[str]) -> None:
    """Wait for hosts whose agents all finish."""
    for process in processes:
        words = process.communicate()[0]
        assert process.returncode == 0, words


def status_of(part: Path, agent: int) -> Status:
    """What an agent that has begun shows of itself."""
    status = read_status(agent_folder(part, agent) / "status")
    assert status is not None
    return status


def sent_and_received(part: Path, agents: Sequence[int]) -> None:
    """Wait until each of these agents has sent and received several releases."""
    while any(min(now.sent, now.received) < 6 for now in (status_of(part, agent) for agent in agents)):
        time.sleep(0.05)
