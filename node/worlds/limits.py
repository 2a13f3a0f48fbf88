"""Limits of the system that a run must keep: the number of open files, and the length of socket paths."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.sockets.agent_sockets import ipc_endpoint

SPARE_DESCRIPTORS = 64
"""File descriptors of a process that are not connections."""


def check_limits(folder: Path, configuration: Configuration) -> None:
    """Raise the limit on open files as far as the graph needs.

    Raises
    ------
    ConfigurationError
        If the system forbids it.
    """
    from topology import files  # networkx and scipy: only a run that starts needs them

    network = files.parse((folder / "topology.graphml").read_bytes(), "graphml")
    busiest = int(max(network.degree_counts)) if network.agents > 1 else 0
    needed = max((3 if configuration.encrypted else 2) * busiest, network.agents) + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ConfigurationError(
                f"{network.agents} agents, the busiest with {busiest} neighbours: one process needs {needed} open "
                f"{configuration.network.transport} sockets, the system allows {hard} (ulimit -Hn): use fewer agents "
                "or raise the limit"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def check_socket_paths(configuration: Configuration) -> Path:
    """Return the folder under which a run makes the folder of its ipc sockets.

    Raises
    ------
    TransportError
        If the paths of sockets would be too long there.
    """
    base = Path(configuration.network.folder or tempfile.gettempdir()).absolute()
    if configuration.network.transport == "ipc":
        ipc_endpoint(base / "sv-12345678", 0)
    return base


def sockets_folder(configuration: Configuration) -> Path:
    """Make a fresh folder for ipc sockets; the zygote removes it at its end."""
    base = check_socket_paths(configuration)
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="sv-", dir=base))
