"""The other parts of an audit: reconstruction of a record, membership, side channels, and what masked sums hide.

Each is weaker than the likelihood ratio: what it misses is no proof of privacy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from coordinator_free.attacks import membership as attack
from coordinator_free.attacks import side_channels as channels
from coordinator_free.attacks.attacker import Guesses
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.membership import Membership
from coordinator_free.attacks.reconstruction import reconstruct
from coordinator_free.attacks.side_channels import Correlation
from coordinator_free.release import FloatArray
from node.audit.evidence import CERTAIN, Evidence
from node.audit.recording import Recording
from node.audit.report import Part, ReconstructionReport


def reconstruction(evidence: Evidence, chosen: Sequence[int]) -> Part[ReconstructionReport | None]:
    """Record 0 of each chosen agent, from the others and its releases; None where no algorithm allows it."""
    found = []
    for agent in chosen:
        observed = evidence.agents[agent]
        if evidence.records(agent) == 0 or not observed.recorded:
            continue
        try:
            residual, direction = evidence.attacker.residuals(agent, 0), _direction(evidence, agent)
        except InversionError:
            continue
        found.append((agent, reconstruct(0, observed.setting.problem.x[0], residual, direction)))
    if not found:
        return Part(None)
    return Part(
        ReconstructionReport(
            record=0,
            agents=tuple(found),
            average=float(np.mean([one.average for _, one in found])),
            principal=float(np.mean([one.principal for _, one in found])),
            chance=found[0][1].chance,
        )
    )


def _direction(evidence: Evidence, agent: int) -> FloatArray | None:
    try:
        return evidence.attacker.direction(agent, 0)
    except InversionError:
        return None


def membership(evidence: Evidence) -> Part[Membership | None]:
    """Training against held-out records of every agent, from its releases alone; None where nothing is held out."""
    members, others = [], []
    for agent, observed in enumerate(evidence.agents):
        rows = evidence.run.rows[agent]
        if len(rows.y) == 0 or len(rows.y_test) == 0 or not observed.recorded:
            continue
        try:
            scores = evidence.attacker.membership(agent)
        except InversionError:
            continue
        members.append(scores(rows.x, rows.y))
        others.append(scores(rows.x_test, rows.y_test))
    return Part(attack.judge(np.concatenate(members), np.concatenate(others)) if members else None)


def side_channels(evidence: Evidence) -> Part[tuple[Correlation, ...]]:
    """Release times and sizes of each agent against its data's size and values, over at least three agents."""
    recording = evidence.recording
    times = [_times(recording, agent) for agent in range(len(evidence.agents))]
    agents = [agent for agent, seen in enumerate(times) if len(seen) > 1]
    if len(agents) < 3:
        return Part(())
    gaps = [np.diff(times[a]) / 1e9 for a in agents]
    measures = {
        "mean time between releases": np.array([g.mean() for g in gaps]),
        "spread of the time between releases": np.array([g.std() for g in gaps]),
        "mean header size": np.array([np.mean(recording.headers[a]) for a in agents]),
        "mean body size": np.array([_mean_size(recording.bodies[a]) for a in agents]),
    }
    found = channels.correlations(measures, _data(evidence, agents))
    notes = [
        f"{one.measure} goes with {one.data} (rank correlation {one.rho:+.2f}, p = {one.corrected:.1e} corrected): "
        "epsilon does not cover this"
        for one in found
        if one.corrected < CERTAIN
    ]
    return Part(tuple(found), notes=tuple(notes))


def masked_sums(evidence: Evidence) -> Part[Guesses | None]:
    """What an observer can tell of single parties once every opened mask is taken off; None for other runs."""
    found = evidence.attacker.guesses()
    if found is None or found.p_value >= CERTAIN:
        return Part(found)
    finding = (
        f"masked sums: {found.right} of {found.guesses} guesses at signs of the parties' numbers are right "
        f"(p = {found.p_value:.1e})"
    )
    return Part(found, (finding,))


def _data(evidence: Evidence, agents: Sequence[int]) -> Mapping[str, FloatArray]:
    """Numbers of each agent's data that its traffic must not show."""
    problems = [evidence.agents[agent].setting.problem for agent in agents]
    return {
        "records": np.array([float(p.records) for p in problems]),
        "mean label": np.array([p.y.mean() if p.records else 0.0 for p in problems]),
        "spread of labels": np.array([p.y.std() if p.records else 0.0 for p in problems]),
        "mean row length": np.array(
            [np.sqrt(np.square(p.x).sum(axis=1)).mean() if p.records else 0.0 for p in problems]
        ),
    }


def _times(recording: Recording, agent: int) -> FloatArray:
    """When each of an agent's releases was recorded first, in nanoseconds, ascending."""
    times = [ns for (sender, _), ns in recording.first_ns.items() if sender == agent]
    return np.sort(np.array(times, dtype=np.float64))


def _mean_size(sizes: Counter[int]) -> float:
    return sum(size * count for size, count in sizes.items()) / max(1, sum(sizes.values()))
