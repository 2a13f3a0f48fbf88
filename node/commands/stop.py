"""``sottovoce stop``: end a run whose launcher is gone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def stop(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.", show_default=False)],
) -> None:
    """End the processes of a run. What was charged stays charged.

    Example: sottovoce stop runs/schools
    """
    from rich.console import Console

    from node.folder.registry import settle
    from node.worlds import orphan
    from node.worlds.ray.note import is_on_ray

    if not (run / "manifest.json").exists():
        raise ValueError(f"{run} is not a run's folder: it has no manifest.json")
    if is_on_ray(run):
        from node.commands.on_ray import stop_on_ray

        _tell_stopped(stop_on_ray(run.absolute()))
        return
    stopped = orphan.stop_run(run)
    settle(run)
    if stopped:
        Console().print("all processes of the run ended", highlight=False)
    else:
        Console().print("no process of this run was running", highlight=False)


def _tell_stopped(silent: list[str]) -> None:
    """Tell what became of the hosts of a run on a Ray cluster; exit status 1 if some did not answer."""
    if silent:
        print(f"sottovoce: {', '.join(silent)} did not answer, and may run", file=sys.stderr)
        raise typer.Exit(1)
    print("all hosts of the run ended")
