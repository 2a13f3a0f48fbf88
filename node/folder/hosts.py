"""The hosts of a run: which agents each of them holds, in ``hosts.json``. It is public.

Rules that hold here:
- Every agent is held by exactly one host; at most one host runs the eavesdropper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.folder.manifest import RunFolderError, read_json
from node.folder.whole import write_document

HOSTS = "hosts.json"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class HostsError(ValueError):
    """Hosts that cannot share a run; one line."""


@dataclass(frozen=True, slots=True)
class HostShare:
    """One host's share of a run: its agents, in ascending order, and whether it runs the eavesdropper."""

    name: str
    agents: tuple[int, ...]
    eavesdropper: bool


def checked_name(name: str) -> str:
    """Return the name of a host.

    Raises
    ------
    HostsError
        If it could not be the name of a file or of a machine.
    """
    if not _NAME.fullmatch(name) or name in ("eavesdropper", "shards", "agents"):
        raise HostsError(
            f"host {name[:70]!r}: accepted are 1 to 63 lower-case letters, digits and hyphens, without a hyphen at "
            'either end, and not "eavesdropper"'
        )
    return name


def shared(names: Sequence[str], agents: int, *, eavesdropper: bool) -> list[HostShare]:
    """Share ``agents`` among hosts in runs of equal length; the first host runs the eavesdropper, if there is one.

    Raises
    ------
    HostsError
        For a name that is none or comes twice, or for more hosts than agents.
    """
    for name in names:
        checked_name(name)
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise HostsError(f"hosts: {twice[0]!r} comes twice; accepted is each name once")
    if not 1 <= len(names) <= agents:
        raise HostsError(f"hosts: {len(names)} hosts for {agents} agents; accepted is at least one agent a host")
    cuts = [agents * place // len(names) for place in range(len(names) + 1)]
    return [
        HostShare(name, tuple(range(cuts[place], cuts[place + 1])), eavesdropper and place == 0)
        for place, name in enumerate(names)
    ]


def write_hosts(folder: Path, hosts: Sequence[HostShare]) -> None:
    """Write ``hosts.json``."""
    document = {"hosts": [{"name": h.name, "agents": list(h.agents), "eavesdropper": h.eavesdropper} for h in hosts]}
    write_document(folder / HOSTS, document, 0o644)


def read_hosts(folder: Path) -> list[HostShare]:
    """Read ``hosts.json``; empty where the run has no hosts.

    Raises
    ------
    RunFolderError
        If it is not whole.
    """
    document = read_json(folder / HOSTS)
    if not document:
        return []
    try:
        return [_share(one) for one in document["hosts"]]
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder / HOSTS} is not whole: {error}") from None


def _share(document: Any) -> HostShare:
    agents = tuple(int(agent) for agent in document["agents"])
    return HostShare(checked_name(document["name"]), agents, bool(document["eavesdropper"]))
