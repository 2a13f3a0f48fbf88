"""A dealt run in parts: the host or container of an agent holds that agent's part and nothing of another agent.

Where the run has hosts (`node.folder.hosts`), a host's part holds what its agents need, and the public files.

Rules that hold here:
- A part has the form of a run's folder: ``agent-0002/`` holds shard, secret, ledger and private key of agent 2;
  ``eavesdropper/`` the public files and its own key. What they write later is in their parts too.
- Handing over moves: afterwards the run's folder holds nothing private of any agent. It can be repeated after a crash.
- A ledger in a part is never replaced.
- Gathering copies everything back after the run, for scoring, `verify` and `audit`. The copies of ledgers are for
  reading only: runs charge the ledgers in the parts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from node.folder.endings import Failure, failures_of
from node.folder.hosts import HOSTS, HostShare, read_hosts
from node.folder.keys import AGENT_KEY, EAVESDROPPER_KEY, PUBLIC_KEYS
from node.folder.manifest import Manifest, read_manifest
from node.folder.whole import copy_whole
from node.places import (
    CANARIES,
    EAVESDROPPER,
    HANDED_OVER,
    agent_folder,
    agent_name,
    agents_in_words,
    shard_path,
)
from node.traffic.merge import merge_logs
from node.traffic.run_logs import log_path, logs_of

PUBLIC = ("config.toml", "topology.graphml", "manifest.json")
"""The files that the eavesdropper's part begins with."""
OWN = ("ledger.jsonl", "secret")
"""The files that an agent's folder begins with."""
VERDICT = "eavesdropper.json"
"""The eavesdropper's verdict, written when it ends."""
_LEFT = ("ledger.jsonl", "secret", "journal.bin", "final.npz", "final.json")


class PartsError(ValueError):
    """A part that cannot be written or does not exist; one line."""


def part_folder(parts: Path, agent: int, hosts: Sequence[HostShare] = ()) -> Path:
    """The folder of an agent's part: its own, or that of its host."""
    return parts / next((host.name for host in hosts if agent in host.agents), agent_name(agent))


def _observing(parts: Path, hosts: Sequence[HostShare]) -> Path:
    """The folder of the eavesdropper's part."""
    return parts / next((host.name for host in hosts if host.eavesdropper), EAVESDROPPER)


def hand_over(run: Path, parts: Path) -> None:
    """Move each agent's files from the run's folder to its part, and copy the public ones to the eavesdropper's.

    Where the run has hosts, each host's part gets the public files.

    Raises
    ------
    PartsError
        If a part cannot be written or holds another ledger.
    """
    if (run / HANDED_OVER).exists():
        return
    agents, hosts = read_manifest(run).agents, read_hosts(run)
    observing = _observing(parts, hosts)
    own = list(dict.fromkeys(part_folder(parts, agent, hosts) for agent in range(agents)))
    try:
        encrypted = _copy_public(run, own if hosts else [observing], list(dict.fromkeys((observing, *own))))
        if (run / EAVESDROPPER_KEY).exists():
            copy_whole(run / EAVESDROPPER_KEY, observing / EAVESDROPPER_KEY, 0o600)
            (run / EAVESDROPPER_KEY).unlink()
        for agent in range(agents):
            _hand_over_one(run, part_folder(parts, agent, hosts), agent, encrypted)
        for folder in (run / "shards", run / "agents"):
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        (run / HANDED_OVER).touch(mode=0o644)
    except PermissionError as error:
        raise PartsError(
            f"part {error.filename} cannot be written by user {os.getuid()}: {error.strerror}; accepted is a folder of "
            "that user (containers: start all services together, so that each has made its volume)"
        ) from None


def _copy_public(run: Path, whole: Sequence[Path], with_keys: Sequence[Path]) -> bool:
    """Copy the public files to the parts ``whole``, and the public keys to others; returns whether there are keys."""
    for part in whole:
        for name in (*PUBLIC, *(name for name in (HOSTS, CANARIES) if (run / name).exists())):
            copy_whole(run / name, part / name, 0o644)
    encrypted = (run / PUBLIC_KEYS).exists()
    for part in with_keys if encrypted else ():
        copy_whole(run / PUBLIC_KEYS, part / PUBLIC_KEYS, 0o644)
    return encrypted


def _hand_over_one(run: Path, part: Path, agent: int, encrypted: bool) -> None:
    own = agent_folder(run, agent)
    if not own.exists():
        if not (agent_folder(part, agent) / "ledger.jsonl").exists():
            raise PartsError(f"part {part} holds no ledger of agent {agent}, and {run} does not hold it any more")
        return
    names = (*OWN, AGENT_KEY) if encrypted else OWN
    dealt = {name: (own / name, agent_folder(part, agent) / name) for name in names}
    dealt["shard"] = (shard_path(run, agent), shard_path(part, agent))
    here, there = dealt["ledger.jsonl"]
    if there.exists() and there.read_bytes() != here.read_bytes():
        raise PartsError(f"part {part} holds a ledger of an earlier run, which is never replaced; use another")
    for source, target in dealt.values():
        copy_whole(source, target, 0o600)
    for source, _ in dealt.values():
        source.unlink()
    own.rmdir()


def ended(parts: Path, agents: int, *, eavesdropper: bool) -> bool:
    """Whether every agent has ended, and the eavesdropper too if there is one."""
    agents_ended = all(_final(parts, agent).exists() for agent in range(agents))
    return agents_ended and (not eavesdropper or eavesdropper_ended(parts))


def eavesdropper_ended(parts: Path) -> bool:
    """Whether the eavesdropper has written its verdict."""
    return (parts / EAVESDROPPER / VERDICT).exists()


def failures(run: Path, parts: Path) -> list[Failure]:
    """Find the agents that did not finish, in the parts that they left."""
    hosts = read_hosts(run)
    if hosts:
        return [failed for host in hosts for failed in failures_of(parts / host.name, host.agents)]
    agents = read_manifest(run).agents
    return [failed for agent in range(agents) for failed in failures_of(part_folder(parts, agent), [agent])]


def make_run(run: Path, parts: Path) -> None:
    """Make the run's folder from the public files of its hosts' parts, where there is no such folder.

    Nothing of the private files of a part is taken. So the registry of a host's data is none of this folder's business,
    and keeps what that host has reserved.

    Raises
    ------
    PartsError
        If there is something else in the folder's place, or no part of a host.
    """
    if (run / "manifest.json").exists():
        return
    found = sorted(place.parent for place in parts.glob(f"*/{HOSTS}"))
    if not found:
        raise PartsError(f"{run} is no run's folder, and {parts} holds no part of a host to make it from")
    names = (HOSTS, PUBLIC_KEYS, CANARIES, *PUBLIC)
    if run.exists() and not {path.name for path in run.iterdir()} <= {*names, HANDED_OVER}:
        raise PartsError(f"{run} is not empty and no run's folder; accepted is a new folder")
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    (run / HANDED_OVER).touch(mode=0o644)
    for name in (name for name in names if (found[0] / name).exists()):  # the manifest, which makes it a run's, is last
        copy_whole(found[0] / name, run / name, 0o644)


def _check_hosts(parts: Path, hosts: Sequence[HostShare], run: Manifest) -> None:
    """Raise `PartsError` unless there is a part of each host, of this run."""
    for host in hosts:
        part = parts / host.name
        if not (part / "manifest.json").exists():
            raise PartsError(
                f"part {part} of {agents_in_words(host.agents)} is missing; copy it there from host {host.name}. If it "
                "is lost, the log names what its agents sent (sottovoce log info), and each other part has its scores"
            )
        dealt = read_manifest(part)
        for name in ("run", "configuration_digest", "topology_digest"):
            if getattr(dealt, name) != getattr(run, name):
                raise PartsError(f"part {part} is of another run ({name} differs); accepted are parts of one run")


def gather(run: Path, parts: Path) -> None:
    """Copy the files of agents and eavesdroppers back into the run's folder.

    The logs of several eavesdroppers, in ``parts/eavesdropper-NAME``, become one.

    Raises
    ------
    PartsError
        If a part does not exist, or is of another run.
    TrafficLogError
        If the logs of several eavesdroppers cannot be merged.
    """
    hosts = read_hosts(run)
    _check_hosts(parts, hosts, read_manifest(run))
    for agent in range(read_manifest(run).agents):
        part = part_folder(parts, agent, hosts)
        try:
            copy_whole(shard_path(part, agent), shard_path(run, agent), 0o600)
            for name in _LEFT:
                source = agent_folder(part, agent) / name
                if source.exists():
                    copy_whole(source, agent_folder(run, agent) / name, 0o600)
        except FileNotFoundError as error:
            raise PartsError(f"part {part}: {error.filename} is missing; accepted is a part as it was dealt") from None
    for log in logs_of(_observing(parts, hosts)):
        copy_whole(log, run / log.name, 0o644)
    several = sorted(log for part in parts.glob(f"{EAVESDROPPER}-*") for log in logs_of(part))
    if len(several) == 1:
        copy_whole(several[0], log_path(run, 1), 0o644)
    elif several:
        merged = run / ".merged.mcap"
        merged.unlink(missing_ok=True)
        merge_logs(several, merged)
        merged.replace(log_path(run, 1))


def _final(parts: Path, agent: int) -> Path:
    return agent_folder(part_folder(parts, agent), agent) / "final.json"
