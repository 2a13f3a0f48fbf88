"""``sottovoce stop``: end a run whose launcher is gone."""

from __future__ import annotations

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

    if not (run / "manifest.json").exists():
        raise ValueError(f"{run} is not a run's folder: it has no manifest.json")
    stopped = orphan.stop_run(run)
    settle(run)
    if stopped:
        Console().print("all processes of the run ended", highlight=False)
    else:
        Console().print("no process of this run was running", highlight=False)
