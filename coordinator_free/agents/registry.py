"""Algorithms by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast

from coordinator_free.agent import Setting
from coordinator_free.algorithm import Algorithm
from coordinator_free.settings import Settings

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

NEEDED = (
    "name",
    "activation",
    "newest_only",
    "addressed",
    "start",
    "receive",
    "wake",
    "finished",
    "model",
    "charge",
    "snapshot",
    "restore",
)


class AlgorithmError(ValueError):
    """An algorithm that does not exist."""


def algorithm(name: str) -> type[Algorithm]:
    """The class of that name, made from a `Setting`; ``package.module:Class`` is one of the user's own.

    Raises
    ------
    AlgorithmError
        There is no such class, or it lacks a part of the `Agent` interface.
    """
    place = KNOWN.get(name, name)
    module, colon, attribute = place.partition(":")
    if not colon:
        raise AlgorithmError(f"learning.algorithm = {name!r}: known are {', '.join(KNOWN)}, or package.module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise AlgorithmError(f"learning.algorithm = {name!r}: {error}") from None
    abstract: frozenset[str] = getattr(found, "__abstractmethods__", frozenset())
    lacking = [part for part in NEEDED if part in abstract or not hasattr(found, part)]
    if lacking:
        raise AlgorithmError(f"learning.algorithm = {name!r}: lacks {', '.join(lacking)} of the Agent interface")
    return _declared(found)


@lru_cache(maxsize=64)
def _declared(found: type[Any]) -> type[Algorithm]:
    """The class itself, or, if it declares nothing about itself, the same class with the defaults of `Algorithm`."""
    if issubclass(found, Algorithm):
        return found
    return type(found.__name__, (found, Algorithm), {"__module__": found.__module__, "__doc__": found.__doc__})


def make(name: str, setting: Setting) -> Algorithm:
    """An agent of algorithm ``name``."""
    return cast("Callable[[Setting], Algorithm]", algorithm(name))(setting)


def own_settings(name: str) -> type[Settings] | None:
    """The settings that an algorithm declares as its own; None where it leaves them open.

    A class of the user's own that inherits from a known algorithm may read more than that one: it has to declare its
    settings itself.
    """
    found = algorithm(name)
    owner = next(kind for kind in found.__mro__ if "settings" in vars(kind))
    return found.settings if name in KNOWN or not owner.__module__.startswith("coordinator_free.") else None


def users_of(setting: str) -> tuple[str, ...]:
    """The known algorithms that have a setting of their own of that name."""
    return tuple(name for name in KNOWN if setting in {field.name for field in fields(own_settings(name) or Settings)})
