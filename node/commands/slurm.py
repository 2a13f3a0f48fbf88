"""``sottovoce slurm``: a configuration as a batch script of Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.commands.arguments import Config, Override


def slurm(
    config: Config,
    nodes: Annotated[int, typer.Option(help="The number of nodes; each starts its share of the agents.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run's folder. Default: runs/NAME.", show_default=False)
    ] = None,
    override: Override = None,
) -> None:
    """Print a batch script of Slurm that deals a run, starts its agents on several nodes, and scores it.

    The run's folder must be on a file system that all nodes share.

    Example: sottovoce slurm examples/compose.toml --nodes 3 > job.sh && sbatch job.sh
    """
    from node.configuration.reading import load
    from node.worlds.slurm import batch_script

    configuration = load(config, override or [])
    run = out or Path("runs") / configuration.run.name
    print(batch_script(configuration, config, run, nodes, override or []), end="")
