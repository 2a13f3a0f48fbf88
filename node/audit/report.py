"""The report of an audit: frozen values, one writer and one reader.

`Audit.to_json` is what ``sottovoce audit --json`` prints, `Audit.details` what ``audit.json`` in a run's folder holds,
`Audit.from_details` reads that again. Both documents follow ``node/schemas/audit.schema.json``.

Rules that hold here:
- A finding is a breach; an audit without findings is ok. Anything else worth knowing is a note.
- Numbers that JSON cannot hold (an infinite epsilon) are null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Generic, TypeVar

from coordinator_free.attacks.attacker import Guesses
from coordinator_free.attacks.membership import Membership
from coordinator_free.attacks.noise_tests import NoiseTest
from coordinator_free.attacks.reconstruction import Reconstruction
from coordinator_free.attacks.side_channels import Correlation
from coordinator_free.attacks.trade_off import TradeOff
from node.folder.plain import plain
from node.untyped import Json

VERSION: Final = 2
"""Of the documents."""

Value = TypeVar("Value", covariant=True)


class AuditError(ValueError):
    """An option that the run does not allow; one line."""


@dataclass(frozen=True)
class Part(Generic[Value]):
    """What one part of an audit came to, its findings, and its notes."""

    value: Value
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaptureReport:
    """Whether all that was released was recorded.

    ``missing``: ranges of indices by agent; a last index of None is not known.
    """

    complete: bool
    releases: int
    missing: Mapping[str, list[list[int | None]]]
    repeats: int


@dataclass(frozen=True)
class LedgerReport:
    """How many indices were ``charged``, how many releases were ``recorded``, and how many findings there are."""

    ok: bool
    charged: int
    recorded: int
    findings: int


@dataclass(frozen=True)
class NoiseReport:
    """The tests of the noise; ``p_value`` holds for all of them together. ``not_tested``: agents."""

    ok: bool
    p_value: float
    releases: int
    tests: tuple[NoiseTest, ...]
    not_tested: tuple[int, ...]


@dataclass(frozen=True)
class GroupEpsilon:
    """``epsilon`` accounted for datasets that differ in ``records`` records of one agent; None where it is infinite."""

    records: int
    epsilon: float | None


@dataclass(frozen=True)
class AgentAudit:
    """One agent: epsilon budgeted, accounted (at most this) and attacked (at least this).

    ``budget`` and ``accounted`` are None where nothing is private, ``attacked`` where the agent was not attacked; it
    holds whatever the law of the noise is. ``attacked_if_charged`` is sharper and holds if the noise has the law that
    was charged; None where the attack has no exact likelihood ratios.
    ``attacked_without_penalties``: the same as ``attacked`` for an observer that knows no penalty of the agent; None
    where there is none to hide.
    ``record``: the record that was replaced. ``attained``: the share of the charged sensitivity that its worst
    replacement uses. ``attainable``: the largest share that a record of any value uses in one release. ``ceiling``:
    what a perfect attack could have shown with as many trials. ``why``: what keeps attacked below accounted, or why
    there is none. ``accounted_record``: the accounted epsilon of ``record``, where records arrive during the run and
    each has its own; ``accounted`` is that of the record that is used most. ``groups``: the accounted epsilon of groups
    of records, for an agent that was attacked and has one.
    """

    agent: int
    budget: float | None
    accounted: float | None
    attacked: float | None
    trials: int
    confidence: float
    attacked_if_charged: float | None = None
    accountant: str | None = None
    record: int | None = None
    attained: float | None = None
    attainable: float | None = None
    ceiling: float | None = None
    why: str = ""
    attacked_without_penalties: float | None = None
    groups: tuple[GroupEpsilon, ...] = ()
    accounted_record: float | None = None
    trade_off: TradeOff | None = None
    """Of the attacks on all agents with this mechanism and this epsilon; at the first of them."""

    @property
    def bound(self) -> float | None:
        """What ``attacked`` must not exceed."""
        return self.accounted if self.accounted_record is None else self.accounted_record


@dataclass(frozen=True)
class ReconstructionReport:
    """How close one record of each agent came to being rebuilt, and the means over agents; see `Reconstruction`."""

    record: int
    agents: tuple[tuple[int, Reconstruction], ...]
    average: float
    principal: float
    chance: float


@dataclass(frozen=True)
class ObserverReport:
    """An audit as one agent: ``hops`` to each agent, and each one's ``epsilons`` towards it, found ``by`` what.

    ``epsilons`` is empty where there is no figure (``why``); None for the observer itself. ``not_possible``: the
    parts of an audit that need releases which the agent does not receive.
    """

    agent: int
    hops: tuple[int, ...]
    by: str
    epsilons: tuple[float | None, ...]
    why: str
    not_possible: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """All parts of an audit. A part that was not done is None, or empty."""

    name: str
    record: str
    delta: float
    capture: CaptureReport
    ledger: LedgerReport
    noise: NoiseReport
    agents: tuple[AgentAudit, ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    reconstruction: ReconstructionReport | None
    membership: Membership | None
    side_channels: tuple[Correlation, ...]
    masked_sums: Guesses | None
    observer: ObserverReport | None = None
    """For an audit as one agent; its figures are no claim about the promise."""

    @property
    def ok(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    def to_json(self) -> Json:
        """What ``sottovoce audit --json`` prints."""
        return {
            "version": VERSION,
            "capture": asdict(self.capture),
            "ledger": asdict(self.ledger),
            "noise": {
                **asdict(self.noise),
                "tests": [asdict(test) for test in self.noise.tests],
                "not_tested": list(self.noise.not_tested),
            },
            "agents": [
                {
                    "agent": a.agent,
                    "budget": a.budget,
                    "accounted": _finite(a.accounted),
                    "groups": [asdict(group) for group in a.groups],
                    "attacked": _finite(a.attacked),
                    "attacked_if_charged": _finite(a.attacked_if_charged),
                    "trials": a.trials,
                    "confidence": a.confidence,
                }
                for a in self.agents
            ],
            "findings": list(self.findings),
            "ok": self.ok,
        } | ({} if self.observer is None else {"observer": asdict(self.observer)})

    def details(self) -> Json:
        """All of it, for ``audit.json`` in the run's folder."""
        rebuilt = self.reconstruction
        return {
            **self.to_json(),
            "name": self.name,
            "record": self.record,
            "delta": self.delta,
            "notes": list(self.notes),
            "attacks": [
                {
                    "agent": a.agent,
                    "accountant": a.accountant,
                    "record": a.record,
                    "attained": a.attained,
                    "attainable": a.attainable,
                    "ceiling": _finite(a.ceiling),
                    "why": a.why,
                    "attacked_without_penalties": _finite(a.attacked_without_penalties),
                    "accounted_record": _finite(a.accounted_record),
                    "trade_off": None if a.trade_off is None else plain(a.trade_off),
                }
                for a in self.agents
            ],
            "reconstruction": None
            if rebuilt is None
            else {
                "record": rebuilt.record,
                "agents": [{"agent": agent, **asdict(found)} for agent, found in rebuilt.agents],
                "average": rebuilt.average,
                "principal": rebuilt.principal,
                "chance": rebuilt.chance,
            },
            "membership": None if self.membership is None else asdict(self.membership),
            "side_channels": [asdict(correlation) for correlation in self.side_channels],
            "masked_sums": None if self.masked_sums is None else asdict(self.masked_sums),
        }

    @staticmethod
    def from_details(document: Mapping[str, Any]) -> Audit:
        """The audit that `details` wrote.

        Raises
        ------
        AuditError
            For a document of another version, or one that lacks a part.
        """
        if document.get("version") not in {1, VERSION}:
            raise AuditError(
                f"version = {document.get('version')!r}: this program reads audits of versions 1 and {VERSION}"
            )
        try:
            return _read(document)
        except (KeyError, TypeError) as error:
            raise AuditError(f"not an audit's document: {error}") from None


def _read(document: Mapping[str, Any]) -> Audit:
    noise, rebuilt, members = document["noise"], document["reconstruction"], document["membership"]
    masked = document["masked_sums"]
    return Audit(
        name=document["name"],
        record=document["record"],
        delta=document["delta"],
        capture=CaptureReport(**document["capture"]),
        ledger=_ledger(document["ledger"]),
        noise=NoiseReport(
            noise["ok"],
            noise["p_value"],
            noise["releases"],
            tuple(NoiseTest(**test) for test in noise["tests"]),
            tuple(noise["not_tested"]),
        ),
        agents=tuple(
            _agent({**shown, **more}) for shown, more in zip(document["agents"], document["attacks"], strict=True)
        ),
        findings=tuple(document["findings"]),
        notes=tuple(document["notes"]),
        reconstruction=None
        if rebuilt is None
        else ReconstructionReport(
            rebuilt["record"],
            tuple((one["agent"], _reconstruction(one)) for one in rebuilt["agents"]),
            rebuilt["average"],
            rebuilt["principal"],
            rebuilt["chance"],
        ),
        membership=None if members is None else Membership(**members),
        side_channels=tuple(Correlation(**one) for one in document["side_channels"]),
        masked_sums=None if masked is None else Guesses(**masked),
        observer=None if (seen := document.get("observer")) is None else _observer(seen),
    )


def _ledger(document: Mapping[str, Any]) -> LedgerReport:
    recorded = document["recorded"] if "recorded" in document else document["heard"]  # its name in version 1
    return LedgerReport(document["ok"], document["charged"], recorded, document["findings"])


def _agent(document: Mapping[str, Any]) -> AgentAudit:
    groups = tuple(GroupEpsilon(**group) for group in document.get("groups", ()))
    curves = document.get("trade_off")
    return AgentAudit(**{**document, "groups": groups, "trade_off": None if curves is None else _trade_off(curves)})


def _trade_off(document: Mapping[str, Any]) -> TradeOff:
    attack, accountant = (tuple((x, y) for x, y in document[name]) for name in ("attack", "accountant"))
    return TradeOff(document["mechanism"], document["agents"], attack, accountant)


def _observer(document: Mapping[str, Any]) -> ObserverReport:
    columns = {name: tuple(document[name]) for name in ("hops", "epsilons", "not_possible")}
    return ObserverReport(agent=document["agent"], by=document["by"], why=document["why"], **columns)


def _reconstruction(one: Mapping[str, Any]) -> Reconstruction:
    return Reconstruction(**{key: value for key, value in one.items() if key != "agent"})


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
