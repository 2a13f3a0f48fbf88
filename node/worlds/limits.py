"""Limits of the system that a run must keep: the number of open files, and the length and place of socket paths."""

from __future__ import annotations

import os
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
    """Return the folder under which a run makes the folder of its ipc sockets; it is made where it is missing.

    Raises
    ------
    TransportError
        If the paths of sockets would be too long there.
    ConfigurationError
        If no folder can be made there.
    """
    base = Path(configuration.network.folder or tempfile.gettempdir()).absolute()
    if configuration.network.transport == "ipc":
        ipc_endpoint(base / "sv-12345678", 0)
        try:
            base.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(base, error.strerror) from None
        if not os.access(base, os.W_OK | os.X_OK):
            raise _unusable(base, "no permission to write")
    return base


def _unusable(base: Path, reason: str | None) -> ConfigurationError:
    return ConfigurationError(
        f"network.folder = {str(base)!r}: no folder of sockets can be made there ({reason}); accepted is a folder that "
        "this user can write, or network.transport = 'tcp'"
    )


def sockets_folder(configuration: Configuration) -> Path:
    """Make a fresh folder for ipc sockets; the zygote removes it at its end."""
    base = check_socket_paths(configuration)
    try:
        return Path(tempfile.mkdtemp(prefix="sv-", dir=base))
    except OSError as error:
        raise _unusable(base, error.strerror) from None
