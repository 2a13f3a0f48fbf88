"""The faults of a run: ``faults.jsonl`` in its folder, a line for each event that was carried out or skipped.

Rules that hold here:
- Nothing that checks a configuration is imported here: all agents wait until the eavesdropper, which reads this, is up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NAME = "faults.jsonl"


def begin_faults(folder: Path) -> None:
    """Remove the faults of an earlier attempt."""
    (folder / _NAME).unlink(missing_ok=True)


def write_fault(folder: Path, fault: Mapping[str, Any]) -> None:
    """Add a line."""
    with (folder / _NAME).open("a") as file:
        file.write(json.dumps(fault, allow_nan=False) + "\n")


def read_faults(folder: Path) -> list[dict[str, Any]]:
    """The faults of the run in ``folder``, in order."""
    try:
        return [json.loads(line) for line in (folder / _NAME).read_text().splitlines()]
    except FileNotFoundError:
        return []
