"""``sottovoce card``: what a host tells the others of the agents that it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.commands.arguments import Config, Override


def card(
    config: Config,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="The name of this host.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="This host's new folder. Default: runs/NAME-HOST.")
    ] = None,
    eavesdropper: Annotated[
        bool, typer.Option("--eavesdropper", help="This host runs the eavesdropper: one host of the run.")
    ] = False,
    override: Override = None,
) -> None:
    """Read this host's own data, and write its card: one public file for the other hosts.

    The card FOLDER/card.json holds the names and numbers of records of this host's agents, their public keys, and the
    public bounds. FOLDER also gets what belongs to the card and stays here. data.path is this host's own file; all
    other settings must be the same on all hosts. Without data.agents, all rows of this host are one agent's.

    Example: sottovoce card study.toml --host alpha --set data.path=/data/ours.csv --eavesdropper
    """
    from node.configuration.reading import load_for_host
    from node.dealing.in_place import CARD, make_card

    configuration = load_for_host(config, override or [])
    folder = (out or Path("runs") / f"{configuration.run.name}-{host}").absolute()
    made = make_card(configuration, folder, host, eavesdropper=eavesdropper)
    sizes = sum(agent.records for agent in made.agents)
    print(f"{host}: {len(made.agents)} agents, {sizes} training records; send {folder / CARD} to the other hosts")
