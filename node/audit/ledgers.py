"""The ledgers' part of an audit: every recorded release against what was charged for it, and public numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from coordinator_free.attacks.charges import check_charges
from coordinator_free.attacks.inversion import noised_part
from node.audit.evidence import Evidence
from node.audit.report import LedgerReport, Part
from node.audit.restarts import restarts


def ledgers(evidence: Evidence) -> Part[LedgerReport]:
    """Releases against ledgers and configuration, and what is wrong with frames by themselves."""
    recording, run = evidence.recording, evidence.run
    found = list(recording.findings)
    found += restarts(recording)
    found += _configured(evidence)
    charged = recorded = 0
    for agent, observed in enumerate(evidence.agents):
        code, account = observed.code(), observed.account
        expected = {index: code.charge(index) for index in range(run.public[agent].releases)}
        releases = [
            release if expected.get(release.index) is None else replace(release, vector=noised_part(code, release))
            for release in recording.said.get(agent, recording.of(agent))
        ]
        found += check_charges(agent, releases, account, expected, follows=code.follows_its_model)
        charged += sum(charge.last - charge.first + 1 for charge in account.charges)
        recorded += len(recording.of(agent))
    findings = (*evidence.unreadable, *dict.fromkeys(found))
    return Part(LedgerReport(not findings, charged, recorded, len(findings)), findings)


def _configured(evidence: Evidence) -> list[str]:
    """Public numbers of a private run that were computed from private data."""
    configuration = evidence.run.configuration
    if not configuration.private:
        return []
    found = []
    if configuration.learning.smoothness == "data":
        found.append("learning.smoothness = data: the step size is computed from the records, outside the accounting")
    for agent, observed in enumerate(evidence.agents):
        problem, public = observed.setting.problem, observed.setting.learning.get("smoothness")
        if public and problem.records and math.isclose(problem.smoothness_of_data(), public, rel_tol=1e-9):
            found.append(f"agent {agent}: its step size is the one that its records give, outside the accounting")
    return found
