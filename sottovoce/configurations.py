"""Configurations from Python: read from a file, or built from sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from node.configuration.reading import from_table
from node.configuration.reading import load as read
from node.configuration.sections import Configuration

Source = Configuration | Mapping[str, Any] | Path | str
"""A configuration, its sections as a mapping, or the path of a TOML file."""


def load(path: Path | str, overrides: Sequence[str] = (), *, scenario: Path | str | None = None) -> Configuration:
    """Read a configuration from a TOML file.

    Parameters
    ----------
    path
        The file.
    overrides
        ``section.key=value`` each, as after ``--set``.
    scenario
        A TOML file with network conditions and events that are laid over the configuration's.

    Raises
    ------
    ConfigurationError
        One line that names the setting, its value, and what would be accepted.
    """
    return read(path, overrides, None if scenario is None else Path(scenario))


def configure(
    *, name: str = "run", event: Sequence[Mapping[str, Any]] = (), **sections: Mapping[str, Any]
) -> Configuration:
    """Build a configuration from its sections, with the names that the TOML file has.

    Parameters
    ----------
    name
        The run's name, where ``run.name`` is not given.
    event
        The ``[[event]]`` tables.
    **sections
        ``data``, ``topology``, ``learning``, ...: the keys and values of each section.

    Raises
    ------
    ConfigurationError
        One line that names the setting, its value, and what would be accepted.

    Examples
    --------
    >>> made = configure(
    ...     data={"source": "synthetic", "agents": 8, "dimension": 4},
    ...     topology={"kind": "ring"},
    ...     learning={"mu": 1.0},
    ... )
    >>> made.learning.algorithm
    'coordinate-descent'
    """
    table: dict[str, Any] = {section: dict(values) for section, values in sections.items()}
    if event:
        table["event"] = [dict(one) for one in event]
    return from_table(table, name=name)


def as_configuration(source: Source) -> Configuration:
    """The configuration that ``source`` stands for; raises `ConfigurationError`."""
    if isinstance(source, Configuration):
        return source
    if isinstance(source, Mapping):
        return from_table(source)
    return read(source)
