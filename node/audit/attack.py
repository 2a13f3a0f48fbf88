"""The attack's part of an audit: epsilon accounted by the ledgers beside epsilon that the best attack shows.

Rules that hold here:
- "attacked" is a lower bound at its confidence, "accounted" an upper bound. Where the first exceeds the second beyond
  any chance over all agents, something is broken, and that is a finding.
- A record that moves a release by more than the charged sensitivity is a finding without any chance in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from coordinator_free.attacks.attacker import Attempt, Observed
from coordinator_free.attacks.bounds import Bound, attacked, expected
from coordinator_free.attacks.divergence_bound import sharp_bound
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.trade_off import DELTAS, TradeOff, allowed, reached
from coordinator_free.privacy.accounting import Total, total
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.privacy.group import GROUPS, group_epsilon
from coordinator_free.privacy.mechanism import Mechanism
from node.audit.evidence import CERTAIN, Evidence
from node.audit.report import AgentAudit, AuditError, GroupEpsilon, Part
from node.audit.sensitivity import ROUNDED


@dataclass(frozen=True, eq=False)
class Shown:
    """What an attempt shows: by a ``threshold`` whatever the law; by the ``sharp`` bound, if the charged law holds."""

    threshold: Bound
    sharp: float | None


@dataclass(frozen=True, eq=False)
class _Tried:
    """What came of the attack on one agent: an attempt and what it shows, or why there is none.

    ``groups`` rest on the ledger alone.
    """

    attempt: Attempt | None = None
    shown: Shown | None = None
    why: str = ""
    groups: tuple[GroupEpsilon, ...] = ()


def attack(
    evidence: Evidence, chosen: Sequence[int], trials: int, confidence: float, record: int | None
) -> Part[tuple[AgentAudit, ...]]:
    """Account for every agent, and attack the chosen ones.

    Parameters
    ----------
    trials
        Runs on each of both datasets that a bound rests on; as many again choose its threshold.
    record
        The record to replace; None for the worst.
    """

    def run(agent: int) -> _Tried:
        tried = _attack(evidence, agent, trials, confidence, record)
        return replace(tried, groups=_groups(evidence.agents[agent], evidence.delta))

    with ThreadPoolExecutor(max(1, min(len(chosen), os.cpu_count() or 1))) as pool:
        tried = dict(zip(chosen, pool.map(run, chosen), strict=True))
    results = tuple(
        _judge(
            _with_record(evidence, accounted(evidence, agent, confidence), tried.get(agent)),
            tried.get(agent),
            evidence.delta,
        )
        for agent in range(len(evidence.agents))
    )
    results = _with_trade_offs(evidence, results, tried)
    return Part(results, tuple(_exceeded(results, tried, evidence.delta)))


def _with_trade_offs(
    evidence: Evidence, results: Sequence[AgentAudit], tried: Mapping[int, _Tried]
) -> tuple[AgentAudit, ...]:
    """The results with the trade-off of the attacks on each mechanism, at the first of its agents.

    Pooled are the agents with the largest accounted epsilon: the best of many would be the luckiest.
    """
    alike: dict[str, list[AgentAudit]] = {}
    for result in results:
        charged = evidence.agents[result.agent].account.all_charged()
        name = " and ".join(sorted({made.name for made in charged if made is not None}))
        if result.attacked is not None and result.accounted and name:
            alike.setdefault(name, []).append(result)
    found = {}
    for name, those in alike.items():
        largest = max(one.accounted or 0.0 for one in those)
        pooled = [one.agent for one in those if (one.accounted or 0.0) >= largest * (1.0 - 1e-6)]
        scores = [made.scores for agent in pooled if (made := tried[agent].attempt) is not None]
        first, second = (np.concatenate(side) for side in zip(*scores, strict=True))
        observed = evidence.agents[pooled[0]]
        epsilons = {delta: total.epsilon for delta in DELTAS if (total := _total(observed, delta)) is not None}
        found[pooled[0]] = TradeOff(name, len(pooled), reached(first, second), allowed(epsilons))
    return tuple(replace(result, trade_off=found.get(result.agent)) for result in results)


def _attack(evidence: Evidence, agent: int, trials: int, confidence: float, record: int | None) -> _Tried:
    records = evidence.records(agent)
    if records == 0:
        return _Tried(why="no records")
    if record is not None and not 0 <= record < records:
        raise AuditError(f"--record {record}: agent {agent} has records 0 to {records - 1}")
    try:
        attempt = evidence.attacker.attack(agent, trials, record)
    except InversionError as error:
        return _Tried(why=str(error))
    return _Tried(attempt, shown_by(attempt, evidence.delta, confidence))


def shown_by(attempt: Attempt, delta: float, confidence: float) -> Shown:
    """Both lower bounds of an attempt, each at ``confidence``; no sharp one where its scores are not exact."""
    sharp = sharp_bound(*attempt.scores, delta, confidence) if attempt.exact else None
    return Shown(attacked(*attempt.scores, delta, confidence), sharp)


def accounted(evidence: Evidence, agent: int, confidence: float) -> AgentAudit:
    """One agent's budget, and its epsilon by its ledger."""
    observed = evidence.agents[agent]
    found = _total(observed, evidence.delta)
    budget = observed.account.budget
    return AgentAudit(
        agent=agent,
        budget=None if budget is None else budget[0],
        accounted=None if found is None else found.epsilon,
        attacked=None,
        trials=0,
        confidence=confidence,
        accountant=None if found is None else found.accountant,
        why="not chosen",
    )


def _with_record(evidence: Evidence, result: AgentAudit, tried: _Tried | None) -> AgentAudit:
    """The result with what the attacked record was charged, where records have charges of their own."""
    observed = evidence.agents[result.agent]
    if tried is None or tried.attempt is None or not observed.account.windows:
        return result
    found = _total(observed, evidence.delta, tried.attempt.record)
    return result if found is None else replace(result, accounted_record=found.epsilon)


def _total(observed: Observed, delta: float, record: int | None = None) -> Total | None:
    """Of ``record``, or of the record that is used most; None where nothing is private."""
    charged = _charged(observed, record)
    if charged is None:
        return None
    return total(charged, delta) if charged else Total(0.0, "nothing charged", 0.0, 0.0, 0.0)


def _groups(observed: Observed, delta: float) -> tuple[GroupEpsilon, ...]:
    """What the agent's releases cost for groups of its records (Zhang and Zhu 2017, Corollaries 1.2 and 2.2)."""
    charged = _charged(observed)
    if charged is None or observed.account.windows:  # the records of a group have releases of their own each
        return ()
    epsilons = [group_epsilon(charged, delta, records) for records in GROUPS]
    return tuple(
        GroupEpsilon(records, epsilon if math.isfinite(epsilon) else None)
        for records, epsilon in zip(GROUPS, epsilons, strict=True)
    )


def _charged(observed: Observed, record: int | None = None) -> list[Mechanism | None] | None:
    """None where nothing is private, or where a release that holds something of the data was charged nothing."""
    account = observed.account
    free = [i for c in account.charges if c.mechanism is None for i in range(c.first, c.last + 1)]
    if account.budget is None:
        return None
    if free:
        code = observed.code()
        if any(code.charge(index) is not None for index in free):
            return None
    return account.all_charged(record)


def _judge(result: AgentAudit, tried: _Tried | None, delta: float) -> AgentAudit:
    if tried is None:
        return result
    result = replace(result, groups=tried.groups)
    if tried.attempt is None or tried.shown is None:
        return replace(result, why=tried.why)
    why = []
    if result.bound and 0.0 < delta < 1.0:
        mu = gaussian_mu(result.bound, delta)
        threshold = tried.shown.threshold
        shown = expected(mu, threshold.observations, delta, threshold.confidence)
        why.append(f"{tried.attempt.trials} trials would show about {shown:.2f} of all {result.bound:.2f}")
    found = attacked_with(result, tried.attempt, tried.shown, why)
    if tried.attempt.without_penalties is None:
        return found
    # Fitted penalties give no exact likelihood ratio, so that there is no sharp bound.
    blind = attacked(*tried.attempt.without_penalties, delta, tried.shown.threshold.confidence)
    return replace(found, attacked_without_penalties=blind.epsilon)


def attacked_with(result: AgentAudit, attempt: Attempt, shown: Shown, why: Sequence[str]) -> AgentAudit:
    """One agent's figures with those of an attack; ``why``: further reasons why attacked is below accounted."""
    if attempt.attained is not None and attempt.attained < 0.95:
        why = [f"the worst replacement uses {attempt.attained:.0%} of the sensitivity", *why]
    if result.accounted_record is not None and result.accounted_record < (result.accounted or 0.0):
        why = [f"record {attempt.record} was charged {result.accounted_record:.2f}", *why]
    return replace(
        result,
        attacked=shown.threshold.epsilon,
        attacked_if_charged=None if result.accounted is None else shown.sharp,  # without noise there is no such law
        trials=attempt.trials,
        record=attempt.record,
        attained=attempt.attained,
        ceiling=shown.threshold.ceiling,
        why="; ".join(why),
    )


def _exceeded(results: Sequence[AgentAudit], tried: Mapping[int, _Tried], delta: float) -> list[str]:
    """Findings: attacked above accounted beyond any chance over all agents, or more moved than was charged."""
    level = 1.0 - CERTAIN / max(1, 2 * len(tried))
    findings = []
    for result in results:
        attempt = tried[result.agent].attempt if result.agent in tried else None
        if attempt is None or result.bound is None:
            continue
        if attempt.attained is not None and attempt.attained > 1.0 + ROUNDED:
            findings.append(
                f"agent {result.agent}: record {attempt.record} moves its releases by {attempt.attained:.0%} of the "
                "sensitivity that was charged"
            )
        highest = max(result.attacked or 0.0, result.attacked_if_charged or 0.0)
        if highest <= result.bound:
            continue
        certain = shown_by(attempt, delta, level)
        if max(certain.threshold.epsilon, certain.sharp or 0.0) > result.bound:
            findings.append(f"agent {result.agent}: attacked {highest:.2f} exceeds accounted {result.bound:.2f}")
    return findings
