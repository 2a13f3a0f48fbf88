"""What tables, pictures and the report show besides the results: ``details.json``, one reader beside one writer.

Computed from local data: not covered by epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from node.folder.dealing_note import EarlierRun, Together
from node.folder.manifest import read_whole
from node.folder.plain import plain
from node.folder.whole import write_document
from node.results.results import Summary
from node.untyped import Json

Numbers = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Quarter:
    """Some agents of much the same number of training records: how many, that range, and means by kind of model."""

    agents: int
    records: tuple[int, int]
    means: Mapping[str, float | None]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        few, many = document["records"]
        means = {kind: mean for kind, mean in document.items() if kind not in {"agents", "records"}}
        return cls(document["agents"], (few, many), means)

    def to_json(self) -> Json:
        """The part of the document that this value is."""
        return {"agents": self.agents, "records": list(self.records), **self.means}


@dataclass(frozen=True, slots=True)
class CurvePoints:
    """At each moment of a run: releases per agent, relative gap (or empty), mean metric, and mean age of models."""

    releases: Numbers
    gap: Numbers
    metric: Numbers
    age: Numbers

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Self | None:
        """Read what `to_json` wrote."""
        return None if document is None else cls(**{name: tuple(values) for name, values in document.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentColumns:
    """One entry for each agent in each column; ``scores`` has a column for each kind of model."""

    name: tuple[str, ...]
    records: tuple[int, ...]
    test_records: tuple[int, ...]
    scores: Mapping[str, Numbers]
    epsilon: Numbers
    releases: tuple[int | None, ...]
    bytes: tuple[int | None, ...]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        own = {field.name: tuple(document[field.name]) for field in fields(cls) if field.name != "scores"}
        return cls(**own, scores={kind: tuple(column) for kind, column in document.items() if kind not in own})

    def to_json(self) -> Json:
        """The part of the document that this value is."""
        document: Json = plain(self)
        scores: Json = document.pop("scores")
        own = ("name", "records", "test_records")
        return {name: document.pop(name) for name in own} | scores | document


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The details of a run's results; ``details.json``."""

    record: str
    """The unit of privacy, such as "one pupil"."""
    private: bool
    simulation: bool
    not_covered_by_epsilon: tuple[str, ...]
    warnings: tuple[str, ...]
    earlier_runs: tuple[EarlierRun, ...]
    together: Together | None
    """What all runs on the same records may have spent; None where no registry adds it up."""
    zero: Summary | None
    best_ridge: Summary | None
    best_ridge_multiple: float | None
    quarters: tuple[Quarter, ...]
    """The agents with the fewest training records first."""
    capture: str | None
    """One line."""
    releases_per_agent: float | None
    bytes_per_agent: float | None
    curve: CurvePoints | None
    agents: AgentColumns

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        document = {"together": None, **document}  # of before there were registries
        given = {own.name: document[own.name] for own in fields(cls)}
        given.update(
            together=None if document["together"] is None else Together(**document["together"]),
            not_covered_by_epsilon=tuple(document["not_covered_by_epsilon"]),
            warnings=tuple(document["warnings"]),
            earlier_runs=tuple(EarlierRun(**run) for run in document["earlier_runs"]),
            zero=Summary.from_json(document["zero"]),
            best_ridge=Summary.from_json(document["best_ridge"]),
            quarters=tuple(Quarter.from_json(quarter) for quarter in document["quarters"]),
            curve=CurvePoints.from_json(document["curve"]),
            agents=AgentColumns.from_json(document["agents"]),
        )
        return cls(**given)

    def to_json(self) -> Json:
        """The document that ``details.json`` holds."""
        document: Json = plain(self)
        return document | {
            "quarters": [quarter.to_json() for quarter in self.quarters],
            "agents": self.agents.to_json(),
        }

    def summary(self, kind: str) -> Summary | None:
        """The summary of a kind of model that only details have: ``zero`` or ``best_ridge``."""
        return {"zero": self.zero, "best_ridge": self.best_ridge}.get(kind)


def write_details(folder: Path, details: Details) -> None:
    """Write ``details.json`` into the run's ``folder``, mode 0600, whole or not at all."""
    write_document(folder / "details.json", details.to_json())


def read_details(folder: Path) -> Details:
    """Read the details of the run in ``folder``.

    Raises
    ------
    RunFolderError
        If there are none, or if they are not whole.
    """
    return read_whole(folder / "details.json", Details.from_json, f"{folder} has no results: details.json is missing")
