"""The graph that a configuration describes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from node.configuration.agent_names import AgentNameError, have_own_names, numbered
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.dealing.rows import deal_data
from node.folder.profiles import is_learned

if TYPE_CHECKING:
    from node.data import Dealt
    from topology.network import Network


_FROM_DATA = frozenset({"angle-similarity", "nearest-neighbours"})
"""The kinds of graphs that are built from the data."""


def public_assumptions(configuration: Configuration, dealt: Dealt) -> tuple[str, ...]:
    """What of the data a run treats as public, its graph included, each in a sentence."""
    from_graph = (dealt.similarity_assumption,) if configuration.topology.kind in _FROM_DATA else ()
    return tuple(dict.fromkeys((*dealt.public_assumptions, *filter(None, from_graph))))


def network(configuration: Configuration, dealt: Dealt | None = None, seed: int | None = None) -> Network:
    """The graph that the configuration describes; data are dealt only if they were not given.

    ``seed`` is used where neither the topology nor the run has one; without any, one is drawn.
    """
    from topology import families, similarity

    if seed is None:
        seed = configuration.run.seed if configuration.run.seed is not None else secrets.randbits(63)
    if dealt is None:
        dealt = deal_data(configuration, seed)
    section = configuration.topology
    if is_learned(configuration):
        raise ConfigurationError(
            'topology.kind = "private-similarity": the graph is learned when a run is dealt, and each look before that '
            "would be one more release; look at topology.graphml in the run's folder"
        )
    agents = len(dealt.shards)
    if section.kind == "file":
        graph = _from_file(Path(str(section.path)), dealt.names)
    elif section.kind in _FROM_DATA:
        if dealt.similarity is None:
            raise ConfigurationError(
                f'topology.kind = "{section.kind}": data.source "{configuration.data.source}" has nothing to compare '
                "agents by; use a family such as random-regular"
            )
        if section.kind == "angle-similarity":
            graph = similarity.angle_similarity(
                dealt.similarity,
                0.1 if section.gamma is None else section.gamma,
                1e-3 if section.threshold is None else section.threshold,
            )
        else:
            graph = similarity.nearest_neighbours(dealt.similarity, section.neighbours or 10)
    else:
        parameters = section.model_dump(exclude={"kind", "path", "seed"}, exclude_none=True)
        graph = families.build(section.kind, agents, seed if section.seed is None else section.seed, **parameters)
    if graph.agents != agents:
        raise ConfigurationError(
            f'topology.kind = "{section.kind}": the graph has {graph.agents} agents, the data {agents}'
        )
    return graph


def _from_file(path: Path, names: Sequence[str]) -> Network:
    """The graph in a file; agents with names of their own are found by name."""
    from topology import files
    from topology.named_edges import Numbering, by_themselves

    numbering: Numbering = by_themselves
    if have_own_names(names):
        numbering = partial(_numbered, names, f'topology.path = "{path}"')
    try:
        return files.parse(path.read_bytes(), path.suffix.removeprefix("."), numbering)
    except OSError as error:
        raise ConfigurationError(f'topology.path = "{path}": {error.strerror}; give a graph file') from None


def _numbered(names: Sequence[str], setting: str, found: Sequence[str]) -> Sequence[int]:
    """The agents that a graph file names: by their names, or by number where it numbers them all from 0."""
    from topology.errors import GraphFileError

    if len(found) != len(names):
        raise GraphFileError(f"{setting}: the graph has {len(found)} agents, the data {len(names)}")
    try:
        numbers = numbered(found, names)
    except AgentNameError as error:
        if set(found) != {str(number) for number in range(len(names))}:
            raise GraphFileError(f"{setting}: {error}") from None
        return [int(name) for name in found]
    missing = set(range(len(names))) - set(numbers)
    if missing:
        raise GraphFileError(
            f"{setting}: two names in the graph are of one agent, and {names[min(missing)]!r} has none"
        )
    return numbers


def check_links(configuration: Configuration, graph: Network) -> None:
    """Raise a one-line error for conditions of a link that the graph does not have."""
    for number, link in enumerate(configuration.network.link):
        for key, agent in (("from", link.sender), ("to", link.receiver)):
            if agent >= graph.agents:
                raise ConfigurationError(
                    f"network.link.{number}.{key} = {agent}: should be an agent, 0 to {graph.agents - 1}"
                )
        if link.receiver not in graph.neighbours(link.sender):
            raise ConfigurationError(
                f"network.link.{number}.to = {link.receiver}: should be a neighbour of agent {link.sender}, one of "
                f"{', '.join(map(str, graph.neighbours(link.sender)))}"
            )
