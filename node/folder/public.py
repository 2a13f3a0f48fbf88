"""The public numbers of one agent: all that its process is told besides its rows and its secret.

Rules that hold here:
- Nothing in it depends on the values of the data, except where a run without privacy says so.
- Defaults stand here once. What protects the data (mechanism, noise, clipping norm, budget) has none: a shard that
  lacks it is refused.
- It imports the standard library alone: every agent is forked from a process that imported it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from node.untyped import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipNumbers:
    """What an agent's process has to know of agents that join and leave."""

    joins: bool = False
    """Whether this agent joins a run that has begun."""
    joining: tuple[int, ...] = ()
    """Its neighbours that join."""
    leaving: tuple[int, ...] = ()
    """Its neighbours that leave."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MembershipNumbers:
        """Read what `to_json` wrote."""
        return cls(
            joins=bool(document["joins"]), joining=tuple(document["joining"]), leaving=tuple(document["leaving"])
        )

    def to_json(self) -> Json:
        """The part of the document that this value is."""
        return {"joins": self.joins, "joining": list(self.joining), "leaving": list(self.leaving)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkNumbers:
    """The ``[network]`` settings of a run, as an agent's process needs them. Times are in seconds."""

    transport: str
    host: str
    repeat: float
    deadline: float
    linger: float
    silent: float
    on_silent: str
    encryption: bool
    eavesdropper: bool
    """Whether agents wait for an eavesdropper before the first release."""
    conditions: Mapping[str, Any]
    """What links do to frames, for `coordinator_free.faults.conditions`: its keys stand beside the others in the
    document."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> NetworkNumbers:
        """Read what `to_json` wrote."""
        own = {name: document[name] for name in _NETWORK}
        return cls(**own, conditions={key: value for key, value in document.items() if key not in _NETWORK})

    def to_json(self) -> Json:
        """The part of the document that this value is."""
        return {**self.conditions, **{name: getattr(self, name) for name in _NETWORK}}


_NETWORK = tuple(own.name for own in fields(NetworkNumbers) if own.name != "conditions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicNumbers:
    """The public numbers of one agent of one run.

    ``run``, ``digest`` and ``shard_digest`` are empty where nothing has been dealt yet.
    """

    agent: int
    agents: int
    """Of the whole run."""
    neighbours: tuple[int, ...]
    """In ascending order."""
    weights: tuple[float, ...]
    """W_ij, in the order of ``neighbours``."""
    dimension: int
    """p, of a model."""
    algorithm: str
    loss: str
    regularisation: float
    """lambda_i."""
    learning: Mapping[str, Any]
    """The algorithm's own parameters."""
    updates: int
    releases: int
    """How many indices it has."""
    release_dimension: int
    """Length of a release's vector."""
    mechanism: str
    multipliers: tuple[float, ...]
    """Noise scales, one a charged release, in units of its sensitivity; empty without a mechanism."""
    clip: float | None
    """The clipping norm in force: no larger than what the loss can do with rows within the public bound."""
    budget: tuple[float, float] | None
    """(epsilon, delta), epsilon 0 if the agent only listens; None without a mechanism."""
    network: NetworkNumbers
    membership: MembershipNumbers = field(default_factory=MembershipNumbers)
    row_bound: float | None = None
    """Public bound of every row's norm, in the norm of the mechanism; sensitivities follow public models where it is
    given. None: there is none, or an older run, whose sensitivities hold for all models."""
    name: str = ""
    confidence: float = 1.0
    """c_i."""
    records: int = 0
    test_records: int = 0
    rate: float = 1.0
    """Wakes a second by its clock."""
    skew: float = 0.0
    """Seconds that its clock is ahead."""
    seed: int = 0
    record: str = ""
    """The unit of privacy, such as "one pupil"."""
    metric: str = ""
    simulation: bool = False
    run: bytes = b""
    """The run's id, 16 bytes."""
    digest: bytes = b""
    """Of the configuration that all agents share, 32 bytes."""
    shard_digest: str = ""
    """Of the agent's own rows, in hexadecimal digits."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PublicNumbers:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        known = {own.name: document[own.name] for own in fields(cls) if own.name in document}
        budget = document["budget"]
        known.update(
            neighbours=tuple(document["neighbours"]),
            weights=tuple(document["weights"]),
            multipliers=tuple(document["multipliers"]),
            budget=None if budget is None else (budget["epsilon"], budget["delta"]),
            network=NetworkNumbers.from_json(document["network"]),
            run=bytes.fromhex(document["run"]),
            digest=bytes.fromhex(document["digest"]),
        )
        if "membership" in document:
            known["membership"] = MembershipNumbers.from_json(document["membership"])
        return cls(**known)

    def to_json(self) -> Json:
        """The document that a shard holds."""
        document = {own.name: getattr(self, own.name) for own in fields(self)}
        return document | {
            "neighbours": list(self.neighbours),
            "weights": list(self.weights),
            "learning": dict(self.learning),
            "multipliers": list(self.multipliers),
            "budget": None if self.budget is None else {"epsilon": self.budget[0], "delta": self.budget[1]},
            "network": self.network.to_json(),
            "membership": self.membership.to_json(),
            "run": self.run.hex(),
            "digest": self.digest.hex(),
        }
