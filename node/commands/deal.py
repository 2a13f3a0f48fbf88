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
    override: Override = None,
) -> None:
    """Deal data, graph, secrets and ledgers, and start nothing.

    With --parts every agent's shard, secret and ledger are moved to PARTS/agent-NNNN and the public files are copied
    to PARTS/eavesdropper; each goes to its host. Their links are encrypted, unless network.encryption = false.
    Dealing the same configuration again changes nothing.

    Example: sottovoce deal examples/compose.toml --out runs/hosts --parts parts
    """
    from node.configuration.reading import load

    configuration = load(config, override or [])
    if parts is not None and configuration.network.encryption is None:
        # Parts go to several hosts or containers, so what their agents release leaves this machine.
        network = configuration.network.model_copy(update={"transport": "tcp", "encryption": True})
        configuration = configuration.model_copy(update={"network": network})
    folder = (out or Path("runs") / configuration.run.name).absolute()
    deal_once(configuration, folder, again=parts is not None)
    if parts is not None:
        from node.worlds.parts import hand_over

        hand_over(folder, parts.absolute())
        print(f"dealt {folder}; parts in {parts}")
    else:
        print(f"dealt {folder}")


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
