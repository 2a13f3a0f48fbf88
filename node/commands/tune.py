"""``sottovoce tune``: parameters chosen on other instances or on a validation split, in the twin."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from node.commands.documents import document_text
from node.configuration.writing import toml_value

if TYPE_CHECKING:
    from rich.console import Console

    from node.configuration.sections import Configuration
    from node.experiments.tune import Tuned

UNACCOUNTED = (
    "Tuning looked at private rows many times, and no budget accounts for it: the chosen values themselves reveal "
    "something of the data. Tune on public or synthetic data where that matters."
)

SECRET = (
    "the choice and its score are covered. How long the command took is not: it shows how many trials were made. "
    "Keep it from readers of the result, as you keep the records."
)
INSTANCES, TRIALS = 3, 10


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
    instances: Annotated[
        int | None, typer.Option(min=1, help="Instances or splits that each trial is judged on [3].")
    ] = None,
    private: Annotated[
        float | None,
        typer.Option(
            metavar="EPSILON",
            help="Choose on the data's own training rows at this epsilon in all, charged in the registry of the data; "
            "only the choice and its noisy score are shown.",
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=2, max=1000, help="With --private: how many trials are made on average [10].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Choose mu, updates, clip, rate of allocation and finish_mu, one at a time, where they will not be judged.

    The synthetic task is tuned on instances of other seeds, private data of your own on simulated records of the same
    shape, other data on a part of the training rows. The result is scored once more on instances or splits that the
    search did not see.

    With --private the settings are chosen by noisy scores of the private training rows, at a stated total epsilon.

    Example: sottovoce tune examples/schools-coordinate-descent.toml --only learning.mu --only learning.finish_mu
    """
    from rich.console import Console

    from node.configuration.reading import load
    from node.dealing.reservation import note_figures
    from node.experiments.simulated import place
    from node.experiments.tune import tune as search

    configuration = load(config, override or [])
    _check_together(private, trials, on, instances)
    if private is not None:
        _choose(configuration, private, trials or TRIALS, tried, only, as_json)
        return
    where = place(configuration, on)
    if where == "data":
        note_figures(configuration, "tune")
    console = Console(stderr=True, highlight=False)
    with console.status("tuning ...") as status:
        found = search(
            configuration,
            instances=instances or INSTANCES,
            grids=dict(_grid(text) for text in tried or ()),
            only=only or (),
            on=where,
            tell=lambda what: status.update(f"{what} ..."),
        )
    if as_json:
        print(document_text({**found.as_json(), "note": None if found.accounted else UNACCOUNTED}))
    else:
        _show(found, Console(highlight=False))


def _check_together(private: float | None, trials: int | None, on: str | None, instances: int | None) -> None:
    if private is None:
        if trials is not None:
            raise ValueError(f"--trials {trials}: only a choice with --private makes a random number of trials")
        return
    if not 0.0 < private < math.inf:
        raise ValueError(f"--private {private:g}: should be a finite epsilon above 0")
    for name, given in (("--on", on), ("--instances", instances)):
        if given is not None:
            raise ValueError(f"{name} {given}: --private is judged on one validation split of the data; leave it out")


def _choose(
    configuration: Configuration,
    epsilon: float,
    trials: int,
    tried: list[str] | None,
    only: list[str] | None,
    as_json: bool,
) -> None:
    """Choose by private scores, and show the result."""
    from rich.console import Console

    from node.experiments.selection import select

    with Console(stderr=True, highlight=False).status("choosing ..."):  # not how many trials were made: that is secret
        found = select(
            configuration,
            epsilon=epsilon,
            trials=trials,
            grids=dict(_grid(text) for text in tried or ()),
            only=only or (),
        )
    if as_json:
        print(document_text(found.as_json()))
        return
    console = Console(highlight=False)
    if found.score is None:
        console.print("no trial was made, which happens by chance: use the configuration as it is")
    else:
        console.print(
            f"best noisy score: {found.metric} {found.score:.4f}, with noise of {found.noise:.4f} ({found.model})"
        )
        use = " ".join(f"--set {path}={toml_value(value)}" for path, value in found.chosen.items())
        console.print(f"use: {use or 'the configuration as it is'}", markup=False, soft_wrap=True)
    console.print(
        f"cost: epsilon {found.epsilon:.4g} at delta {found.delta:.3g} for {found.record}, charged in the registry of "
        f"the data; {found.trials} trials on average among {found.candidates} candidates ({found.law})",
        soft_wrap=True,
    )
    console.print(f"note: {SECRET}", markup=False, soft_wrap=True)


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
