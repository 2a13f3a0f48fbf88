"""The attack's part of an audit: epsilon accounted by the ledgers beside epsilon that the best attack shows.

Rules that hold here:
- "attacked" is a lower bound at its confidence, "accounted" an upper bound. Where the first exceeds the second beyond
  any chance over all agents, something is broken, and that is a finding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from coordinator_free.attacks.attacker import Attempt, Observed
from coordinator_free.attacks.bounds import Bound, attacked, expected
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.privacy.accounting import Total, total
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from node.audit.evidence import CERTAIN, Evidence
from node.audit.report import AgentAudit, AuditError, Part


@dataclass(frozen=True, eq=False)
class _Tried:
    """What came of the attack on one agent: an attempt and its bound, or why there is none."""

    attempt: Attempt | None = None
    bound: Bound | None = None
    why: str = ""


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
        return _attack(evidence, agent, trials, confidence, record)

    with ThreadPoolExecutor(max(1, min(len(chosen), os.cpu_count() or 1))) as pool:
        tried = dict(zip(chosen, pool.map(run, chosen), strict=True))
    results = tuple(
        _judge(accounted(evidence, agent, confidence), tried.get(agent), evidence.delta)
        for agent in range(len(evidence.agents))
    )
    return Part(results, tuple(_exceeded(results, tried, evidence.delta)))


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
    return _Tried(attempt, attacked(*attempt.scores, evidence.delta, confidence))


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


def _total(observed: Observed, delta: float) -> Total | None:
    """None where nothing is private, or where a release that holds something of the data was charged nothing."""
    account = observed.account
    free = [i for c in account.charges if c.mechanism is None for i in range(c.first, c.last + 1)]
    if account.budget is None:
        return None
    if free:
        code = observed.code()
        if any(code.charge(index) is not None for index in free):
            return None
    charged = account.all_charged()
    return total(charged, delta) if charged else Total(0.0, "nothing charged", 0.0, 0.0, 0.0)


def _judge(result: AgentAudit, tried: _Tried | None, delta: float) -> AgentAudit:
    if tried is None:
        return result
    if tried.attempt is None or tried.bound is None:
        return replace(result, why=tried.why)
    why = []
    if result.accounted and 0.0 < delta < 1.0:
        mu = gaussian_mu(result.accounted, delta)
        shown = expected(mu, tried.bound.observations, delta, tried.bound.confidence)
        why.append(f"{tried.attempt.trials} trials would show about {shown:.2f} of all {result.accounted:.2f}")
    return attacked_with(result, tried.attempt, tried.bound, why)


def attacked_with(result: AgentAudit, attempt: Attempt, bound: Bound, why: Sequence[str]) -> AgentAudit:
    """One agent's figures with those of an attack; ``why``: further reasons why attacked is below accounted."""
    if attempt.attained is not None and attempt.attained < 0.95:
        why = [f"the worst replacement uses {attempt.attained:.0%} of the sensitivity", *why]
    return replace(
        result,
        attacked=bound.epsilon,
        trials=attempt.trials,
        record=attempt.record,
        attained=attempt.attained,
        ceiling=bound.ceiling,
        why="; ".join(why),
    )


def _exceeded(results: Sequence[AgentAudit], tried: Mapping[int, _Tried], delta: float) -> list[str]:
    """Findings: attacked above accounted, beyond any chance over all agents."""
    level = 1.0 - CERTAIN / max(1, len(tried))
    findings = []
    for result in results:
        if result.accounted is None or result.attacked is None or result.attacked <= result.accounted:
            continue
        attempt = tried[result.agent].attempt
        if attempt is not None and attacked(*attempt.scores, delta, level).epsilon > result.accounted:
            findings.append(
                f"agent {result.agent}: attacked {result.attacked:.2f} exceeds accounted {result.accounted:.2f}"
            )
    return findings
