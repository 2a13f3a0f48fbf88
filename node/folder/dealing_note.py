"""What dealing noted of a run beside its manifest: ``dealt.json``, mode 0600, one reader beside one writer.

Rules that hold here:
- It holds the digest of all rows, which would confirm a guess of a missing record: it is never sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from node.folder.manifest import read_json
from node.folder.plain import plain
from node.folder.whole import write_new
from node.untyped import Json

_NAME = "dealt.json"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run on some of the same records, and what it spent; no epsilons where its releases had no noise."""

    run: str
    """The name of its folder."""
    epsilon_max: float | None
    epsilon_mean: float | None
    delta: float | None
    reserved: bool = False
    """Whether it is its whole budget, because its ledgers were not read since it was dealt."""


@dataclass(frozen=True, slots=True)
class Together:
    """What all runs, the new one included, may spend on the record that is used most."""

    epsilon: float | None
    """None: releases without noise are among them."""
    delta: float
    records: int
    """How many records have this total."""
    of: int
    """How many records the new run uses."""
    runs: int
    figures: int
    """Times that `tune` or `compare` showed figures of these records, which no budget covers."""
    unknown: int
    """Records of earlier runs that the data do not hold any more."""
    limit: float | None
    registry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DealingNote:
    """What was found in the registry of the data. Without a registry only the digest is known."""

    data_digest: str
    registry: str | None = None
    """Its folder."""
    together: Together | None = None
    """What all runs on the same records may spend."""
    earlier_runs: tuple[EarlierRun, ...] = ()

    def to_json(self) -> Json:
        """The document that ``dealt.json`` holds; without the registry and the total where there is no registry."""
        document: Json = {"data_digest": self.data_digest, "earlier_runs": plain(self.earlier_runs)}
        if self.registry is None:
            return document
        return document | {"registry": self.registry, "together": plain(self.together)}


def write_dealing_note(folder: Path, note: DealingNote) -> None:
    """Write ``dealt.json`` into the ``folder`` of a run that is being dealt."""
    write_new(folder / _NAME, json.dumps(note.to_json(), indent=1, allow_nan=False).encode())


def data_digest_of(folder: Path) -> str | None:
    """The digest of all rows that were dealt to the run in ``folder``; None where it was not noted."""
    found = read_json(folder / _NAME).get("data_digest")
    return found if isinstance(found, str) else None


def registry_of(folder: Path) -> Path | None:
    """The folder of the registry in which the run in ``folder`` has its place; None where it has none."""
    found = read_json(folder / _NAME).get("registry")
    return Path(found) if found else None


def read_dealing_note(folder: Path) -> DealingNote:
    """Read what was noted of the run in ``folder``; empty where nothing was."""
    document = read_json(folder / _NAME)
    together = document.get("together")
    return DealingNote(
        data_digest=document.get("data_digest", ""),
        registry=document.get("registry"),
        together=None if together is None else Together(**together),
        earlier_runs=tuple(EarlierRun(**run) for run in document.get("earlier_runs", ())),
    )
