"""Names of agents in files and folders, and the places of their files in a run's folder.

Rules that hold here:
- Only the standard library is imported: a process that only finds files, like the eavesdropper, starts without more.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

EAVESDROPPER = "eavesdropper"
"""The name of the eavesdropper in files and folders, beside those of the agents."""

CANARIES = "canaries.json"
"""The public facts of a run's canaries, in its folder and in its log."""

HANDED_OVER = "handed-over"
"""Marks a run's folder whose files were moved to parts; it stays when they are gathered again."""


def agent_name(agent: int) -> str:
    """The name of agent ``agent`` in files and folders."""
    return f"agent-{agent:04d}"


def shard_path(run: Path, agent: int) -> Path:
    """The file of an agent's shard."""
    return run / "shards" / f"{agent_name(agent)}.npz"


def agent_folder(run: Path, agent: int) -> Path:
    """The folder of an agent's ledger, secret, journal and final model."""
    return run / "agents" / agent_name(agent)


def agents_in_words(numbers: Iterable[int], most: int = 10) -> str:
    """Return "agent 3", "agents 1, 2", or the first ones and how many more."""
    listed = [str(number) for number in numbers]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ("agent " if len(listed) == 1 else "agents ") + ", ".join(listed[:most]) + more
