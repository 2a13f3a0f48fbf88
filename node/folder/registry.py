"""What runs on the same data have spent: a folder with one file a run, beside the data or where the operator names it.

    key              32 bytes; the digests of records are under it
    lock             held while a run is admitted
    total.json       what all runs together may spend, where an operator stated it
    RUN.json         one run: its agents' records (keyed digests), and what each agent may still spend or has spent

Rules that hold here:
- The whole budget of a run is reserved here, on the disk, before its folder is in its place: nothing was sent yet.
- A reservation is settled down to what the ledgers hold once no agent of the run holds one. A ledger that cannot be
  read, or that is held, keeps its reservation; so does the copy of one in a part, until its agent has finished.
- Folders have mode 0700, files 0600. An entry is never left out: one that cannot be read is an error.
"""

from __future__ import annotations

import base64
import fcntl
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from coordinator_free.privacy.families import from_description
from coordinator_free.privacy.ledger import Charge, LedgerError
from coordinator_free.privacy.mechanism import Mechanism, MechanismError
from coordinator_free.privacy.objective_perturbation import ObjectivePerturbation
from coordinator_free.privacy.windows import Window, within
from node.folder.counted import read_counted
from node.folder.dealing_note import registry_of
from node.folder.ledger import LedgerFile
from node.folder.manifest import RunFolderError, read_manifest
from node.folder.profiles import charged_as
from node.folder.whole import write_whole
from node.places import HANDED_OVER, agent_folder
from node.untyped import Json

Digests = npt.NDArray[np.uint64]
"""Keyed digests of records, one each."""

VERSION = 1
SELECTION = "selection"
"""The kind of an entry, and the name of a cost: settings that were chosen by private scores."""
COVERED = ("run", SELECTION)
"""Kinds of entries whose costs are covered by an epsilon."""
SUFFIX = ".spent"
"""Of a registry's folder: ``people.csv.spent`` beside ``people.csv``."""
_TOTAL = "total.json"
_NO_RUNS = frozenset({_TOTAL})


class RegistryError(ValueError):
    """A registry that cannot be used; one line."""


@dataclass(frozen=True, order=True)
class Cost:
    """What an accountant needs of one release: the family of its noise, scale / sensitivity, and the dimension.

    A selection (`SELECTION`) is (1 / multiplier, ``delta``)-private, and no more is known of it.
    """

    name: str
    multiplier: float
    dimension: int = 0
    delta: float = 0.0

    @classmethod
    def of(cls, mechanism: Mechanism) -> Cost | ObjectivePerturbation:
        """The cost of a mechanism's release, rounded up in its last digits: rounding makes no two costs of one."""
        if isinstance(mechanism, ObjectivePerturbation):
            return mechanism
        multiplier = float(f"{mechanism.multiplier * (1.0 - 1e-11):.12g}")
        return cls(mechanism.name, multiplier, int(getattr(mechanism, "dimension", 0)))


Costs = Counter["Cost | ObjectivePerturbation"]
"""How many releases have which cost."""


@dataclass(frozen=True, eq=False)
class Part:
    """Records of an agent in a run, and what releases from them cost; None where a release has no noise.

    An agent has one part, or one for each ``window`` of its records where they arrive during the run. ``agent`` is its
    number; None: that of the part.
    """

    records: Digests
    costs: Costs | None
    agent: int | None = None
    window: Window | None = None


@dataclass(frozen=True, eq=False)
class Entry:
    """One run in the registry: ``delta`` is the largest of its agents' budgets.

    ``settled``: the costs are what the ledgers hold; before that they are all that the run may spend.
    ``kind`` is "run" or `SELECTION`; or "tune" or "compare", whose figures no budget covers and which send nothing.
    """

    run: str
    name: str
    folder: str
    delta: float
    parts: tuple[Part, ...]
    kind: str = "run"
    settled: bool = False

    def by_agent(self) -> Iterator[tuple[int, Part]]:
        """The parts, each with its agent's number."""
        return ((place if part.agent is None else part.agent, part) for place, part in enumerate(self.parts))

    def to_json(self) -> Json:
        """The document of the entry's file."""
        return {
            "registry": VERSION,
            "kind": self.kind,
            "run": self.run,
            "name": self.name,
            "folder": self.folder,
            "delta": self.delta,
            "settled": self.settled,
            "agents": [
                {
                    "records": base64.b64encode(part.records.astype("<u8").tobytes()).decode(),
                    "costs": None if part.costs is None else [[n, _described(cost)] for cost, n in part.costs.items()],
                    **({} if part.window is None else {"agent": part.agent, "window": list(part.window)}),
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        if document["registry"] != VERSION:
            raise ValueError(f"version {document['registry']}, not {VERSION}")
        parts = []
        for agent in document["agents"]:
            costs = agent["costs"]
            records = np.frombuffer(base64.b64decode(agent["records"]), dtype="<u8").astype(np.uint64)
            known = None if costs is None else Counter({_cost(c): int(n) for n, c in costs})
            window = agent.get("window")
            own = (None, None) if window is None else (int(agent["agent"]), (int(window[0]), int(window[1])))
            parts.append(Part(records, known, *own))
        return cls(
            run=str(document["run"]),
            name=str(document["name"]),
            folder=str(document["folder"]),
            delta=float(document["delta"]),
            parts=tuple(parts),
            kind=str(document["kind"]),
            settled=bool(document["settled"]),
        )


def at_delta(costs: Costs, delta: float) -> tuple[list[Mechanism], float]:
    """What an accountant is given: one entry for each release, and what their own deltas leave of ``delta``.

    An (epsilon, d)-private mechanism loses everything with probability d at most and is epsilon-private otherwise, so
    such d add up with the delta of all that is composed (Kairouz, Oh and Viswanath 2015, Theorem 3.3).
    """
    own = sum(count * cost.delta for cost, count in costs.items() if isinstance(cost, Cost))
    return mechanisms_of(costs), delta - own


def costs_of(mechanisms: Iterable[Mechanism | None]) -> Costs:
    """The costs of releases under a budget; None costs nothing."""
    return Counter(Cost.of(mechanism) for mechanism in mechanisms if mechanism is not None)


def mechanisms_of(costs: Costs) -> list[Mechanism]:
    """A list for an accountant: one for each release."""
    return [cast("Mechanism", cost) for cost, count in costs.items() for _ in range(count)]


class Registry:
    """The registry in one folder, which is made where it is missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def made(cls, folder: Path) -> Registry:
        """The registry at ``folder``, with a key; raises `RegistryError` where it cannot be made."""
        registry = cls(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with registry.held():
                if not (folder / "key").exists():
                    write_whole(folder / "key", os.urandom(32), synced=True)
        except OSError as error:
            raise RegistryError(f"registry {folder} cannot be written: {error.strerror or error}") from None
        return registry

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process admits a run meanwhile."""
        descriptor = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @property
    def key(self) -> bytes:
        """The key of the digests; raises `RegistryError` without one."""
        try:
            return (self.folder / "key").read_bytes()
        except OSError as error:
            raise RegistryError(f"registry {self.folder}: its key cannot be read: {error.strerror}") from None

    def entries(self) -> list[Entry]:
        """All entries, by name of their file; raises `RegistryError` for one that cannot be read."""
        return [self._read(path) for path in sorted(self.folder.glob("*.json")) if path.name not in _NO_RUNS]

    def entry(self, run: str) -> Entry | None:
        """The entry of one run; None if it has none."""
        path = self._path(run)
        return self._read(path) if path.exists() else None

    def write(self, entry: Entry) -> None:
        """Write an entry, or put it in the place of the run's older one; returns when it is on the disk."""
        write_whole(self._path(entry.run), json.dumps(entry.to_json(), allow_nan=False).encode(), synced=True)

    def remove(self, run: str) -> None:
        """Take out the entry of a run whose folder never came to be."""
        self._path(run).unlink(missing_ok=True)

    @property
    def total(self) -> float | None:
        """What all runs together may spend, as it was stated last; None if it never was."""
        path = self.folder / _TOTAL
        try:
            return float(json.loads(path.read_bytes())["epsilon"]) if path.exists() else None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RegistryError(f"{path} cannot be read: {error}; state privacy.total_epsilon again") from None

    def state_total(self, epsilon: float) -> None:
        """Remember what all runs together may spend."""
        write_whole(self.folder / _TOTAL, json.dumps({"epsilon": epsilon}, allow_nan=False).encode(), synced=True)

    def _path(self, run: str) -> Path:
        return self.folder / f"{run}.json"

    def _read(self, path: Path) -> Entry:
        try:
            return Entry.from_json(json.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, MechanismError) as error:
            raise RegistryError(
                f"registry entry {path} cannot be read ({error}), so what that run spent is not known; bring it back "
                "from a copy, or remove it if the run sent nothing"
            ) from None


def settle(folder: Path) -> None:
    """Settle the reservation of the run in ``folder`` to what its ledgers hold, where it has one in a registry.

    Does nothing where the registry is not at hand: the reservation stays.
    """
    noted = registry_of(folder)
    if noted is None:
        return
    registry = Registry(noted)
    with suppress(OSError, RegistryError, RunFolderError):
        run = read_manifest(folder).run.hex()
        with registry.held():
            settle_held(registry, folder, [run])


def settle_held(registry: Registry, folder: Path, runs: Iterable[str]) -> None:
    """Settle ``runs`` that charged the ledgers in ``folder``, while the registry is held."""
    for run in runs:
        entry = registry.entry(run)
        if entry is not None and not entry.settled and entry.kind == "run":
            registry.write(settled(entry, folder))


def settled(entry: Entry, folder: Path, *, every_run: bool = False) -> Entry:
    """The entry with what the ledgers in ``folder`` hold of its run, or of ``every_run``.

    An agent whose ledger cannot be read keeps its reservation.
    """
    run = None if every_run else entry.run
    charged = [
        _charged(folder, agent, run, part) if _has_ended(folder, agent) else None for agent, part in entry.by_agent()
    ]
    parts = tuple(found or part for part, found in zip(entry.parts, charged, strict=True))
    return replace(entry, parts=parts, settled=None not in charged)


def _has_ended(folder: Path, agent: int) -> bool:
    """Whether the ledger in ``folder`` is all that the agent charges: of a run in parts it is a copy."""
    if not (folder / HANDED_OVER).exists():
        return True
    counted = read_counted(folder, agent)
    return counted is not None and counted.code == 0


def _charged(folder: Path, agent: int, run: str | None, part: Part) -> Part | None:
    """The part with what the agent's ledger holds; None if it cannot be read now, or a process holds it."""
    try:
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", None) as ledger:
            fcntl.flock(ledger.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            # A torn first charge names no run: it may be this one's.
            owners = None if run is None else (run, charged_as(run), "")
            charges = [charge for charge in ledger.charges() if owners is None or charge.run in owners]
    except (LedgerError, OSError):
        return None
    if part.costs is None:
        return part if charges else replace(part, costs=Costs())
    return replace(part, costs=costs_of(used_by(charges, part.window)))


def used_by(charges: Iterable[Charge], window: Window | None) -> Iterator[Mechanism | None]:
    """The mechanism of each charged release that used records of ``window``; None: of each."""
    return (
        charge.mechanism
        for charge in charges
        for index in range(charge.first, charge.last + 1)
        if window is None or within(window, index)
    )


def _described(cost: Cost | ObjectivePerturbation) -> Json:
    if isinstance(cost, Cost):
        own = {} if cost.delta == 0.0 else {"delta": cost.delta}
        return {"name": cost.name, "multiplier": cost.multiplier, "dimension": cost.dimension, **own}
    return cost.describe()


def _cost(described: Mapping[str, Any]) -> Cost | ObjectivePerturbation:
    if "multiplier" in described:
        multiplier = float(described["multiplier"])
        if not 0.0 < multiplier < math.inf:
            raise ValueError(f"multiplier {multiplier}")
        delta = float(described.get("delta", 0.0))
        if not 0.0 <= delta < 1.0:
            raise ValueError(f"delta {delta}")
        return Cost(str(described["name"]), multiplier, int(described["dimension"]), delta)
    found = from_description(described)
    if not isinstance(found, ObjectivePerturbation):
        raise ValueError(f"mechanism {described.get('name')!r}")
    return found
