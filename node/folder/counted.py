"""What an agent counted of itself by its end: its ``final.json``, one reader beside one writer.

Rules that hold here:
- Counts are of frames, charges and seconds; nothing in it depends on the values of the data.
- It imports little: every agent's process writes one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from node.folder.plain import plain
from node.folder.whole import write_document
from node.places import agent_folder
from node.untyped import Json

_EARLIER_NAMES: Final = {"repeats_said": "repeats_sent", "repeats_heard": "repeats_received"}
"""Keys of folders that earlier versions wrote."""


@dataclass(frozen=True, slots=True)
class LinkCounted:
    """What conditions of the network did on one link, in releases: the receiver's view."""

    counts: Mapping[str, int]
    """By what happened: ``passed``, ``late``, ``repeats``, ``duplicated``, ``dropped`` and ``dropped_by_...``."""
    lost_first: tuple[int, ...]
    """Indices whose first copy the conditions lost."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        counts = {name: count for name, count in dict(document).items() if name != "lost_first"}
        return cls(counts, tuple(document["lost_first"]))

    def to_json(self) -> Json:
        """The part of ``final.json`` that this value is."""
        return {**self.counts, "lost_first": list(self.lost_first)}


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
    repeats_sent: int
    repeats_received: int
    late: int
    missing: Mapping[str, tuple[int, ...]]
    """Indices that never arrived, by neighbour."""
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
    links: Mapping[str, LinkCounted] | None = None
    """Of each link into this agent, by sender; None without conditions."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        named = {_EARLIER_NAMES.get(name, name): value for name, value in dict(document).items()}
        known = {own.name: named[own.name] for own in fields(cls) if own.name in named}
        known |= {"notes": tuple(named["notes"]), "not_done": tuple(named["not_done"])}
        known["missing"] = {agent: tuple(indices) for agent, indices in dict(named["missing"]).items()}
        if named.get("links") is not None:
            known["links"] = {sender: LinkCounted.from_json(link) for sender, link in dict(named["links"]).items()}
        return cls(**known)

    def to_json(self) -> Json:
        """The document that ``final.json`` holds; without ``links`` where there were no conditions."""
        document: Json = plain(self)
        del document["links"]
        if self.links is None:
            return document
        return document | {"links": {sender: link.to_json() for sender, link in self.links.items()}}


def write_counted(folder: Path, counted: Counted) -> None:
    """Write ``final.json`` into the agent's own ``folder``, mode 0600, whole or not at all."""
    write_document(folder / "final.json", counted.to_json())


def read_counted(run: Path, agent: int) -> Counted | None:
    """Read what an agent of the run in ``run`` counted; None if it left nothing that can be read."""
    try:
        return Counted.from_json(json.loads((agent_folder(run, agent) / "final.json").read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
