"""The faults of a run: ``faults.jsonl`` in its folder, a line for each event that was carried out or skipped.

Rules that hold here:
- Nothing that checks a configuration is imported here: all agents wait until the eavesdropper, which reads this, is up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NotRequired, TypedDict

_NAME = "faults.jsonl"


class Fault(TypedDict):
    """An event of a run: what was carried out, or why it was skipped.

    ``at_s`` are seconds since the agents were ready, None if they never were. ``groups`` gives the side of each agent.
    """

    fault: str
    at_s: float | None
    agents: list[int]
    time_ns: int
    groups: NotRequired[list[int]]
    skipped: NotRequired[str]


def begin_faults(folder: Path) -> None:
    """Remove the faults of an earlier attempt."""
    (folder / _NAME).unlink(missing_ok=True)


def write_fault(folder: Path, fault: Fault) -> None:
    """Add a line."""
    with (folder / _NAME).open("a") as file:
        file.write(json.dumps(fault, allow_nan=False) + "\n")


def read_faults(folder: Path) -> list[Fault]:
    """The faults of the run in ``folder``, in order."""
    try:
        return [json.loads(line) for line in (folder / _NAME).read_text().splitlines()]
    except FileNotFoundError:
        return []
