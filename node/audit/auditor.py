"""The audit of a run: what its ledgers say it cost, beside what the best known attacks on its very traffic achieve.

Rules that hold here:
- The auditor plays the strongest observer: it knows every record, every public number and every recorded release.
- Each part is a function of the evidence; a part that could not be done says so and is never taken for a success.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from node.audit.attack import attack
from node.audit.evidence import Evidence, gather
from node.audit.learned_graph import learned_graph_of
from node.audit.ledgers import ledgers
from node.audit.noise import noise
from node.audit.observer import As, of_others, received, targets
from node.audit.others import masked_sums, membership, reconstruction, side_channels
from node.audit.recording import read_recording
from node.audit.report import AgentAudit, Audit, AuditError, CaptureReport, NoiseReport, Part
from node.audit.sensitivity import attainable

MOST_AGENTS: Final = 100
"""Up to this many agents all are attacked unless some are named; of more, `SAMPLE`."""
SAMPLE: Final = 20


def audit(
    folder: Path,
    *,
    trials: int = 1000,
    confidence: float = 0.95,
    agents: Sequence[int] = (),
    record: int | None = None,
    secret: bytes | None = None,
    observer: int | None = None,
    adversarial: bool = False,
) -> Audit:
    """Audit the run in ``folder``.

    Parameters
    ----------
    trials
        Runs on each of both datasets that a bound rests on; as many again choose its threshold.
    confidence
        Of each lower bound.
    agents
        Those to attack; none: all of up to `MOST_AGENTS`, of more a sample.
    record
        The record to replace; None: the worst.
    adversarial
        Attack a record of the worst possible value, which stands in for record 0, instead of one in the data.
    secret
        From which the trials' noise is drawn, 16 bytes or more; None: a fresh one.
    observer
        The agent that looks, with nothing but what it receives; None: an observer of all releases.

    Raises
    ------
    AuditError
        For options that the run does not allow; and what `read_recording` raises.
    """
    if trials < 2:
        raise AuditError(f"--trials {trials}: accepted is 2 or more")
    if not 0.5 < confidence < 1.0:
        raise AuditError(f"--confidence {confidence:g}: accepted is above 0.5 and below 1")
    own = secret or os.urandom(32)
    evidence = gather(read_recording(folder), own)
    if observer is not None:
        if adversarial:
            raise AuditError("--record adversarial: an audit as one agent attacks a record in the data")
        return _audit_as(evidence, observer, own, trials, confidence, agents, record)
    chosen = _chosen(evidence, agents, record)
    tested, rebuilt, masked = noise(evidence), reconstruction(evidence, chosen.value), masked_sums(evidence)
    target = replace(evidence, attacker=evidence.attacker.adversarial()) if adversarial else evidence
    attacked = attack(target, chosen.value, trials, confidence, 0 if adversarial else record)
    if adversarial:
        attacked = replace(attacked, notes=(*attacked.notes, "attacked is a record of the worst possible value"))
    possible = attainable(evidence, chosen.value)
    judged = [replace(one, attainable=possible.value.get(one.agent)) for one in attacked.value]
    attacked = replace(attacked, value=tuple(judged))
    found = _common(evidence, (chosen, tested, rebuilt, masked, possible), attacked)
    return replace(found, noise=tested.value, reconstruction=rebuilt.value, masked_sums=masked.value)


def _audit_as(
    evidence: Evidence,
    observer: int,
    secret: bytes,
    trials: int,
    confidence: float,
    agents: Sequence[int],
    record: int | None,
) -> Audit:
    _chosen(evidence, agents, record)
    chosen = targets(evidence, observer, agents, record)
    seen = of_others(gather(received(evidence.recording, observer), secret), observer)
    looking = As(evidence, seen, observer, secret)
    attacked = looking.attack(chosen.value, trials, confidence, record)
    report = looking.report(attacked.value)
    return replace(_common(seen, (chosen, report), attacked), observer=report.value)


def _common(evidence: Evidence, parts: Sequence[Part[Any]], attacked: Part[tuple[AgentAudit, ...]]) -> Audit:
    """The parts that every audit has, with the findings and notes of all ``parts``."""
    capture, ledger = _capture(evidence), ledgers(evidence)
    members, channels = membership(evidence), side_channels(evidence)
    every = (capture, ledger, learned_graph_of(evidence), *parts, attacked, members, channels)
    manifest = evidence.run.manifest
    return Audit(
        name=manifest.name,
        record=manifest.record,
        delta=evidence.delta,
        capture=capture.value,
        ledger=ledger.value,
        noise=NoiseReport(ok=True, p_value=1.0, releases=0, tests=(), not_tested=()),
        agents=attacked.value,
        findings=tuple(line for part in every for line in part.findings),
        notes=(*manifest.warnings, *(line for part in every for line in part.notes)),
        reconstruction=None,
        membership=members.value,
        side_channels=channels.value,
        masked_sums=None,
    )


def _capture(evidence: Evidence) -> Part[CaptureReport]:
    recording, notes = evidence.recording, []
    if not recording.capture.complete:
        notes.append(
            f"the capture is {recording.capture.in_words()}: every figure below is at least (attacked) or at most "
            "(accounted)"
        )
    if recording.filled:
        notes.append(f"{len(recording.filled)} releases are known from the agents' journals alone")
    notes += [f"the log is damaged: {line}" for line in recording.damage]
    return Part(CaptureReport(**recording.capture.as_results()), notes=tuple(notes))


def _chosen(evidence: Evidence, agents: Sequence[int], record: int | None) -> Part[list[int]]:
    """The agents to attack: those that were named, or all, or a sample; each has the record that was named."""
    count = len(evidence.agents)
    for agent in agents:
        if not 0 <= agent < count:
            raise AuditError(f"--agent {agent}: the run has agents 0 to {count - 1}")
        if record is not None and not 0 <= record < evidence.records(agent):
            raise AuditError(f"--record {record}: agent {agent} has records 0 to {evidence.records(agent) - 1}")
    notes: tuple[str, ...] = ()
    if agents:
        chosen = sorted(set(agents))
    elif count <= MOST_AGENTS:
        chosen = list(range(count))
    else:
        order = np.argsort(evidence.run.records, kind="stable")
        places = np.linspace(0, count - 1, SAMPLE).round().astype(int)
        chosen = sorted(int(order[k]) for k in places)
        notes = (f"{SAMPLE} of {count} agents are attacked, from the fewest records to the most",)
    return Part([a for a in chosen if record is None or record < evidence.records(a)], notes=notes)
