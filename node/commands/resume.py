"""``sottovoce resume``: go on with a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.commands.run import conclude, watch_processes


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the table.")] = False,
) -> None:
    """Go on with a run that was interrupted.

    It may have been interrupted by Ctrl-C, by a kill of its processes, or with the whole machine. Ledgers, shards and
    secrets stay as they are. Nothing is charged twice: an agent goes on after the last index that it charged, and
    repeats its last releases with the same bytes. The eavesdropper begins another log. Events of the configuration
    (kills, partitions, joins) do not happen again.

    Example: sottovoce resume runs/schools
    """
    from rich.console import Console

    from node.worlds.ray.note import is_on_ray
    from node.worlds.resumption import resumed

    folder = run.absolute()
    console = Console(stderr=True)
    if is_on_ray(folder):
        from node.commands.on_ray import resume_on_ray

        resume_on_ray(folder, console, as_json=as_json)
        return
    with resumed(folder) as resumption:
        if resumption.in_twin:
            with console.status(f"{resumption.manifest.agents} agents in the twin ..."):
                watch = resumption.run_in_twin()
        else:
            cluster = resumption.cluster()
            resumption.prepare_processes()
            watch = watch_processes(
                cluster, resumption.configuration, folder, resumption.manifest.agents, console, resumption.left
            )
        conclude(folder, watch, console, as_json=as_json)
