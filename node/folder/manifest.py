"""A run's manifest: what is public about a run as a whole, in ``manifest.json``.

Rules that hold here:
- The digest of the data is not in it: it would confirm a guess of a missing record.
- It imports the standard library alone, so that a light process can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from node.folder.plain import plain
from node.untyped import Json

if TYPE_CHECKING:
    from node.folder.build import Build


class RunFolderError(ValueError):
    """A folder that is no run, or one that is not whole; one line."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric on held-out rows, and which way is better."""

    name: str
    larger_is_better: bool


@dataclass(frozen=True, slots=True)
class Seeds:
    """What the run's seed decides, and where noise comes from."""

    seed: int
    drawn: bool
    """Whether the configuration had none."""
    seeds: tuple[str, ...]
    noise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest. ``names``, ``records`` and ``releases`` have one entry for each agent, in agent order."""

    sottovoce: str
    """The version that dealt the run."""
    run: bytes
    """The run's id, 16 bytes."""
    name: str
    agents: int
    names: tuple[str, ...]
    records: tuple[int, ...]
    releases: tuple[int, ...]
    features: tuple[str, ...]
    dimension: int
    metric: Metric
    algorithm: str
    record: str
    """The unit of privacy, such as "one pupil"."""
    privacy: Mapping[str, Any]
    """The ``[privacy]`` settings."""
    simulation: bool
    topology_digest: str
    configuration_digest: str
    seeds: Seeds
    public_assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    build: Build
    """What bit-for-bit claims depend on."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Manifest:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        given = {own.name: document[own.name] for own in fields(cls)}
        given.update({name: tuple(document[name]) for name in _LISTS})
        given.update(
            run=bytes.fromhex(document["run"]),
            metric=Metric(**document["metric"]),
            seeds=Seeds(**{**document["seeds"], "seeds": tuple(document["seeds"]["seeds"])}),
        )
        return cls(**given)

    def to_json(self) -> Json:
        """The document that ``manifest.json`` holds."""
        document: Json = plain(self)
        return document | {"run": self.run.hex()}


_LISTS = ("names", "records", "releases", "features", "public_assumptions", "warnings")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the run in ``folder``.

    Raises
    ------
    RunFolderError
        If there is none, or if it is not whole.
    """
    path = folder / "manifest.json"
    if "agents" not in read_json(path):
        raise RunFolderError(f"{folder} is not a run's folder: it has no manifest.json")
    return read_whole(path, Manifest.from_json, "", "; deal the run again")


Read = TypeVar("Read")


def read_whole(path: Path, from_json: Callable[[Mapping[str, Any]], Read], missing: str, advice: str = "") -> Read:
    """Read a document of a run as the value that ``from_json`` makes of it.

    Parameters
    ----------
    path
        Where it is.
    from_json
        Raises KeyError, TypeError or ValueError for a document that is not whole.
    missing, advice
        What is said where there is none, and after what is said of one that is not whole.

    Raises
    ------
    RunFolderError
        If there is none, or if it is not whole.
    """
    document = read_json(path)
    if not document:
        raise RunFolderError(missing)
    try:
        return from_json(document)
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{path} is not whole: {error}{advice}") from None


def read_json(path: Path) -> Json:
    """Read a JSON object; empty if the file is missing or is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
