"""The facts that containers are made from: the run's name, its agents, and the files that the dealing container reads.

Rules that hold here:
- Every role is the same image; what differs is the command and the volumes.
- An agent's container holds its own part of the run and nothing else. Only the containers that deal and collect see all
  parts.
- Nothing is published on the host: agents are reached at their service's name, at one port.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from node.configuration.sections import Configuration

PORT = 7700
IMAGE = "sottovoce"
AGENT_MEMORY = 128
"""MiB that an agent's container may use."""


@dataclass(frozen=True)
class Mount:
    """A file or folder that only `deal` reads: its path here, its path in the container, the setting for it."""

    source: str
    target: str
    setting: str | None = None


@dataclass(frozen=True)
class Plan:
    """The facts from which a compose file or a manifest is written."""

    name: str
    agents: int
    eavesdropper: bool
    configuration: Mount
    mounts: tuple[Mount, ...]


def plan(configuration: Configuration, path: Path, agents: int, here: Path) -> Plan:
    """Return the plan for the configuration in the file ``path``; paths below ``here`` are written relative to it."""
    mounts = []
    data = data_path(configuration)
    if data is not None:
        target = "/data" if data.is_dir() else f"/data/{data.name}"
        mounts.append(Mount(_seen_from(data, here), target, "data.path"))
    if configuration.topology.path is not None:
        graph = Path(configuration.topology.path)
        mounts.append(Mount(_seen_from(graph, here), f"/graph/{graph.name}", "topology.path"))
    if configuration.privacy.budgets is not None:
        budgets = Path(configuration.privacy.budgets)
        mounts.append(Mount(_seen_from(budgets, here), f"/budgets/{budgets.name}", "privacy.budgets"))
    return Plan(
        name=configuration.run.name,
        agents=agents,
        eavesdropper=configuration.eavesdropper.enabled,
        configuration=Mount(_seen_from(path, here), f"/configuration/{path.name}"),
        mounts=tuple(mounts),
    )


def data_path(configuration: Configuration) -> Path | None:
    """Return the file or folder that dealing reads; None if the data are made up."""
    from node.data.paths import bundled

    section = configuration.data
    if section.path is not None:
        return Path(section.path).absolute()
    return bundled(section.source, None) if section.source in {"schools", "breast-cancer"} else None


class _Lines(Template):
    """A text with ``@names``: dollars and braces have a meaning in compose and YAML."""

    delimiter = "@"


def filled(template: str, **values: str) -> str:
    """Return a template of this package with its names replaced; a value may be several lines."""
    return _Lines(files("node.worlds").joinpath(template).read_text(encoding="utf-8")).substitute(values)


def service(agent: int) -> str:
    """Return the name of an agent's service, at which its neighbours reach it."""
    return f"agent-{agent}"


def project(name: str) -> str:
    """Return the project's name: the run's name, with the characters that compose accepts."""
    return "sottovoce-" + re.sub(r"[^a-z0-9_-]", "-", name.lower())


def counted(plan: Plan) -> str:
    """Return the number of agents in words, and whether an eavesdropper is among them."""
    agents = "1 agent" if plan.agents == 1 else f"{plan.agents} agents"
    return f"{agents} and an eavesdropper" if plan.eavesdropper else agents


def _seen_from(path: Path, here: Path) -> str:
    path = path.resolve()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)


def flow(words: Sequence[str]) -> str:
    """Return a command as a YAML list on one line."""
    return f"[{', '.join(word if word.startswith('--') else text(word) for word in words)}]"


def text(word: str) -> str:
    """Return a double-quoted scalar where one is needed; a dollar is doubled, because compose would read a variable."""
    if re.fullmatch(r"[A-Za-z./][A-Za-z0-9/._-]*", word):
        return word
    return json.dumps(word, ensure_ascii=not word.isprintable()).replace("$", "$$")


def comment(word: str) -> str:
    """Return a word for a command in a comment, which ends with its line."""
    return shlex.quote(word if word.isprintable() else "...")
