"""``sottovoce deal``: make a run's folder without starting it, whole or in parts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.arguments import Config, Override

if TYPE_CHECKING:
    from node.configuration.sections import Configuration


def deal(
    config: Config,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/NAME.")] = None,
    parts: Annotated[
        Path | None, typer.Option(help="Move each agent's files to its own folder in this folder.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="With --parts: one part for each of these hosts, not for each agent."),
    ] = None,
    override: Override = None,
) -> None:
    """Deal data, graph, secrets and ledgers, and start nothing.

    With --parts every agent's shard, secret and ledger are moved to PARTS/agent-NNNN and the public files are copied
    to PARTS/eavesdropper; each goes to its host. Their links are encrypted, unless network.encryption = false.
    Dealing the same configuration again changes nothing.

    With --hosts the agents are shared among these hosts in their order: PARTS/NAME is what `sottovoce host` needs on
    that host. The first host also runs the eavesdropper.

    Example: sottovoce deal examples/compose.toml --out runs/hosts --parts parts --hosts alpha,beta,gamma
    """
    from node.configuration.reading import load

    if hosts is not None and parts is None:
        raise ValueError(f"--hosts {hosts} has no effect without --parts FOLDER, where the hosts' parts are made")
    configuration = load(config, override or [])
    if parts is not None and configuration.network.encryption is None:
        # Parts go to several hosts or containers, so what their agents release leaves this machine.
        network = configuration.network.model_copy(update={"transport": "tcp", "encryption": True})
        configuration = configuration.model_copy(update={"network": network})
    folder = (out or Path("runs") / configuration.run.name).absolute()
    deal_once(configuration, folder, again=parts is not None)
    if parts is not None:
        from node.worlds.parts import hand_over

        _share(folder, hosts, eavesdropper=configuration.eavesdropper.enabled)
        hand_over(folder, parts.absolute())
        print(f"dealt {folder}; parts in {parts}")
    else:
        print(f"dealt {folder}")


def _share(folder: Path, hosts: str | None, *, eavesdropper: bool) -> None:
    """Share the dealt agents among the named hosts, once."""
    from node.folder.hosts import HostsError, read_hosts, shared, write_hosts
    from node.folder.manifest import read_manifest
    from node.places import HANDED_OVER

    names = [name.strip() for name in hosts.split(",")] if hosts is not None else []
    wanted = shared(names, read_manifest(folder).agents, eavesdropper=eavesdropper) if names else []
    if (folder / HANDED_OVER).exists() and wanted != read_hosts(folder):
        raise HostsError(f"--hosts {hosts}: {folder} was dealt in other parts; choose another --out")
    if wanted:
        write_hosts(folder, wanted)


def deal_once(configuration: Configuration, folder: Path, *, again: bool) -> None:
    """Deal, unless ``again`` allows that the folder was dealt from the same configuration before."""
    from node.configuration.public import dump
    from node.configuration.refusals import ConfigurationError
    from node.dealing.folder import deal_run

    if again and (folder / "manifest.json").exists():
        if (folder / "config.toml").read_text(encoding="utf-8") != dump(configuration):
            raise ConfigurationError(
                f"run folder {folder} was dealt from another configuration; choose another --out or run.name, or "
                "remove it with its parts (ledgers and all)"
            )
        return
    manifest = deal_run(configuration, folder)
    for warning in manifest.warnings:
        print(f"warning: {warning}", file=sys.stderr)
