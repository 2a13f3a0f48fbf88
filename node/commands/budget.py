"""``sottovoce budget``: what a privacy budget buys, and how to spend it, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.commands.documents import document_text


def budget(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.", show_default=False)],
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable.")
    ] = None,
    observers: Annotated[
        bool, typer.Option("--observers", help="Also epsilon as single agents see it, which is not the promise.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what the privacy budget buys, and propose how to spend it. Nothing is run, and nothing is charged.

    The noise of each release, its size for small and large agents, the total by every accountant, and the same for
    other numbers of updates; then updates, clip and step from public numbers, and why.

    Example: sottovoce budget examples/schools.toml --set privacy.epsilon=1
    """
    from rich.console import Console

    from node.commands.budget_tables import show
    from node.configuration.reading import load
    from node.dealing.bought import bought
    from node.folder.plain import plain

    configuration = load(config, override or [])
    found = bought(configuration, observers=observers)
    if as_json:
        print(document_text(plain(found)))
    else:
        show(found, configuration, Console(highlight=False))
