"""The noise's part of an audit: whether the noise in the releases is what the ledgers charged."""

from __future__ import annotations

from dataclasses import replace

from coordinator_free.attacks import local_descent, noise_tests
from node.audit.evidence import Evidence
from node.audit.report import NoiseReport, Part


def noise(evidence: Evidence) -> Part[NoiseReport]:
    """Recover the noise of every release that has one, and test it; find releases that hold more than it."""
    found = evidence.attacker.noise()
    notes = [f"noise of agent {agent} not tested: {why}" for agent, why in found.untested.items()]
    notes += found.notes
    own = {row.agent: row.mechanism.name for row in found.rows if ":" in row.mechanism.name}
    notes += [
        f"noise of mechanism {name} not tested: only its class knows its law" for name in sorted(set(own.values()))
    ]
    verdict = noise_tests.examine([row for row in found.rows if row.agent not in own])
    if found.distances:
        verdict = replace(
            verdict,
            tests=(*verdict.tests, local_descent.law(found.distances)),
            releases=verdict.releases + len(found.distances),
        )
    smuggled = tuple(f"noise: agent {agent}: {what}" for agent, what in found.smuggled.items())
    ok, untested = verdict.ok and not smuggled, (*found.untested, *sorted(own))
    report = NoiseReport(ok, verdict.p_value, verdict.releases, verdict.tests, untested)
    return Part(report, (*smuggled, *verdict.findings), tuple(notes))
