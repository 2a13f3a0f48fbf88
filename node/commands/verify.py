"""``sottovoce verify``: re-executes a run and compares every release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

if TYPE_CHECKING:
    from node.audit.verify import Verdict

_SHOWN = 10


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON document.")] = False,
) -> None:
    """Execute a run again and compare every release bit for bit.

    A run is executed from its shards, secrets and log. Exit status 1 if any differs.

    Example: sottovoce verify runs/schools
    """
    from rich.console import Console
    from rich.markup import escape

    from node.audit.verify import VERSION
    from node.audit.verify import verify as execute_again
    from node.folder.shard import ShardError

    console = Console(highlight=False, soft_wrap=True)
    try:
        verdict = execute_again(run)
    except ShardError as error:
        if as_json:
            print(json.dumps({"version": VERSION, "ok": False, "findings": [str(error)]}, indent=1, allow_nan=False))
        else:
            console.print(f"[red]not verified[/]: {escape(str(error))}")
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps(verdict.to_json(), indent=1, allow_nan=False))
    else:
        show(verdict, console)
    if not verdict.ok:
        raise typer.Exit(1)


def show(verdict: Verdict, console: Console) -> None:
    """The verdict in words, the first difference first."""
    from rich.markup import escape

    console.print(_outcome(verdict))
    for difference in verdict.differences[:_SHOWN]:
        console.print(f"  {escape(difference.in_words())}")
    for finding in verdict.findings[:_SHOWN]:
        console.print(f"  {escape(finding)}")
    for stop in verdict.stopped[:_SHOWN]:
        console.print(f"  not followed further: {escape(stop.in_words())}")
    hidden = max(0, len(verdict.differences) - _SHOWN) + max(0, len(verdict.findings) - _SHOWN)
    if hidden:
        console.print(f"  and {hidden} more (--json shows all)")
    if verdict.filled:
        console.print(f"{verdict.filled} releases that the log missed come from the agents' journals")
    if verdict.missing:
        console.print(f"{verdict.missing} releases are nowhere and were not verified")
    for line in verdict.damage:
        console.print(f"the log is damaged: {escape(line)}")


def _outcome(verdict: Verdict) -> str:
    agents = verdict.agents
    how = "bit for bit" if verdict.exact else "to 1e-9, since this is not the build that made the run"
    if verdict.ok:
        return f"[green]verified[/]: {verdict.releases} releases of {agents} agents, {how}"
    if verdict.releases == 0:
        return "[red]not verified[/]: there are no releases"
    if not verdict.differences and not verdict.findings:
        return f"[yellow]incomplete[/]: the releases that there are of {agents} agents agree with their code, {how}"
    return f"[red]not verified[/]: {len(verdict.differences)} of {agents} agents differ from their code, {how}"
