"""The sections of a configuration and their settings, each with its type and its default."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from coordinator_free.privacy.budgets import check_epsilon
from coordinator_free.privacy.families import NORMS
from node.configuration.conditions import ConditionsSection
from node.configuration.data import DataSection
from node.configuration.events import EventSection
from node.configuration.units import PositiveSeconds, Seconds
from node.untyped import Tree

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A section of the file: frozen, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _named(value: str, known: Sequence[str], own: str) -> str:
    if value not in known and ":" not in value:
        nearest = difflib.get_close_matches(value, known, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(f"should be one of {', '.join(known)}, or {own}{hint}")
    return value


class RunSection(Section):
    """``[run]``: name, seed, and whether the run is a simulation."""

    name: str = ""
    """Default: the configuration file's name without its suffix."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Seeds splits, graph, clocks and network conditions; never the noise, except in a simulation."""
    simulation: bool = False
    """Draw the noise from ``seed``: repeatable, and a holder of the seed can compute it."""

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if "/" in name or "\0" in name or name in {".", ".."}:
            raise ValueError("should be a plain name, without a slash")
        return name


TOPOLOGIES = (
    "path",
    "ring",
    "torus",
    "complete",
    "star",
    "random-regular",
    "erdos-renyi",
    "watts-strogatz",
    "barabasi-albert",
    "random-geometric",
    "angle-similarity",
    "nearest-neighbours",
    "private-similarity",
    "file",
)


class TopologySection(Section):
    """``[topology]``: the graph and its parameters."""

    kind: str
    """A known name, or ``package.module:function`` for one's own."""
    path: str | None = None
    """The graph's file, for ``kind = "file"``; the format follows from its suffix."""
    degree: Count | None = None
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    radius: Positive | None = None
    rows: Count | None = None
    columns: Count | None = None
    gamma: Positive | None = None
    threshold: NonNegative | None = None
    neighbours: Count | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Part of each agent's budget for the profile from which ``kind = "private-similarity"`` makes the graph."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Default: ``run.seed``."""

    @field_validator("kind")
    @classmethod
    def _kind(cls, value: str) -> str:
        return _named(value, TOPOLOGIES, "package.module:function")


class LearningSection(Section):
    """What all algorithms share. `node.configuration.learning` adds the settings of the algorithm that is named."""

    algorithm: str = "coordinate-descent"
    """A known name, or ``package.module:Class`` for one of the user's own."""
    loss: str = "logistic"
    """A known name, or ``package.module:NAME`` for one of the user's own."""
    regularisation: NonNegative = 1.0
    """lambda_i = regularisation / m_i."""
    smoothness: str | float | None = None
    """Of the mean loss without its regulariser, for which 2 lambda_i is always added: "data" (its eigenvalue; only
    without privacy), "bound" (from the public bound on the rows), "feature-law", or a public number. Default: "data"
    without privacy, else "bound"."""
    finish: bool = False
    """A last minimisation that is never released and not covered by epsilon."""

    @field_validator("smoothness")
    @classmethod
    def _smoothness(cls, value: str | float | None) -> str | float | None:
        if isinstance(value, str) and value not in {"data", "bound", "feature-law"}:
            raise ValueError('should be "data", "bound", "feature-law" or a positive number')
        if isinstance(value, float) and not value > 0:
            raise ValueError('should be "data", "bound", "feature-law" or a positive number')
        return value

    def get(self, name: str) -> Any:
        """A setting of the algorithm's own; None where it is not given, or the algorithm has none of that name."""
        return self.given().get(name)

    def given(self) -> Tree:
        """All settings that are given or have a default, those of ``parameters`` among them."""
        found: Tree = self.model_dump(exclude_none=True)
        inner = found.pop("parameters", {})
        return {**found, **inner}


class ClockSection(Section):
    """``[clock]``: how often agents wake, and how many updates they make."""

    rate: Positive = 10.0
    """Wakes per second of each agent, on average."""
    updates: Count = 100
    """T_i: updates (asynchronous algorithms) or rounds."""
    drift: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Each agent's clock is fast or slow by a part of at most this, drawn from the seed."""
    skew: Seconds = 0.0
    """Each agent's own time stamps are off by at most this, drawn from the seed."""


class PrivacySection(Section):
    """``[privacy]``: mechanism, budget, and how the budget is shared."""

    mechanism: str = "none"
    """A known name, or ``package.module:Class`` for one's own."""
    epsilon: float | None = None
    """Total budget of each agent, over all its releases."""
    delta: float | None = None
    total_epsilon: Positive | None = None
    """What all runs together may spend on a record of these data; the registry of the data remembers it."""
    clip: Positive | None = None
    """Bound on each record's gradient, in the norm of the mechanism."""
    allocation: Literal["uniform", "increasing", "as_published"] = "uniform"
    r: str | float | None = None
    """Rate of an allocation that is not uniform, in (0, 1]; "theory": what the convergence rate of the run says."""
    budgets: str | None = None
    """File with the columns agent, epsilon and maybe delta: budgets of the agents' own. Epsilon 0: it only listens."""
    levels: list[list[float]] | None = None
    """[share of the agents, epsilon] pairs, dealt at random: another way to budgets of the agents' own."""
    uses: Annotated[int, Field(ge=1)] | None = None
    """Releases among which the budget of each record is divided, where records arrive during the run: those from its
    arrival on. Then it is left out. Default: ``clock.updates``."""
    observer: Literal["releases", "sum", "as_published"] = "releases"
    """The observer that epsilon is about: of all releases, or of masked sums alone; or as the paper has it."""
    colluders: Annotated[int, Field(ge=0)] = 1
    """Agents of a masked sum that may pool what they know, and lie: epsilon holds against them too."""
    dropouts: Annotated[int, Field(ge=0)] = 0
    """Agents that may be absent from a masked sum: so the noise of the others is enough, and masks are repaired."""

    @field_validator("mechanism")
    @classmethod
    def _mechanism(cls, value: str) -> str:
        return _named(value, ("none", *NORMS), "package.module:Class")

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: float | None) -> float | None:
        if value is not None:
            check_epsilon(value)
        return value

    @field_validator("r")
    @classmethod
    def _rate(cls, value: str | float | None) -> str | float | None:
        if isinstance(value, float) and not 0 < value <= 1:
            raise ValueError('should be "theory" or a number above 0 and up to 1')
        if isinstance(value, str) and value != "theory":
            raise ValueError('should be "theory" or a number above 0 and up to 1')
        return value

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: float | None) -> float | None:
        if value is not None and not 0 < value < 1:
            raise ValueError("should be greater than 0 and less than 1")
        return value


class EavesdropperSection(Section):
    """``[eavesdropper]``: whether the traffic is logged."""

    enabled: bool = True


class AuditSection(Section):
    """``[audit]``: what is planted in a run so that it can be audited from outside."""

    canaries: Annotated[int, Field(ge=0)] = 0
    """Records of a public value, one of two as a coin says, that are dealt to the agents in turn."""


class NetworkSection(ConditionsSection):
    """``[network]``: transport, patience, keys, and the conditions of links."""

    transport: Literal["ipc", "tcp"] = "ipc"
    repeat: PositiveSeconds = 0.5
    """Seconds after which a waiting agent repeats its last releases."""
    deadline: PositiveSeconds = 60.0
    """Seconds in which all must be ready."""
    linger: Seconds = 10.0
    """Seconds that a finished agent waits for its neighbours' ``done``."""
    silent: PositiveSeconds = 60.0
    """Seconds without a word of a neighbour in a synchronous round, after which ``on_silent`` decides."""
    on_silent: Literal["wait", "stop", "carry-on"] = "wait"
    folder: str | None = None
    """Where ipc sockets lie. Default: a fresh temporary folder."""
    host: str = "127.0.0.1"
    encryption: bool | None = None
    """Keys on every tcp socket. Default: true where tcp leaves this machine, and for a run that is dealt in parts."""


class Configuration(Section):
    """A whole configuration."""

    run: RunSection = RunSection()
    data: DataSection
    topology: TopologySection
    learning: LearningSection = LearningSection()
    clock: ClockSection = ClockSection()
    privacy: PrivacySection = PrivacySection()
    eavesdropper: EavesdropperSection = EavesdropperSection()
    audit: AuditSection = AuditSection()
    network: NetworkSection = NetworkSection()
    event: list[EventSection] = Field(default_factory=list)

    @property
    def private(self) -> bool:
        """Whether releases are noised."""
        return self.privacy.mechanism != "none"

    @property
    def encrypted(self) -> bool:
        """Whether only holders of a key of the run can receive or send."""
        network = self.network
        if network.encryption is not None:
            return network.encryption
        return network.transport == "tcp" and not _on_this_machine(network.host)


def _on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
