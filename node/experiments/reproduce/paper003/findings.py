"""The claims of paper 003, each held against the runs, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from statistics import mean
from typing import Any

from node.experiments.reproduce.figure import PUBLISHED, TRULY, Row
from node.experiments.reproduce.paper003.runs import CENTRAL, MAJORITY, Found, Place, spread
from node.experiments.reproduce.paper003.settings import EQUAL, WEIGHTED

At = Sequence[tuple[Mapping[str, Any], Mapping[str, Found]]]
"""The places of one data set: (columns, runs by method)."""


def findings(places: Sequence[Place], over: str, *, grows: bool = False) -> list[str]:
    """Every claim that the figures make over the column ``over``, for each data set and reading."""
    found = []
    for source in dict.fromkeys(place.source for place in places):
        at = [(place.shown, place.found) for place in places if place.source == source]
        for reading, weighted, equal in zip((PUBLISHED, TRULY), WEIGHTED, EQUAL, strict=True):
            claims = [gains(at, weighted, equal, over, gap=gap) for gap in (False, True)]
            if reading == PUBLISHED:
                claims.append(similar(at, weighted))
            if grows:
                claims += [grows_with_epsilon(at, weighted), gap_falls(at, weighted)]
            elif over == "u":
                claims.append(steady(at, weighted, equal))
            found += [f"{source}, {reading}: {claim}" for claim in claims]
    return [*found, _published_claim([row for place in places for row in place.rows() if row["method"] == WEIGHTED[0]])]


def _published_claim(rows: Sequence[Row]) -> str:
    worst = max(row["true result"] / row["claimed"] for row in rows)
    least = min(row["true result"] / row["claimed"] for row in rows)
    return (
        f"WD-DP's published claim is {'false' if least > 1.0 else 'true'} for an observer of the result alone, up to "
        f"{worst:.3g} times it; for an eavesdropper on a party's model its epsilon is up to "
        f"{max(row['true releases'] for row in rows):.3g}."
    )


def gains(at: At, weighted: str, equal: str, over: str, *, gap: bool) -> str:
    """Weighting by size against equal weights: the paired gain in each setting, in the paper's direction."""
    gains, clear, runs = [], 0, 0
    for _, found in at:
        pairs = (
            zip(found[equal].gap, found[weighted].gap, strict=True)
            if gap
            else zip(found[weighted].accuracy, found[equal].accuracy, strict=True)
        )
        differences = [one - other for one, other in pairs]
        runs = len(differences)
        gains.append(mean(differences))
        error = (spread(differences) or 0.0) / sqrt(runs)
        clear += gains[-1] > 2.0 * error
    verdict = "reproduces" if clear == len(gains) else "does not reproduce" if clear == 0 else "reproduces in part"
    what = "a smaller optimal gap" if gap else "accuracy"
    beyond = "more than two standard errors" if runs > 1 else "above zero (one run)"
    listed = ", ".join(f"{gain:+.3f}" for gain in gains)
    return (
        f"weighting by size gains {listed} in {what} over {over}, {beyond} in {clear} of "
        f"{len(gains)}: the paper's advantage {verdict}."
    )


def gap_falls(at: At, method: str) -> str:
    """From each epsilon to the next."""
    curve = [mean(found[method].gap) for _, found in at]
    falls = sum(later < earlier for earlier, later in pairwise(curve))
    verdict = "as in the paper" if falls == len(curve) - 1 else "unlike the paper"
    listed = ", ".join(f"{gap:.3f}" for gap in curve)
    return f"{method}'s gap goes {listed}: with epsilon it falls in {falls} of {len(curve) - 1} steps, {verdict}."


def similar(at: At, weighted: str) -> str:
    """How far centralised noisy descent is ahead."""
    behind = [mean(found[CENTRAL].accuracy) - mean(found[weighted].accuracy) for _, found in at]
    close = sum(abs(b) < 0.02 for b in behind)
    verdict = "similar, as in the paper" if close == len(behind) else "not throughout as in the paper"
    listed = ", ".join(f"{b:+.3f}" for b in behind)
    return f"{CENTRAL} is ahead of WD-DP by {listed}, within 0.02 in {close} of {len(behind)}: {verdict}."


def grows_with_epsilon(at: At, method: str) -> str:
    """Whether accuracy grows with epsilon, and is above the majority class."""
    curve = [mean(found[method].accuracy) for _, found in at]
    falls = [lower - higher for lower, higher in pairwise(curve)]
    if max(falls, default=0.0) >= 0.005:
        verdict = "does not grow with epsilon throughout"
    elif curve[-1] - curve[0] < 0.005:
        verdict = "does not change with epsilon"
    else:
        verdict = "grows with epsilon, as in the paper"
    above = sum(mean(found[method].accuracy) > mean(found[MAJORITY].accuracy) for _, found in at)
    listed = ", ".join(f"{a:.3f}" for a in curve)
    return f"{method} goes {listed}: it {verdict}, and is above the majority class in {above} of {len(curve)}."


def steady(at: At, weighted: str, equal: str) -> str:
    """How much the accuracy of both methods differs over u."""
    spreads = []
    for method in (weighted, equal):
        curve = [mean(found[method].accuracy) for _, found in at]
        spreads.append(max(curve) - min(curve))
    steady = "is steady" if spreads[0] < 0.02 else "is not steady"
    falls = "falls or fluctuates" if spreads[1] > max(0.02, 2.0 * spreads[0]) else "is no less steady"
    return (
        f"over u, {weighted} {steady} (its accuracies differ by {spreads[0]:.3f}, the paper has it steady) and {equal} "
        f"{falls} ({spreads[1]:.3f}, the paper has it fall)."
    )
