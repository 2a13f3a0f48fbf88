"""``sottovoce compare``: several algorithms at equal total privacy, with the baselines of the same data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.documents import document_text
from node.folder.whole import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from node.experiments.compare import Comparison, RowSummary


def compare(
    configs: Annotated[
        list[Path], typer.Argument(metavar="CONFIG.toml...", help="What to compare.", show_default=False)
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with seeds from run.seed (or 0) on.")] = 3,
    world: Annotated[
        str, typer.Option(help="twin: nothing is sent; processes: real runs, which charge their ledgers.")
    ] = "twin",
    on: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="simulated: records of the same shape, in the twin, which costs no privacy; data: the data's own. "
            "Default: simulated for private data of your own in the twin, else data.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting of all of them.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for picture and tables. Default: runs/compare-TIME.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare configurations of one task at equal total (epsilon, delta): mean, deviation, gain over learning alone.

    Example: sottovoce compare examples/schools-coordinate-descent.toml examples/schools-no-privacy.toml --seeds 5
    """
    from rich.console import Console

    from node.dealing.reservation import note_figures
    from node.experiments.compare import check, named, parquet, picture
    from node.experiments.compare import compare as run_all
    from node.experiments.simulated import place
    from node.experiments.trial import WORLDS, TrialError

    if world not in WORLDS:
        raise TrialError(f"--world {world}: accepted are {' and '.join(WORLDS)}")
    configurations = named(configs, override or [])
    check(configurations)
    some = next(iter(configurations.values()))
    first = some.run.seed or 0
    private = next((c for c in configurations.values() if c.private), some)
    where = place(private, on) if world == "twin" or on is not None else "data"
    if where == "simulated" and world != "twin":
        raise TrialError(f"--on simulated: nothing of it is sent, so it is for --world twin, not {world}")
    if world == "twin" and where == "data":  # runs over processes are noted one by one
        note_figures(some, "compare")
    folder = (out or Path("runs") / time.strftime("compare-%Y%m%dT%H%M%S")).absolute()
    console = Console(stderr=True, highlight=False)
    with console.status("comparing ...") as status:
        made = run_all(
            configurations,
            range(first, first + seeds),
            world,
            folder / "runs",
            lambda what: status.update(f"{what} ..."),
            where,
        )
    folder.mkdir(parents=True, exist_ok=True)
    document = document_text(made.as_json())
    write_whole(folder / "comparison.json", (document + "\n").encode())
    write_whole(folder / "comparison.png", picture(made))
    table = parquet(made)
    if table is not None:
        write_whole(folder / "comparison.parquet", table)
    if as_json:
        print(document)
        return
    wide = Console(highlight=False)
    _show(made, folder, wide if wide.is_terminal else Console(highlight=False, width=140))


def _show(made: Comparison, folder: Path, console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head, justify in (
        ("configuration", "left"),
        ("model", "left"),
        ("epsilon", "right"),
        (made.metric, "right"),
        ("deviation", "right"),
        ("worst agent", "right"),
        ("smallest quarter", "right"),
        ("gain over alone", "right"),
    ):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    for row in (one.summary() for one in made.rows):
        mark = " *" if row.private and row.model == "free finish" else ""
        table.add_row(
            row.configuration,
            row.model + mark,
            "-" if row.epsilon is None else f"{row.epsilon:.4g}",
            *map(_number, (row.mean, row.deviation, row.worst, row.smallest_quarter)),
            _gain(row),
        )
    console.print(table)
    console.print()
    if made.budget is not None:
        console.print(f"budget: {made.budget.in_words()}, for {made.record}", markup=False)
    if any(row.private and row.kind == "free finish" for row in made.rows):
        console.print("* never released and not covered by epsilon", markup=False)
    if made.on == "simulated":
        console.print("[bold]on simulated data of the same shape: no record of the data was looked at[/]")
    if made.world == "twin":
        console.print("in the twin: nothing was sent, nothing was charged; epsilon is what a run would cost")
    elif made.budget is not None:
        console.print("[yellow]every run charged its ledgers: budgets of runs on the same rows add up[/]")
    console.print("gain: difference on the same deal, with its 95% interval over seeds; positive is better")
    for note in made.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    console.print(f"{folder}/comparison.png, .json, .parquet", soft_wrap=True)


def _gain(row: RowSummary) -> str:
    if row.gain is None:
        return "-"
    half = row.gain_half_width
    return f"{row.gain:+.3f}" + ("" if half is None else f" ± {half:.3f}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
