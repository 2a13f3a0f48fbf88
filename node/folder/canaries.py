"""The canaries of a run: ``canaries.json``, which its traffic log carries, and ``coins.json``, for after the run.

Rules that hold here:
- ``canaries.json`` is public: where canaries lie, their two values, and the public numbers of every agent, so that an
  outsider needs no shard. No digest of a shard is in it: that would confirm a guess of a record.
- It names the digest of the coins and of 32 random bytes. So the coins cannot be chosen after the run, and the
  digest does not give them away.
- ``coins.json`` is mode 0600. The owner of the run hands it out when the run is over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from coordinator_free.attacks.canaries import Canary
from node.folder.manifest import RunFolderError, read_json
from node.folder.plain import plain
from node.folder.public import PublicNumbers
from node.folder.whole import write_new, write_whole
from node.places import CANARIES
from node.untyped import Json

COINS: Final = "coins.json"
VERSION: Final = 1
"""Of both documents."""
FEATURE: Final = "canary "
"""The names of the canaries' features begin with it."""


@dataclass(frozen=True)
class Coins:
    """The coins of a run's canaries, in their order, and 32 random bytes that no digest of them gives away."""

    run: bytes
    nonce: bytes
    sides: tuple[bool, ...]

    @property
    def commitment(self) -> str:
        """SHA-256 (hex) that can be public before the coins are."""
        return hashlib.sha256(b"sottovoce coins 1" + self.run + self.nonce + bytes(self.sides)).hexdigest()

    def to_json(self) -> Json:
        """The document that ``coins.json`` holds."""
        return {"version": VERSION, "run": self.run.hex(), "nonce": self.nonce.hex(), "coins": list(self.sides)}


@dataclass(frozen=True)
class Planted:
    """The canaries of a run, the digest of their coins, the public numbers of its agents, and its delta."""

    canaries: tuple[Canary, ...]
    commitment: str
    agents: tuple[PublicNumbers, ...]
    delta: float

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Planted:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        if document["version"] != VERSION:
            raise ValueError(f"version = {document['version']!r}, this program reads version {VERSION}")
        return Planted(
            tuple(Canary(**one) for one in document["canaries"]),
            document["commitment"],
            tuple(PublicNumbers.from_json(_joined(document["shared"], one)) for one in document["agents"]),
            float(document["delta"]),
        )

    def to_json(self) -> Json:
        """The document that ``canaries.json`` holds."""
        numbers = [replace(one, shard_digest="", test_records=0).to_json() for one in self.agents]
        learning, own = _parted([one.pop("learning") for one in numbers])
        shared, rest = _parted(numbers)
        return {
            "version": VERSION,
            "commitment": self.commitment,
            "delta": self.delta,
            "canaries": plain(self.canaries),
            "shared": {**shared, "learning": learning},
            "agents": [{**one, "learning": more} for one, more in zip(rest, own, strict=True)],
        }


def _parted(tables: Sequence[Json]) -> tuple[Json, list[Json]]:
    """What all tables have in common, and the rest of each: the graph may be in every agent's numbers."""
    shared = {key: held for key, held in tables[0].items() if all(key in one and one[key] == held for one in tables)}
    return shared, [{key: held for key, held in one.items() if key not in shared} for one in tables]


def _joined(shared: Json, own: Json) -> Json:
    return {**shared, **own, "learning": {**shared["learning"], **own["learning"]}}


def write_canaries(folder: Path, planted: Planted, coins: Coins) -> None:
    """Write both documents of a run that is being dealt."""
    write_whole(folder / CANARIES, json.dumps(planted.to_json(), allow_nan=False).encode(), 0o644)
    write_new(folder / COINS, (json.dumps(coins.to_json()) + "\n").encode())


def read_coins(path: Path) -> Coins:
    """Read ``coins.json``.

    Raises
    ------
    RunFolderError
        If the file is missing, or is no such document.
    """
    document = read_json(path)
    try:
        if document["version"] != VERSION:
            raise RunFolderError(f"coins {path} have version {document['version']!r}; accepted is version {VERSION}")
        sides = document["coins"]
        if not isinstance(sides, list) or any(type(side) is not bool for side in sides):
            raise TypeError
        return Coins(bytes.fromhex(document["run"]), bytes.fromhex(document["nonce"]), tuple(sides))
    except (KeyError, TypeError):
        raise RunFolderError(
            f"coins {path}: no coins can be read from there; give the {COINS} of a run with audit.canaries"
        ) from None


def without_canaries(features: Sequence[str]) -> tuple[str, ...]:
    """A model's features without those of canaries, which are the last."""
    return tuple(name for name in features if not name.startswith(FEATURE))
