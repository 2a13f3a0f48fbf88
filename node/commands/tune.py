"""``sottovoce tune``: parameters chosen on other instances or on a validation split, in the twin."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from node.commands.documents import document_text
from node.configuration.writing import toml_value

if TYPE_CHECKING:
    from rich.console import Console

if TYPE_CHECKING:
    from node.experiments.tune import Tuned

UNACCOUNTED = (
    "Tuning looked at private rows many times, and no budget accounts for it: the chosen values themselves reveal "
    "something of the data. Tune on public or synthetic data where that matters."
)


def tune(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to tune.", show_default=False)],
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable.")
    ] = None,
    tried: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="SECTION.KEY=V1,V2,...", help="Values to try of one setting; repeatable."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="SECTION.KEY", help="Tune this alone; repeatable.")] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="simulated: records of the same shape, which costs no privacy; data: the data's own training rows. "
            "Default: simulated for private data of your own, else data.",
        ),
    ] = None,
    instances: Annotated[int, typer.Option(min=1, help="Instances or splits that each trial is judged on.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Choose mu, updates, clip, rate of allocation and finish_mu, one at a time, where they will not be judged.

    The synthetic task is tuned on instances of other seeds, private data of your own on simulated records of the same
    shape, other data on a part of the training rows. The result is scored once more on instances or splits that the
    search did not see.

    Example: sottovoce tune examples/schools-coordinate-descent.toml --only learning.mu --only learning.finish_mu
    """
    from rich.console import Console

    from node.configuration.reading import load
    from node.dealing.reservation import note_figures
    from node.experiments.simulated import place
    from node.experiments.tune import tune as search

    configuration = load(config, override or [])
    where = place(configuration, on)
    if where == "data":
        note_figures(configuration, "tune")
    console = Console(stderr=True, highlight=False)
    with console.status("tuning ...") as status:
        found = search(
            configuration,
            instances=instances,
            grids=dict(_grid(text) for text in tried or ()),
            only=only or (),
            on=where,
            tell=lambda what: status.update(f"{what} ..."),
        )
    if as_json:
        print(document_text({**found.as_json(), "note": None if found.accounted else UNACCOUNTED}))
    else:
        _show(found, Console(highlight=False))


def _grid(text: str) -> tuple[str, list[Any]]:
    path, equals, values = text.partition("=")
    try:
        found = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError:
        found = []
    if not equals or "." not in path or not found or not all(isinstance(v, int | float) for v in found):
        raise ValueError(f"--try {text}: should be section.key=number,number,...")
    return path.strip(), found


def _show(found: Tuned, console: Console) -> None:
    from rich.table import Table

    paths = list(found.trials[0].settings)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in (*paths, found.metric, "deviation"):
        table.add_column(head, justify="right")
    best = found.after
    for trial in found.trials:
        style = "bold green" if trial.score == best else ""
        cells = [toml_value(trial.settings[path]) for path in paths]
        table.add_row(*cells, _number(trial.score, "failed"), _number(trial.deviation, "-"), style=style)
    console.print(table)
    again = found.again
    console.print(f"\njudged by the {found.model} on {found.on}")
    for what, before, after, alone in (
        ("in the search", found.before, found.after, found.alone),
        ("on as many others", again.before, again.after, again.alone),
    ):
        console.print(
            f"{what}: as configured {_number(before, 'could not run')}, best {_number(after, 'could not run')}, "
            f"agents alone {_number(alone, 'unknown')}"
        )
    if found.chosen and again.gain is not None:
        half = "" if again.gain_half_width is None else f" ± {again.gain_half_width:.4f}"
        console.print(f"expected gain over the configuration (from the others): {again.gain:+.4f}{half}")
    if found.chosen:
        use = " ".join(f"--set {path}={toml_value(value)}" for path, value in found.chosen.items())
        console.print(f"use: {use}", markup=False, soft_wrap=True)
    else:
        console.print("use: the configuration as it is")
    for note in found.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    if not found.accounted:
        console.print(f"[yellow]{UNACCOUNTED}[/]")


def _number(value: float | None, without: str) -> str:
    return without if value is None else f"{value:.4f}"
