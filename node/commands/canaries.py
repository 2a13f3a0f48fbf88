"""``sottovoce audit --log --coins``: what the canaries of a run show to an outsider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from node.audit.outsider import Outside


def unused(options: Mapping[str, object], *, record: str, trials: int) -> list[str]:
    """The options that are given and change nothing here."""
    from node.commands.audit import TRIALS, WORST

    given = {**options, "--record": record != WORST, "--trials": trials != TRIALS}
    return [name for name, value in given.items() if value]


def audit_from_outside(
    console: Console,
    logs: Sequence[Path],
    coins: Path | None,
    confidence: float,
    idle: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Judge the canaries of the run in ``logs``, and print what came of it; ``idle``: options that change nothing.

    Raises
    ------
    ValueError
        For options that do not go together, or files that cannot be read.
    typer.Exit
        With status 1, on a finding.
    """
    from rich.console import Console

    from node.audit.outsider import audit_log
    from node.commands.documents import document_text

    if idle:
        raise ValueError(f"{idle[0]}: an audit with --log and --coins does not use it; leave it out")
    if not logs or coins is None:
        raise ValueError("--log and --coins go together: the traffic log of a run with canaries, and its coins.json")
    with Console(stderr=True).status(f"auditing {logs[0]} ..."):
        found = audit_log(logs, coins, confidence=confidence)
    if as_json:
        print(document_text(found.to_json()))
    else:
        _show(found, console)
    if not found.ok:
        raise typer.Exit(1)


def _show(found: Outside, console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    from node.commands.audit import capture_in_words, noise_in_words

    console.print(f"[bold]Audit of run {found.run}[/] from its traffic log (one record: {escape(found.record)})\n")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, text in [
        ("capture", capture_in_words(found.capture)),
        ("canaries", _canaries(found)),
        ("noise", noise_in_words(found.noise)),
        ("accounted", _accounted(found)),
        ("attacked", _attacked(found)),
        ("if charged", _if_charged(found)),
    ]:
        table.add_row(name, text)
    console.print(table)
    for note in found.notes:
        console.print(f"[yellow]note[/]: {escape(note)}")
    for finding in found.findings:
        console.print(f"[red]finding[/]: {escape(finding)}")
    if found.ok:
        console.print("[green]no finding[/]")


def _canaries(found: Outside) -> str:
    apart = "" if found.attained is None else f"; their two values are {found.attained:.0%} of the sensitivity apart"
    return f"{found.canaries}, of which {found.held} had their first value{apart}"


def _accounted(found: Outside) -> str:
    if found.accounted is None:
        return "-, no canary was judged"
    return f"epsilon {found.accounted:.3f} at delta {found.delta:.3g} at most, by the public numbers of the run"


def _attacked(found: Outside) -> str:
    if found.attacked is None:
        return "-"
    expected = "" if found.expected is None else f" (about {found.expected:.2f} where all is spent)"
    return (
        f"epsilon {found.attacked:.3f} at least{expected}, whatever the noise is: {found.right} of {found.names} "
        f"canaries named rightly; {found.confidence:.0%} confidence"
    )


def _if_charged(found: Outside) -> str:
    if found.attacked_if_charged is None:
        return "-"
    shown = found.expected_if_charged
    expected = "" if shown is None else f" (about {shown:.2f} where all is spent)"
    return (
        f"epsilon {found.attacked_if_charged:.3f} at least{expected}, if the noise has the law that was charged; "
        f"{found.confidence:.0%} confidence"
    )
