"""``sottovoce assemble``: one run from the cards of its hosts."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer

from node.commands.arguments import Config, Override


def assemble(
    config: Config,
    cards: Annotated[list[Path], typer.Argument(metavar="CARD...", help="The card of each host.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The assembled run, for all hosts; must not exist.")],
    override: Override = None,
) -> None:
    """Check the cards of all hosts, and write them into one public file, with which each host starts.

    No data are read. Each host computes graph, confidences and noise from the file by itself, and refuses a file that
    changed its card or was made with other settings. The numbers of records that are printed weigh the hosts' models:
    a host that claims more than it has gets more weight.

    Example: sottovoce assemble study.toml alpha.json beta.json gamma.json --out study-run.json
    """
    from node.configuration.reading import load_for_host
    from node.dealing.card import Assembly, check_assembly, check_together, dealt_of, read_card
    from node.dealing.in_place import check_in_place
    from node.dealing.preparation import prepare
    from node.folder.whole import write_whole

    if out.exists():
        raise ValueError(f"--out {out} exists; a run is assembled once: choose another name")
    configuration = load_for_host(config, override or [])
    check_in_place(configuration)
    read = [read_card(path) for path in cards]
    check_together(read)
    drawn = secrets.randbits(63) if configuration.run.seed is None else configuration.run.seed
    assembly = Assembly(run=secrets.token_hex(16), seed=drawn, cards=tuple(read))
    check_assembly(configuration, assembly)
    preparation = prepare(configuration, drawn, dealt_of(assembly))
    write_whole(out, (json.dumps(assembly.model_dump(mode="json"), indent=1) + "\n").encode(), 0o644)
    for one in read:
        sizes = sum(agent.records for agent in one.agents)
        print(f"{one.host}: {len(one.agents)} agents, {sizes} training records{_observing(one.eavesdropper)}")
    for warning in preparation.warnings:
        print(f"warning: {warning}")
    print(f"{preparation.agents} agents; send {out} to all hosts: sottovoce host FOLDER --run {out.name}")


def _observing(eavesdropper: bool) -> str:
    return ", and the eavesdropper" if eavesdropper else ""
