"""Planting canaries: each is one more record of an agent, with a feature of its own in which all other rows are zero.

Rules that hold here:
- Where canaries lie and what their two values are follows from public numbers. A fair coin chooses the value.
- A coin comes from the operating system; only a simulation takes it from the seed.
- A canary belongs to no person: registries of data know nothing of it.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.agents.registry import algorithm
from coordinator_free.attacks.canaries import Canary, label_of, length_of
from coordinator_free.problem.losses import LossError, loss
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.folder.canaries import FEATURE

if TYPE_CHECKING:
    from node.data import Dealt


@dataclass(frozen=True)
class Flipped:
    """Canaries in the order of their coins, the coins, and 32 random bytes to publish a digest of the coins with."""

    canaries: tuple[Canary, ...]
    sides: tuple[bool, ...]
    nonce: bytes


def plant(configuration: Configuration, dealt: Dealt, clip: float | None, seed: int) -> tuple[Dealt, Flipped]:
    """The data with ``audit.canaries`` canaries, dealt in turn to the agents that have training records."""
    holders = [agent for agent, shard in enumerate(dealt.shards) if shard.records]
    wanted, simulated = configuration.audit.canaries, configuration.run.simulation
    nonce = hashlib.sha256(f"canaries of seed {seed}".encode()).digest() if simulated else secrets.token_bytes(32)
    bits = np.unpackbits(np.frombuffer(hashlib.shake_256(b"coins" + nonce).digest(wanted // 8 + 1), dtype=np.uint8))
    sides = tuple(bool(bit) for bit in bits[:wanted])
    learning, judge = configuration.learning, loss(configuration.learning.loss)
    bounds = list(dealt.row_bounds.values())
    length = length_of(algorithm(learning.algorithm), learning.given(), judge, clip, bounds)
    label = label_of(judge, length, clip, dealt.label_bound)
    _check_label(configuration, label)
    canaries = []
    for number in range(wanted):
        turn, place = divmod(number, len(holders))
        agent = holders[place]
        canaries.append(Canary(agent, dealt.shards[agent].records + turn, dealt.dimension + turn, length, label))
    return _with(dealt, canaries, sides), Flipped(tuple(canaries), sides, nonce)


def _check_label(configuration: Configuration, label: float) -> None:
    try:
        loss(configuration.learning.loss).check_labels(np.array([label, -label]))
    except LossError as error:
        raise ConfigurationError(
            f"audit.canaries = {configuration.audit.canaries}: the two values of a canary have the labels {label:g} "
            f"and {-label:g}; {error}"
        ) from None


def _with(dealt: Dealt, canaries: list[Canary], sides: tuple[bool, ...]) -> Dealt:
    columns = 1 + max(canary.column for canary in canaries) - dealt.dimension
    rows: list[list[np.ndarray]] = [[] for _ in dealt.shards]
    labels: list[list[float]] = [[] for _ in dealt.shards]
    for canary, side in zip(canaries, sides, strict=True):
        rows[canary.agent].append(canary.row(dealt.dimension + columns))
        labels[canary.agent].append(canary.label if side else -canary.label)
    shards = tuple(
        replace(
            shard,
            x=np.vstack([_wider(shard.x, columns), *more]),
            y=np.concatenate([shard.y, told]),
            x_test=_wider(shard.x_test, columns),
        )
        for shard, more, told in zip(dealt.shards, rows, labels, strict=True)
    )
    moment = dealt.second_moment
    planted = replace(
        dealt,
        shards=shards,
        features=(*dealt.features, *(f"{FEATURE}{k}" for k in range(columns))),
        second_moment=None if moment is None else np.pad(moment, (0, columns)),
    )
    object.__setattr__(planted, "digest", dealt.digest)  # of the records: runs on the same data are found by it
    return planted


def _wider(x: np.ndarray, columns: int) -> np.ndarray:
    return np.hstack([x, np.zeros((len(x), columns))])
