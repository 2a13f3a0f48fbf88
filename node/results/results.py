"""The results of a run: ``results.json``, one reader beside one writer.

Rules that hold here:
- Keys are fixed, for scripts; ``node/schemas/results.schema.json`` describes them.
- What cannot be known is None, and null in the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from node.faults.log import Fault
from node.folder.endings import Failure
from node.folder.manifest import Metric, read_whole
from node.folder.plain import plain
from node.folder.spending import SpentEpsilon
from node.folder.whole import write_document
from node.untyped import Json

if TYPE_CHECKING:
    from coordinator_free.privacy.observers import Distance

VERSION = 2
"""Of ``results.json``; documents without one are older. Version 1 named the process of a failure by another key."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over the agents that have held-out rows; ``smallest_quarter`` is the mean of those with fewest rows."""

    mean: float
    worst: float
    smallest_quarter: float | None

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_json` wrote."""
        return None if document is None else cls(**document)


@dataclass(frozen=True, slots=True)
class Captured:
    """What the traffic logs hold: distinct releases, repeats, and ranges of missing indices by agent."""

    complete: bool
    releases: int
    missing: Mapping[str, Sequence[Sequence[int | None]]]
    repeats: int


@dataclass(frozen=True, slots=True)
class Wire:
    """Bytes that all agents sent, and frames that they refused, by reason."""

    bytes: int
    dropped_by_reason: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds until every agent was ready, and until the run's end."""

    ready_s: float | None
    wall_s: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Proportional memory of an agent's process, in MB."""

    pss_mb_per_agent: float | None


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """What network conditions did to the releases of one agent on their way to another."""

    sender: int
    receiver: int
    counts: Mapping[str, int]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        counts = {name: count for name, count in document.items() if name not in {"from", "to"}}
        return cls(document["from"], document["to"], counts)

    def to_json(self) -> Json:
        """The part of the document that this value is."""
        return {"from": self.sender, "to": self.receiver, **self.counts}


@dataclass(frozen=True, slots=True)
class NetworkCounts:
    """What network conditions did on each link, and the faults that happened, in order."""

    links: tuple[LinkCounts, ...] = ()
    faults: tuple[Fault, ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_json` wrote."""
        if document is None:
            return None
        return cls(tuple(LinkCounts.from_json(link) for link in document["links"]), tuple(document["faults"]))

    def to_json(self) -> Json:
        """The part of the document that this value is."""
        return {"links": [link.to_json() for link in self.links], "faults": plain(self.faults)}


@dataclass(frozen=True, slots=True)
class ModelAges:
    """Ages of the neighbours' models that releases were computed from, in releases of their senders."""

    mean: float
    median: int
    p95: int
    max: int
    ages: int
    """How many models were used."""
    histogram: tuple[tuple[int, int], ...]
    """(age, count) rows."""
    agents: tuple[float | None, ...]
    """Each agent's mean."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_json` wrote."""
        if document is None:
            return None
        rows = tuple((age, count) for age, count in document["histogram"])
        return cls(**{**document, "histogram": rows, "agents": tuple(document["agents"])})


@dataclass(frozen=True, slots=True)
class SingleObservers:
    """Epsilon towards single agents, by distance, and what it rests on: see `coordinator_free.privacy.observers`."""

    delta: float | None
    assumes: tuple[str, ...]
    observers: tuple[int, ...]
    """The agents that were looked at as observers."""
    distances: tuple[Distance, ...]

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_json` wrote."""
        if document is None:
            return None
        from coordinator_free.privacy.observers import Distance  # with scipy, which few readers need

        distances = tuple(Distance(**row) for row in document["distances"])
        return cls(document["delta"], tuple(document["assumes"]), tuple(document["observers"]), distances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a run bought its agents; ``results.json``.

    ``alone``, ``together``, ``released_average``, ``finish`` and ``pooled`` are summaries by kind of model. Figures on
    held-out rows are computed from local data: not covered by epsilon.
    """

    version: int = VERSION
    algorithm: str
    world: str
    agents: int
    metric: Metric
    alone: Summary | None
    together: Summary | None
    """Each agent's own last model."""
    released_average: Summary | None
    finish: Summary | None
    pooled: Summary | None
    optimum_gap: float | None
    """0 at the objective's optimum, 1 at the start."""
    epsilon: SpentEpsilon
    observers: Mapping[str, float | None] | None = None
    """Epsilon of masked sums by observer (`epsilons_of_a_sum`), None where it learns all; None for other runs."""
    other_observers: SingleObservers | None = None
    """Where links have keys: not the promise."""
    capture: Captured | None
    wire: Wire
    time: Duration
    memory: Memory
    failures: tuple[Failure, ...]
    network: NetworkCounts | None = None
    staleness: ModelAges | None = None
    public_assumptions: tuple[str, ...]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else.

        A document of before documents had versions has version 0.
        """
        capture = document["capture"]
        return cls(
            version=document.get("version", 0),
            **{name: document[name] for name in ("algorithm", "world", "agents", "optimum_gap")},
            metric=Metric(**document["metric"]),
            alone=Summary.from_json(document["alone"]),
            together=Summary.from_json(document["together"]),
            released_average=Summary.from_json(document["released_average"]),
            finish=Summary.from_json(document["finish"]),
            pooled=Summary.from_json(document["pooled"]),
            epsilon=SpentEpsilon(**document["epsilon"]),
            observers=document.get("observers"),
            other_observers=SingleObservers.from_json(document.get("other_observers")),
            capture=None if capture is None else Captured(**capture),
            wire=Wire(**document["wire"]),
            time=Duration(**document["time"]),
            memory=Memory(**document["memory"]),
            failures=tuple(Failure.from_json(failure) for failure in document["failures"]),
            network=NetworkCounts.from_json(document.get("network")),
            staleness=ModelAges.from_json(document.get("staleness")),
            public_assumptions=tuple(document["public_assumptions"]),
        )

    def to_json(self) -> Json:
        """The document that ``results.json`` holds, in the present version."""
        document: Json = plain(self)
        network = None if self.network is None else self.network.to_json()
        return document | {"version": VERSION, "network": network}

    def summary(self, kind: str) -> Summary | None:
        """The summary of a kind of model; None where no agent has a score of it."""
        return {name: getattr(self, name) for name in KINDS}.get(kind)


KINDS = ("alone", "together", "released_average", "finish", "pooled")
"""Kinds of models that results summarise."""


def write_results(folder: Path, results: Results) -> None:
    """Write ``results.json`` into the run's ``folder``, mode 0600, whole or not at all."""
    write_document(folder / "results.json", results.to_json())


def read_results(folder: Path) -> Results:
    """Read the results of the run in ``folder``.

    Raises
    ------
    RunFolderError
        If there are none, or if they are not whole.
    """
    missing = f"{folder} has no results: results.json is missing or is not JSON"
    return read_whole(folder / "results.json", Results.from_json, missing)
