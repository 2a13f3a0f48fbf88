"""Algorithms by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from coordinator_free.agent import Agent, Setting

KNOWN: dict[str, str] = {
    "admm": "coordinator_free.agents.admm.admm:Admm",
    "averaging": "coordinator_free.agents.averages.averaging:Averaging",
    "coordinate-descent": "coordinator_free.agents.personal.coordinate_descent:CoordinateDescent",
    "gradient-descent": "coordinator_free.agents.averages.gradient_descent:GradientDescent",
    "gossip-admm": "coordinator_free.agents.personal.gossip_admm:GossipAdmm",
    "m-admm": "coordinator_free.agents.admm.modified_admm:ModifiedAdmm",
    "dvp": "coordinator_free.agents.admm.dual_perturbation:DualPerturbation",
    "pvp": "coordinator_free.agents.admm.primal_perturbation:PrimalPerturbation",
    "pp": "coordinator_free.agents.admm.penalty_perturbation:PenaltyPerturbation",
    "graph-smoothing-2r": "coordinator_free.agents.personal.graph_smoothing_twice:GraphSmoothingTwice",
    "graph-smoothing": "coordinator_free.agents.personal.graph_smoothing:GraphSmoothing",
    "propagation": "coordinator_free.agents.personal.propagation:Propagation",
    "warm-start": "coordinator_free.agents.personal.warm_start:WarmStart",
}
"""Where each algorithm is: imported only when it is asked for."""

NEEDED = ("name", "activation", "newest_only", "addressed", "start", "receive", "wake", "finished", "model")


class AlgorithmError(ValueError):
    """An algorithm that does not exist."""


def algorithm(name: str) -> type[Agent]:
    """The class of that name, constructed from a `Setting`; ``package.module:Class`` is a user's own.

    Raises `AlgorithmError` if there is none, or if it lacks a part of the `Agent` interface.
    """
    place = KNOWN.get(name, name)
    module, colon, attribute = place.partition(":")
    if not colon:
        raise AlgorithmError(f"learning.algorithm = {name!r}: known are {', '.join(KNOWN)}, or package.module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise AlgorithmError(f"learning.algorithm = {name!r}: {error}") from None
    lacking = [part for part in NEEDED if not hasattr(found, part)]
    if lacking:
        raise AlgorithmError(f"learning.algorithm = {name!r}: lacks {', '.join(lacking)} of the Agent interface")
    return cast("type[Agent]", found)


def releases_models(name: str) -> bool:
    """Whether what the algorithm's agents release are models: a class says so where they are something else."""
    return bool(getattr(algorithm(name), "releases_models", True))


def make(name: str, setting: Setting) -> Agent:
    """An agent of algorithm ``name``."""
    return cast("Callable[[Setting], Agent]", algorithm(name))(setting)
