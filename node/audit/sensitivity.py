"""The sensitivity's part of an audit: no record may move a release by more than its charge allows, or another release.

An attack on a record in the data shows this only where that record attains the sensitivity. Here the record is the
worst possible one, and the agents' own code computes both values; so a clip that does not act is found, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator_free.attacks.inversion import InversionError
from node.audit.evidence import Evidence
from node.audit.report import Part

MOST: Final = 8
"""Agents whose code is asked, from the fewest records to the most: it is the same code in all."""
ROUNDED: Final = 1e-6
"""A share may be so far above 1 by rounding alone."""


def attainable(evidence: Evidence, chosen: Sequence[int]) -> Part[Mapping[int, float]]:
    """The largest share of the charged sensitivity that a record can attain, by agent; above 1 is a finding."""
    if not evidence.run.configuration.private:
        return Part({})
    able = sorted((a for a in chosen if evidence.records(a)), key=evidence.records)
    asked = able if len(able) <= MOST else [able[k * (len(able) - 1) // (MOST - 1)] for k in range(MOST)]
    shares, findings = {}, []
    for agent in asked:
        try:
            share = evidence.attacker.attainable(agent)
        except InversionError:
            continue  # a release is missing: the capture's part says which
        findings += [
            f"agent {agent} release {index}: record {record} moves it, and it is not charged to that record"
            for record, index in evidence.attacker.strays(agent)
        ]
        if share is None:
            continue
        shares[agent] = share
        if share > 1.0 + ROUNDED:
            findings.append(
                f"agent {agent}: a possible record moves a release by {share:.0%} of the sensitivity that was charged"
            )
    return Part(shares, tuple(findings))
