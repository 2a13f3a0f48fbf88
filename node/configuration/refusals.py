"""What is wrong with a configuration, in one line: the setting, its value, what would be accepted."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from coordinator_free.agents.registry import users_of
from node.configuration.sections import TOPOLOGIES, Section
from node.configuration.writing import toml_value


class ConfigurationError(ValueError):
    """One line: the setting, its value, what would be accepted."""


def one_line(error: ValidationError, root: type[BaseModel]) -> str:
    """The first problem of a table that is no configuration of the type ``root``, and how many more there are."""
    # An unknown setting comes first: it often explains the others.
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    line = _line(problems[0], root)
    return line if len(problems) == 1 else f"{line} (and {len(problems) - 1} more)"


def _line(problem: Any, root: type[BaseModel]) -> str:
    location = [str(part) for part in problem["loc"]]
    setting = ".".join(location)
    if problem["type"] == "extra_forbidden":
        return _unknown(location, problem["input"], root)
    if problem["type"] == "missing":
        return f"{setting} is missing; {_accepted(location, root)}"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if not location:
        return message
    if len(location) == 1 and problem["type"] == "value_error":
        return message if message.startswith(setting) else f"[{setting}] {message}"
    return f"{setting} = {shown(problem['input'])}: {message}"


def _unknown(location: list[str], value: Any, root: type[BaseModel]) -> str:
    setting = ".".join(location)
    if location[0] == "learning" and (used := users_of(location[-1])):
        return f"{setting} = {shown(value)}: {_misplaced(location[-1], root, used)}"
    if len(location) == 1:
        known = list(root.model_fields)
        prefix, kind = "", "section"
    else:
        known = list(_section_type(root, *location[:-1]).model_fields)
        prefix, kind = f"{'.'.join(location[:-1])}.", "setting"
    nearest = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
    hint = f"did you mean {prefix}{nearest[0]}?" if nearest else f"known: {', '.join(known)}"
    if not nearest and kind == "setting":
        owners = [name for name in root.model_fields if location[-1] in _fields(root, name)]
        hint = f"did you mean {owners[0]}.{location[-1]}?" if owners else hint
    return f"{setting} is not a known {kind}; {hint}"


def _misplaced(name: str, root: type[BaseModel], used: Sequence[str]) -> str:
    """Where a setting that some algorithms have belongs, or that the chosen one does not have it."""
    for table in (("learning",), ("learning", "parameters")):
        if name in _section_type(root, *table).model_fields:
            return f"it belongs in [{'.'.join(table)}]"
    return f"{_chosen(root)} does not use it (used by {', '.join(used)}); leave it out"


def _chosen(root: type[BaseModel]) -> str:
    """The algorithm for which a type of configurations is made."""
    return str(_section_type(root, "learning").model_fields["algorithm"].default)


def _section_type(root: type[BaseModel], *location: str) -> type[BaseModel]:
    """The section, or the table within one, at a location such as ("network", "burst") or ("event", "0")."""
    here = root
    for name in location:
        if name.isdigit():
            continue
        annotation = here.model_fields[name].annotation if name in here.model_fields else None
        tables = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        here = next((kind for kind in tables if issubclass(kind, BaseModel)), Section)
    return here


def _fields(root: type[BaseModel], name: str) -> set[str]:
    return set(_section_type(root, name).model_fields)


def _accepted(location: list[str], root: type[BaseModel]) -> str:
    if len(location) == 1:
        return f"the section [{location[0]}] must be there"
    if location == ["topology", "kind"]:
        return f"it should be one of {', '.join(TOPOLOGIES)}, or package.module:function"
    fields = _section_type(root, *location[:-1]).model_fields
    annotation = fields[location[-1]].annotation if location[-1] in fields else None
    if location[0] == "learning":
        return f"{_chosen(root)} needs a number greater than 0"
    values = getattr(annotation, "__args__", ())
    if values and all(isinstance(value, str) for value in values):
        return f"it should be one of {', '.join(values)}"
    return f"it belongs in the section [{'.'.join(location[:-1])}]"


def shown(value: Any) -> str:
    """A value as an error shows it: in TOML where it can be; of a long one both ends, since a path ends in its name."""
    try:
        text = toml_value(value)
    except TypeError:
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:38]}...{text[-39:]}"
