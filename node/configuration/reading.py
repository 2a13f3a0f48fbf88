"""A run's configuration: TOML, validated, with errors that name the setting, its value and what would be accepted.

Rules that hold here:
- A setting that is not known is an error that names the nearest known one; one that the run does not use is an error
  that says why.
- No seed is ever filled in: ``run.seed`` is what the person wrote, or nothing.
- Whatever would make a privacy claim false is refused here, before any data is read; what only the data can show is
  refused while dealing.
- The configuration of a run that was dealt is read as it was written, whatever is refused today.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from coordinator_free.agents.registry import AlgorithmError, algorithm, users_of
from node.configuration.learning import configuration_type, named_in
from node.configuration.refusals import ConfigurationError, one_line
from node.configuration.rules import RULES
from node.configuration.sections import Configuration, LearningSection
from node.configuration.usage import refused
from node.untyped import Tree

_PART = re.compile(r"""\s*(?:"[^"]+"|'[^']+')\s*|[^.="']*[^.="'\s][^.="']*""")
_OVERRIDE = re.compile(rf"((?:{_PART.pattern})(?:\.(?:{_PART.pattern}))+)=(.*)", re.DOTALL)
"""The key of an override, of two parts or more between dots, and its value."""


def load(path: Path | str, overrides: Sequence[str] = (), scenario: Path | None = None) -> Configuration:
    """The configuration in the TOML file ``path``, with ``section.key=value`` overrides.

    ``scenario`` is a TOML file with the same ``[network]`` and ``[[event]]`` tables, laid over the configuration's.

    Defaults that depend on other settings are filled in; paths of data and graph are made absolute (found from the
    current folder, else from the file's). Raises `ConfigurationError`.
    """
    path = Path(path)
    table = _read_table(path, "configuration")
    if scenario is not None:
        _lay_over(table, _read_table(scenario, "--scenario"), scenario)
    for override in overrides:
        set_value(table, override)
    return from_table(table, name=path.stem, folder=path.parent)


def load_for_host(path: Path, overrides: Sequence[str]) -> Configuration:
    """The configuration for cards: without ``data.agents`` all rows of a host are one agent's; links have keys.

    Raises `ConfigurationError`.
    """
    table = _read_table(path, "configuration")
    for override in overrides:
        set_value(table, override)
    data = table.setdefault("data", {})
    decided = any(key in data for key in ("agents", "column", "sizes")) or data.get("split", "even") != "even"
    if not decided and data.get("source") != "schools":
        data["agents"] = 1
    configuration = from_table(table, name=path.stem, folder=path.parent)
    network = configuration.network
    if network.encryption is None:
        network = network.model_copy(update={"transport": "tcp", "encryption": True})
    return configuration.model_copy(update={"network": network})


def _read_table(path: Path, what: str) -> Tree:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror or error}; give a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} {path} is not TOML: {error}") from None


def _lay_over(table: Tree, scenario: Mapping[str, Any], path: Path) -> None:
    """Put a scenario's network settings in the place of the configuration's, and its events after them."""
    for section in scenario:
        if section not in ("network", "event"):
            raise ConfigurationError(f"--scenario {path}: has a section [{section}]; accepted are network and event")
    table["network"] = {**table.get("network", {}), **scenario.get("network", {})}
    table["event"] = [*table.get("event", []), *scenario.get("event", [])]


def load_dealt(path: Path | str) -> Configuration:
    """The resolved configuration in the folder of a run, which this version or an earlier one wrote.

    An earlier version accepted settings that the run did not use: they are passed over.
    """
    path = Path(path)
    table = _read_table(path, "configuration")
    table.get("privacy", {}).pop("as_published", None)
    try:
        section = configuration_type(named_in(table)).model_fields["learning"].annotation
    except AlgorithmError as error:
        raise ConfigurationError(str(error)) from None
    parameters = _fields(section)["parameters"].annotation
    given = table.get("learning", {}).get("parameters", {})
    if parameters != Tree:
        for key in [key for key in given if key not in _fields(parameters)]:
            del given[key]
    return from_table(table, name=path.stem, folder=path.parent, lenient=True)


def from_table(
    table: Mapping[str, Any], *, name: str = "run", folder: Path | None = None, lenient: bool = False
) -> Configuration:
    """The configuration in a table.

    Parameters
    ----------
    table
        The sections, as TOML has them.
    name, folder
        Stand for the file that the table would have come from.
    lenient
        Pass over known settings that this configuration does not use: for a table that serves several algorithms.

    Raises
    ------
    ConfigurationError
        In one line: the setting, its value, what would be accepted.
    """
    try:
        kind = configuration_type(named_in(table))
    except AlgorithmError as error:
        raise ConfigurationError(str(error)) from None
    given = {**table, "learning": table.get("learning", {})}
    if lenient:
        given["learning"] = _without_others(given["learning"], kind)
    try:
        configuration = kind.model_validate(given)
    except ValidationError as error:
        raise ConfigurationError(one_line(error, kind)) from None
    configuration = _resolved(configuration, name, folder)
    for rule in RULES if lenient else (*RULES, refused):
        complaint = rule(configuration)
        if complaint:
            raise ConfigurationError(complaint)
    return configuration


def _without_others(learning: Any, kind: type[Configuration]) -> Any:
    """``[learning]`` without the settings that other algorithms have and this one has not."""
    known = _fields(kind.model_fields["learning"].annotation)
    if not isinstance(learning, Mapping):
        return learning
    return {key: value for key, value in learning.items() if key in known or not users_of(key)}


def _fields(kind: Any) -> dict[str, FieldInfo]:
    """The settings of a section's type; none where ``kind`` is another type."""
    return dict(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else {}


def set_value(table: Tree, override: str) -> None:
    """Set one ``section.key=value`` in place; the value is TOML, or else a bare string.

    A part of the key that holds a dot or an equals sign is in quotes, as in TOML: ``data.bounds."IQ.verb"=[1, 19]``.
    """
    found = _OVERRIDE.fullmatch(override)
    if found is None:
        raise ConfigurationError(
            f"--set {override}: should be section.key=value, with a part that holds a dot in quotes, such as "
            "'data.bounds.\"IQ.verb\"=[1, 19]'"
        )
    key, text = found.groups()
    parts = [_unquoted(part.strip()) for part in _PART.findall(key)]
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"--set {override}: {part} is not a section")
    table[parts[-1]] = value


def _unquoted(part: str) -> str:
    return part[1:-1] if part[0] in "\"'" else part


def _resolved(configuration: Configuration, name: str, folder: Path | None) -> Configuration:
    run, data, topology = configuration.run, configuration.data, configuration.topology
    learning, privacy = configuration.learning, configuration.privacy
    if not run.name:
        run = run.model_copy(update={"name": name})
    if data.path is not None:
        data = data.model_copy(update={"path": _absolute(str(data.path), folder)})
    if data.registry is not None and folder is not None:
        # It may not be there yet: it has one place, wherever the command is called from.
        data = data.model_copy(update={"registry": str((folder / Path(data.registry).expanduser()).absolute())})
    if topology.path is not None:
        topology = topology.model_copy(update={"path": _absolute(topology.path, folder)})
    if privacy.budgets is not None:
        privacy = privacy.model_copy(update={"budgets": _absolute(privacy.budgets, folder)})
    resolved = {"run": run, "data": data, "topology": topology, "learning": _filled_in(learning, configuration.private)}
    return configuration.model_copy(update={**resolved, "privacy": privacy})


def _filled_in(learning: LearningSection, private: bool) -> LearningSection:
    """Defaults that depend on other settings."""
    chosen = algorithm(learning.algorithm)
    changes: Tree = {}
    if learning.smoothness is None and chosen.uses_smoothness:
        changes["smoothness"] = "bound" if private else "data"
    return learning.model_copy(update=changes)


def _absolute(path: str, folder: Path | None) -> str:
    here = Path(path).expanduser()
    if not here.exists() and not here.is_absolute() and folder is not None and (folder / here).exists():
        here = folder / here
    return str(here.absolute())
