"""``sottovoce theory``: what the theorems of the papers say about a configuration, or about what happened in a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.documents import document_text
from node.folder.whole import write_whole

if TYPE_CHECKING:
    from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from node.experiments.theory.bound import Bound

WIDTH = 150
"""Columns of the table where it goes into a file or a pipe."""
UNCOVERED = "Computed from the records of all agents: no epsilon covers these figures."


def theory(
    subject: Annotated[
        Path, typer.Argument(metavar="RUN_OR_CONFIG", help="A run's folder, or a CONFIG.toml.", show_default=False)
    ],
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting of a CONFIG.toml; repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a picture of each bound and theory.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what the papers' theorems say about a configuration, or about what happened in a run.

    For each bound: as published and as true, its constants, those that the paper leaves open, and for a run whether
    the bound held.

    Example: sottovoce theory examples/schools-coordinate-descent.toml --out theory
    """
    from rich.console import Console

    from node.experiments.theory.registry import bounds
    from node.experiments.theory.subject import subject as read

    console = Console(stderr=True, highlight=False)
    with console.status(f"{subject} ...") as status:
        read_subject = read(subject, tuple(override or ()))
        found = bounds(read_subject, lambda what: status.update(f"{subject}: {what} ..."))
    document = {
        "subject": str(subject),
        "kind": "configuration" if read_subject.run is None else "run",
        "algorithm": read_subject.configuration.learning.algorithm,
        "agents": read_subject.agents,
        "bounds": [bound.as_json() for bound in found],
        "note": UNCOVERED,
    }
    if out is not None:
        _write(out, found, document_text(document))
    if as_json:
        print(document_text(document))
        return
    wide = Console(highlight=False)
    _show(found, str(document["algorithm"]), wide if wide.is_terminal else Console(highlight=False, width=WIDTH))
    if out is not None:
        wide.print(f"\npictures: {out}", soft_wrap=True)


def _write(folder: Path, found: Sequence[Bound], document: str) -> None:
    from node.experiments.theory.pictures import pictures

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "theory.json", (document + "\n").encode())
    for name, picture in pictures(found).items():
        write_whole(folder / name, picture)


def _show(found: Sequence[Bound], algorithm: str, console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not found:
        console.print(f"no theorem of the papers has a bound for {algorithm} with these settings")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in ("source", "bound", "reading", "over", "first", "last", "measured, last", "held"):
        table.add_column(head, justify="right" if head in ("first", "last", "measured, last") else "left")
    for bound in found:
        table.add_row(
            bound.source,
            escape(bound.name),
            bound.reading,
            escape(bound.x_label),
            *(f"{value:.4g}" for value in (bound.bound[0], bound.bound[-1])),
            "-" if bound.measured is None else f"{bound.measured[-1]:.4g}",
            {True: "yes", False: "[red]no[/]", None: "-"}[bound.held],
        )
    console.print(table)
    console.print()
    for statement, constants, unspecified in dict.fromkeys((b.statement, _constants(b), b.unspecified) for b in found):
        console.print(f"- {statement}", markup=False, soft_wrap=True)
        if constants:
            console.print(f"  with {constants}", markup=False, soft_wrap=True)
        if unspecified:
            console.print(f"  left open by the paper: {', '.join(unspecified)}", markup=False, soft_wrap=True)
    console.print(f"[yellow]{UNCOVERED}[/]")


def _constants(bound: Bound) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in bound.constants.items())
