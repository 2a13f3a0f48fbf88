"""The section ``[learning]`` of one algorithm: what all share, and the algorithm's own settings.

An algorithm declares its own settings (`coordinator_free.settings.Settings`). Here they become fields of the section,
so that types, constraints and unknown names are checked as those of every other section are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, get_type_hints

from pydantic import Field as SectionField
from pydantic import create_model

from coordinator_free.agents.registry import KNOWN, algorithm, own_settings
from coordinator_free.settings import Settings
from node.configuration.sections import Configuration, LearningSection, Section
from node.untyped import Tree

_Fields = dict[str, Any]
"""Fields for pydantic, by setting: an algorithm, which may be a plug-in, declares which there are."""


@cache
def configuration_type(name: str) -> type[Configuration]:
    """The type of a configuration whose ``learning.algorithm`` is ``name``.

    Raises
    ------
    AlgorithmError
        There is no such algorithm.
    """
    own = own_settings(name)
    more: _Fields
    if own is None:
        more = _any_algorithms()
        more["parameters"] = (Tree, SectionField(default_factory=dict))
    else:
        more = _of(own, "learning")
        table = create_model("ParametersSection", __base__=Section, **_of(own, "parameters"))
        more["parameters"] = (table, SectionField(default_factory=dict, validate_default=True))
    section = create_model("LearningSection", __base__=LearningSection, algorithm=(str, name), **more)
    learning: Any = (section, ...)
    return create_model("Configuration", __base__=Configuration, learning=learning)


def settings_of(learning: LearningSection) -> Settings | None:
    """The algorithm's own settings as its frozen value; None where the algorithm leaves them open."""
    own = own_settings(learning.algorithm)
    if own is None:
        return None
    return own.of(learning.given())


def named_in(table: Mapping[str, Any]) -> str:
    """The algorithm that a configuration's table names, or else the default."""
    learning = table.get("learning")
    name = learning.get("algorithm") if isinstance(learning, Mapping) else None
    return name if isinstance(name, str) else str(LearningSection.model_fields["algorithm"].default)


def _of(own: type[Settings], table: str) -> _Fields:
    """Fields for pydantic of those settings that stand in ``table``."""
    hints = get_type_hints(own, include_extras=True)
    return {field.name: (hints[field.name], _default(field)) for field in fields(own) if _table(field) == table}


def _any_algorithms() -> _Fields:
    """Every setting of any known algorithm in ``[learning]``, none of them required."""
    found: _Fields = {}
    for name in KNOWN:
        own = algorithm(name).settings
        if own is not None:
            found |= {key: (hint | None, None) for key, (hint, _) in _of(own, "learning").items() if key not in found}
    return found


def _table(field: Field[Any]) -> str:
    return str(field.metadata.get("table", "learning"))


def _default(field: Field[Any]) -> Any:
    return ... if field.default is MISSING else field.default
