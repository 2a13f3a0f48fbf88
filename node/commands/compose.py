"""``sottovoce compose``: a configuration as a compose file or a Kubernetes manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.commands.arguments import Config


def compose(
    config: Config,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="A StatefulSet of agents with a headless service instead.")
    ] = False,
) -> None:
    """Print a compose file or a Kubernetes manifest.

    Each agent has a container of its own, and so has the eavesdropper. Paths in it are relative to the current folder,
    which has to be the one with the Dockerfile.

    Example: sottovoce compose examples/compose.toml > docker-compose.yml
    """
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
    print(kubernetes_manifest(made) if kubernetes else compose_file(made), end="")
