"""What the launcher notes of a run: its ``watch.json``, one reader beside one writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from node.folder.endings import Failure
from node.folder.manifest import read_json
from node.folder.plain import plain
from node.folder.whole import write_document
from node.untyped import Json


@dataclass(slots=True)
class Watch:
    """What became of a run: seconds until all agents were ready, seconds that it took, and the failures."""

    ready_s: float | None = None
    wall_s: float = 0.0
    world: str = "processes"
    failures: list[Failure] = field(default_factory=list)
    eavesdropper_status: int | None = None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; what is missing has its default."""
        given = {own.name: document[own.name] for own in fields(cls) if own.name in document}
        return cls(**{**given, "failures": [Failure.from_json(failure) for failure in document.get("failures", ())]})

    def to_json(self) -> Json:
        """The document that ``watch.json`` holds."""
        document: Json = plain(self)
        return document


def write_watch(folder: Path, watch: Watch) -> None:
    """Write ``watch.json`` into the run's ``folder``, whole or not at all."""
    write_document(folder / "watch.json", watch.to_json(), 0o644)


def read_watch(folder: Path) -> Watch | None:
    """Read what the launcher of the run in ``folder`` noted; None where it noted nothing."""
    document = read_json(folder / "watch.json")
    return Watch.from_json(document) if document else None
