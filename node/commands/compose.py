"""``sottovoce compose``: a configuration as a compose file or a Kubernetes manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.commands.arguments import Config


def compose(
    config: Config,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="A StatefulSet with one pod a node instead; needs --nodes.")
    ] = False,
    nodes: Annotated[
        int | None, typer.Option(help="With --kubernetes: the number of nodes; each runs its share of the agents.")
    ] = None,
) -> None:
    """Print a compose file or a Kubernetes manifest.

    In a compose file each agent has a container of its own, and so has the eavesdropper. Paths in it are relative to
    the current folder, which has to be the one with the Dockerfile. On Kubernetes each pod runs `sottovoce host`.

    Example: sottovoce compose examples/compose.toml > docker-compose.yml
    """
    if kubernetes != (nodes is not None):
        given = f"--nodes {nodes} has no effect without" if nodes is not None else "--nodes N is missing beside"
        raise ValueError(f"compose: {given} --kubernetes; accepted are both or neither")
    from node.configuration.reading import load
    from node.dealing.preparation import check_agents
    from node.dealing.rows import deal_data
    from node.worlds.compose import compose_file
    from node.worlds.container_plan import plan
    from node.worlds.kubernetes import kubernetes_manifest

    configuration = load(config)
    agents = len(deal_data(configuration, configuration.run.seed or 0).shards)
    check_agents(agents)
    made = plan(configuration, config, agents, Path.cwd())
    print(compose_file(made) if nodes is None else kubernetes_manifest(made, nodes), end="")
