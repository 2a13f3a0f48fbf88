"""A configuration as a batch script of Slurm: the template ``slurm.sh``, with one task a node.

Rules that hold here:
- Slurm places, starts, requeues and stops; the script adds nothing to that. Its tasks are `node.worlds.slurm_task`.
- Everything that a job goes on from lies in the folder of the parts, which all nodes share.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.worlds.container_plan import comment, filled


def batch_script(
    configuration: Configuration, source: Path, run: Path, nodes: int, overrides: Sequence[str] = ()
) -> str:
    """Return the batch script.

    Parameters
    ----------
    configuration, source, overrides
        The configuration, the file that it was read from, and the settings in place of the file's.
    run
        The run's folder; the parts lie beside it, in ``<run>.parts``.
    nodes
        The number of nodes.

    Raises
    ------
    ConfigurationError
        For what a task cannot carry out.
    """
    if nodes < 1:
        raise ConfigurationError(f"--nodes {nodes}: accepted is 1 or more")
    if configuration.event:
        raise ConfigurationError(
            f"event: {len(configuration.event)} events; accepted is a configuration without events, because each node "
            "starts only its own agents and no process can kill or start those of another"
        )
    if configuration.network.transport == "ipc" and "transport" in configuration.network.model_fields_set:
        raise ConfigurationError(
            "network.transport = 'ipc': accepted is 'tcp', because the agents are on several nodes"
        )
    settings = [word for override in overrides for word in ("--set", override)]
    return filled(
        "slurm.sh",
        name=re.sub(r"[^A-Za-z0-9_.-]", "-", configuration.run.name),
        nodes=str(nodes),
        source=comment(str(source)),
        python=shlex.quote(sys.executable),
        run=shlex.quote(str(run.absolute())),
        deal=shlex.join([str(source.absolute()), *settings]),
    )
