"""How much the agents of a configuration release, and what it costs: the algorithm's declarations, applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator_free.agents.registry import algorithm
from coordinator_free.release import FloatArray
from node.configuration.sections import Configuration

if TYPE_CHECKING:
    from node.data import Dealt
    from topology.network import Network


def releases(configuration: Configuration, neighbours: int) -> int:
    """How many releases an agent makes: one for each update or round, unless its algorithm says otherwise."""
    return algorithm(configuration.learning.algorithm).releases(configuration.clock.updates, neighbours)


def release_dimension(configuration: Configuration, dimension: int) -> int:
    """The length of a release's vector: the model's, unless the algorithm says otherwise."""
    return algorithm(configuration.learning.algorithm).release_dimension(dimension)


@dataclass(frozen=True)
class Arrangement:
    """What an algorithm says that rests on the whole graph and all sizes; ``learning`` are more settings of it."""

    releases: int | None = None
    """None: as many as the algorithm has for so many neighbours."""
    release_dimension: int | None = None
    """None: the algorithm's own."""
    learning: Mapping[str, Any] = field(default_factory=dict)


def arrangement(configuration: Configuration, graph: Network, sizes: Sequence[int], dealt: Dealt) -> Arrangement:
    """The public numbers that rest on the whole graph and all sizes.

    See `Algorithm.arranged`. Among the learning parameters that it is given is what is publicly known of mean(x x^T),
    "second_moment", if anything is.
    """
    chosen = algorithm(configuration.learning.algorithm)
    privacy = {key: getattr(configuration.privacy, key) for key in ("observer", "colluders", "dropouts")}
    learning = configuration.learning.given() | privacy
    if dealt.second_moment is not None:
        learning["second_moment"] = dealt.second_moment.tolist()
    arranged = chosen.arranged(graph, sizes, dealt.dimension, configuration.clock.updates, learning)
    if not arranged:
        return Arrangement()
    return Arrangement(arranged.get("releases"), arranged.get("release_dimension"), {**arranged["learning"], **privacy})


def multipliers(configuration: Configuration, dimension: int) -> FloatArray:
    """One noise scale for each charged release, in units of its sensitivity.

    Empty without a mechanism, and where each agent buys its own (`Algorithm.own_noise`).
    """
    privacy, chosen = configuration.privacy, algorithm(configuration.learning.algorithm)
    if not configuration.private or chosen.own_noise(configuration.learning.given()):
        return np.empty(0)
    from coordinator_free.privacy.accounting import calibrate

    assert privacy.epsilon is not None
    assert not isinstance(privacy.r, str)
    bought = chosen.calibrate(
        privacy.mechanism,
        configuration.clock.updates,
        privacy.epsilon,
        privacy.delta or 0.0,
        {**configuration.learning.given(), "clip": privacy.clip},
        dimension,
    )
    if bought is not None:
        return bought
    charged = chosen.charged(configuration.clock.updates)
    uses = min(privacy.uses or charged, charged)
    shared = calibrate(
        privacy.mechanism,
        uses,
        privacy.epsilon,
        privacy.delta or 0.0,
        privacy.allocation,
        r=privacy.r,
        dimension=chosen.release_dimension(dimension),
    )
    # Fewer uses than releases: each record is in so many, all alike, and the budget is one of each record.
    return shared if uses == charged else np.full(charged, shared[0])


def foreseen(configuration: Configuration, graph: Network) -> tuple[str, ...]:
    """What the algorithm's theory warns of."""
    chosen = algorithm(configuration.learning.algorithm)
    return chosen.foresee(configuration.learning.given(), configuration.clock.updates, graph)
