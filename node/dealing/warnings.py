"""What a user is warned of when a run is dealt: what works, and may not be what is wanted, in one sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.release import FloatArray
from node.configuration.sections import Configuration
from node.places import agents_in_words

if TYPE_CHECKING:
    from node.data import Dealt

SMALLEST_CONFIDENCE = 1e-3
"""Of an agent without data, which learns from its neighbours alone."""


def warnings_of(
    configuration: Configuration, records: FloatArray, own: Sequence[tuple[float, float]] = ()
) -> list[str]:
    """Warnings that follow from the sizes (n,) and the budgets; ``own``: (epsilon, delta) of each agent, or empty."""
    found = []
    empty = np.flatnonzero(records == 0)
    if empty.size:
        found.append(
            f"{agents_in_words(empty)} without data: confidence {SMALLEST_CONFIDENCE:g}, it learns from its neighbours "
            "alone"
        )
    silent = np.array([i for i, (epsilon, _) in enumerate(own) if epsilon == 0], dtype=np.int64)
    if silent.size:
        found.append(f"{agents_in_words(silent)} with epsilon 0: no release, it listens and learns for itself alone")
    deltas = np.full(len(records), configuration.privacy.delta or 0.0)
    if own:
        deltas = np.array([delta if epsilon > 0 else 0.0 for epsilon, delta in own])
    exposed = np.flatnonzero(deltas * records >= 1)
    if configuration.private and exposed.size:
        found.append(
            f"privacy.delta = {deltas[exposed].max():g} is at least 1/m_i for {agents_in_words(exposed)}: such a delta "
            "permits publishing a whole record; use a smaller one"
        )
    if configuration.private and configuration.privacy.observer == "as_published" and (records > 0).any():
        from coordinator_free.privacy.observer import truth

        true = truth(configuration.privacy.epsilon or 0.0, configuration.privacy.delta or 0.0, records.tolist())
        found.append(
            f'privacy.observer = "as_published": the claimed epsilon {true.claimed:g} is false; it is '
            f"{true.releases:.3g} towards an observer of each agent's releases, and {true.sum:.3g} towards one of "
            "their sum alone"
        )
    if configuration.private and configuration.privacy.observer == "sum" and configuration.privacy.colluders == 0:
        from coordinator_free.privacy.analytic_gaussian import gaussian_mu
        from coordinator_free.privacy.observer import epsilons_of_a_sum

        epsilon, at = configuration.privacy.epsilon or 0.0, configuration.privacy.delta or 0.0
        noisy = int(np.count_nonzero(records))
        seen = epsilons_of_a_sum(gaussian_mu(epsilon, at), at, noisy, 0, configuration.privacy.dropouts)
        found.append(
            f"privacy.colluders = 0: epsilon {epsilon:g} holds only for an observer that takes no part in the sum; for "
            f"an agent of the sum, which knows its own part of the noise, it is {seen['participant']:.3g}"
        )
    if configuration.run.simulation:
        found.append("run.simulation = true: a holder of run.seed can compute the noise")
    return found


def idle_clip(configuration: Configuration, longest: float | None) -> list[str]:
    """The warning of a clip that is longer than any gradient, whose length is ``longest``."""
    clip = configuration.privacy.clip
    if clip is None or longest is None or clip <= longest * (1.0 + 1e-6):
        return []
    return [
        f"privacy.clip = {clip:g} cuts nothing: with rows within their public bound no gradient of the "
        f'"{configuration.learning.loss}" loss is longer than {longest:g}, and the noise is that for {longest:g}'
    ]


def nothing_held_out(dealt: Dealt) -> list[str]:
    """The warning where no row scores a model."""
    if any(len(shard.y_test) for shard in dealt.shards):
        return []
    return ["no row is held out, so no model is scored: each agent has one row, or data.held_out or test_points is 0"]


def planted(configuration: Configuration) -> list[str]:
    """Say that canaries are among the records, if there are some."""
    canaries = configuration.audit.canaries
    if not canaries:
        return []
    return [
        f"audit.canaries = {canaries}: as many records that were made for an audit are among those of the agents, and "
        "the scores are of these changed data"
    ]
