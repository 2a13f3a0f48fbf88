"""What an agent counted of itself by its end: its ``final.json``, one reader beside one writer.

Rules that hold here:
- Counts are of frames, charges and seconds; nothing in it depends on the values of the data.
- It imports little: every agent's process writes one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from node.folder.plain import plain
from node.folder.whole import write_whole
from node.places import agent_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How an agent ended and what it counted; seconds end in ``_s``, ``pss_kb`` is its proportional memory."""

    agent: int
    code: int
    """Its exit status."""
    reason: str | None
    """Why the status is not 0."""
    notes: tuple[str, ...]
    sent: int
    """Releases, without repeats."""
    last: int
    """The last index that it sent; -1 for none."""
    received: int
    repeats_said: int
    repeats_heard: int
    late: int
    missing: Mapping[str, Any]
    """Ranges of indices that never arrived, by neighbour."""
    not_done: tuple[int, ...]
    """Neighbours from which no done arrived."""
    dropped_by_reason: Mapping[str, int]
    bytes: int
    """Sent, repeats included."""
    charged: int
    ready_s: float | None = None
    ready_cpu_s: float | None = None
    pss_kb: int | None = None
    cpu_s: float | None = None
    links: Mapping[str, Mapping[str, Any]] | None = field(default=None)
    """What conditions of the network did on each link into this agent, by sender; None without conditions."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Counted:
        """Read what `to_json` wrote; raises KeyError or TypeError for anything else."""
        known = {own.name: document[own.name] for own in fields(cls) if own.name in document}
        return cls(**{**known, "notes": tuple(document["notes"]), "not_done": tuple(document["not_done"])})

    def to_json(self) -> dict[str, Any]:
        """The document that ``final.json`` holds; without ``links`` where there were no conditions."""
        document: dict[str, Any] = plain(self)
        if self.links is None:
            del document["links"]
        return document


def write_counted(folder: Path, counted: Counted) -> None:
    """Write ``final.json`` into the agent's own ``folder``, mode 0600, whole or not at all."""
    write_whole(folder / "final.json", json.dumps(counted.to_json(), indent=1, allow_nan=False).encode())


def read_counted(run: Path, agent: int) -> Counted | None:
    """Read what an agent of the run in ``run`` counted; None if it left nothing that can be read."""
    try:
        return Counted.from_json(json.loads((agent_folder(run, agent) / "final.json").read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
