"""``ray.json`` in a run's folder: how Ray is reached, and where each host is. Ray itself is not imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from node.folder.manifest import RunFolderError, read_json
from node.folder.whole import write_whole

NOTE: Final = "ray.json"


@dataclass(frozen=True)
class RayNote:
    """How Ray is reached (``ray`` or ``ray://HOST:PORT``), and the address of each host by its name."""

    on: str
    hosts: Mapping[str, str]


def is_on_ray(run: Path) -> bool:
    """Whether the run in this folder is on a Ray cluster."""
    return (run / NOTE).exists()


def parts_of(run: Path) -> Path:
    """The folder of the parts of a run on Ray, beside its own."""
    return run.with_name(f"{run.name}.parts")


def write_note(run: Path, note: RayNote) -> None:
    """Write the note."""
    write_whole(run / NOTE, (json.dumps(asdict(note), indent=1) + "\n").encode(), 0o644)


def read_note(run: Path) -> RayNote:
    """Read the note.

    Raises
    ------
    RunFolderError
        If it is not whole.
    """
    try:
        document = read_json(run / NOTE)
        return RayNote(str(document["on"]), {str(name): str(at) for name, at in document["hosts"].items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{run / NOTE} is not whole: {error}") from None
