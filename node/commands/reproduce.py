"""``sottovoce reproduce``: a figure or table of a paper, made again beside the paper's numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from node.commands.documents import document_text
from node.folder.whole import write_whole
from node.untyped import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from node.experiments.reproduce.figure import Reproduction, Request

EVERY = 10.0
WIDTH = 150
"""Columns of the table where it goes into a file or a pipe."""


def reproduce(
    figure: Annotated[
        str | None,
        typer.Argument(
            metavar="FIGURE",
            help="As paper004/figure1, or paper004 for all figures of that paper; without it, the list.",
            show_default=False,
        ),
    ] = None,
    world: Annotated[
        str, typer.Option(help="processes: one per agent; twin: the same agents in one process.")
    ] = "processes",
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each setting. Default: the figure's own.")] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Few agents, rounds and levels, one seed: shows that it can be made.")
    ] = False,
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting of every run.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for picture, numbers and run folders. Default: runs/reproduce-FIGURE.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Make a figure or table of a paper again, or all of a paper, as published and truly private.

    Example: sottovoce reproduce paper004/figure1 --world twin
    """
    from rich.console import Console

    from node.experiments.reproduce.figure import FigureError, Request
    from node.experiments.reproduce.registry import FIGURES, of_paper, papers
    from node.experiments.trial import WORLDS

    console = Console(stderr=True, highlight=False)
    if figure is None:
        _list(as_json)
        return
    if world not in WORLDS:
        raise FigureError(f"--world {world}: accepted are {' and '.join(WORLDS)}")
    if figure not in FIGURES and figure not in papers():
        raise FigureError(f"figure {figure}: not known; accepted are {', '.join((*FIGURES, *papers()))}")
    folder = (out or Path("runs") / f"reproduce-{figure.replace('/', '-')}").absolute()
    request = Request(world=world, seeds=seeds, overrides=tuple(override or ()), folder=folder, small=small)
    if figure in FIGURES:
        document = _make(figure, request, console, figure, [], shows=not as_json)
    else:
        plan = of_paper(figure, replace(request, known={}))
        made = []
        for number, (name, wanted) in enumerate(plan.items(), 1):
            wanted = replace(wanted, folder=folder / name.partition("/")[2])
            left_out = [
                f"--set {o} is not used by this figure." for o in request.overrides if o not in wanted.overrides
            ]
            made.append(_make(name, wanted, console, f"{name} ({number} of {len(plan)})", left_out, shows=not as_json))
        document = {"paper": figure, "figures": made}
    if as_json:
        print(document_text(document))


def _make(figure: str, request: Request, console: Console, called: str, left_out: list[str], *, shows: bool) -> Json:
    """Make one figure in the request's folder, and note the overrides that were ``left_out``; its document."""
    from rich.console import Console

    from node.experiments.reproduce.registry import reproduce as make

    began = time.monotonic()
    with console.status(f"{called} ...") as status:
        runs = request.folder / time.strftime("runs-%Y%m%dT%H%M%S")
        made = make(figure, replace(request, folder=runs, tell=_teller(console, status, called)))
        made = replace(made, notes=[*made.notes, *(f"--set {o} is not used by this figure." for o in left_out)])
    seconds = round(time.monotonic() - began, 1)
    how = {"world": request.world, "settings": list(request.overrides), "seconds": seconds}
    document = {**made.as_json(), **how}
    picture = _write(request.folder, made, document)
    if shows:
        wide = Console(highlight=False)
        _show(
            made,
            f"{request.world}, {seconds:.0f} s",
            picture,
            wide if wide.is_terminal else Console(highlight=False, width=WIDTH),
        )
    return document


def _teller(console: Console, status: Status, figure: str) -> Callable[[str], None]:
    """Shows which run is made: in place on a terminal, elsewhere a line for one every `EVERY` seconds."""
    due = time.monotonic()

    def tell(run: str) -> None:
        nonlocal due
        status.update(f"{figure}: {run} ...")
        if not console.is_terminal and time.monotonic() >= due:
            console.print(f"{figure}: {run} ...", soft_wrap=True)
            due = time.monotonic() + EVERY

    return tell


def _list(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from node.experiments.reproduce.registry import FIGURES

    if as_json:
        print(document_text({"figures": {name: {"title": f.title, "data": f.data} for name, f in FIGURES.items()}}))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in ("figure", "what it shows", "needs"):
        table.add_column(head)
    for name, f in FIGURES.items():
        table.add_row(name, f.title, "" if f.data is None else f"data.path: {f.data}")
    Console(highlight=False).print(table)


def _write(folder: Path, made: Reproduction, document: Json) -> Path | None:
    from node.experiments.charts import draw

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "reproduction.json", (document_text(document) + "\n").encode())
    if not made.panels:
        return None
    picture = folder / f"{made.figure.replace('/', '-')}.png"
    write_whole(picture, draw(made.panels))
    return picture


def _show(made: Reproduction, how: str, picture: Path | None, console: Console) -> None:
    from rich.table import Table

    console.print(f"[bold]{made.figure}[/]: {made.title} ({how})")
    console.print(f"the paper: {made.paper}\n")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    heads = list(made.rows[0]) if made.rows else []
    for head in heads:
        words = all(isinstance(row[head], str) for row in made.rows)
        table.add_column(head, justify="left" if words else "right")
    for row in made.rows:
        table.add_row(*(_cell(row[head]) for head in heads))
    console.print(table)
    console.print()
    for finding in made.findings:
        console.print(f"- {finding}")
    for note in made.notes:
        console.print(f"[yellow]{note}[/]")
    if picture is not None:
        console.print(f"\npicture: {picture}", soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 0.001 or abs(value) >= 100 else f"{value:.3f}"
    return str(value)
