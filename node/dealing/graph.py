"""The graph that a configuration describes."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.dealing.rows import deal_data

if TYPE_CHECKING:
    from node.data import Dealt
    from topology.network import Network


def network(configuration: Configuration, dealt: Dealt | None = None, seed: int | None = None) -> Network:
    """The graph that the configuration describes; data are dealt only if they were not given.

    ``seed`` is used where neither the topology nor the run has one; without any, one is drawn.
    """
    from topology import families, files, similarity

    if seed is None:
        seed = configuration.run.seed if configuration.run.seed is not None else secrets.randbits(63)
    if dealt is None:
        dealt = deal_data(configuration, seed)
    section = configuration.topology
    agents = len(dealt.shards)
    if section.kind == "file":
        path = Path(str(section.path))
        try:
            graph = files.parse(path.read_bytes(), path.suffix.removeprefix("."))
        except OSError as error:
            raise ConfigurationError(f'topology.path = "{path}": {error.strerror}; give a graph file') from None
    elif section.kind in {"angle-similarity", "nearest-neighbours"}:
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
