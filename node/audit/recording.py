"""A run as it was recorded: its folder, its traffic log, and what the agents' journals add.

Rules that hold here:
- Whether the capture is complete is decided by the log alone. Journals only fill in what the log missed, and what they
  filled in is named.
- Where a journal and the log disagree about a frame, that is a finding.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgpack

from coordinator_free.release import Release
from node.folder.journal import read_journal
from node.folder.manifest import RunFolderError, read_manifest
from node.folder.run import RunFolder, read_run
from node.places import agent_folder, shard_path
from node.traffic.completeness import Capture, CaptureCounter
from node.traffic.run_logs import frames_of, logs_of
from node.wire import KEYS, Parts, Refused, ReleaseHeader, decode, message

Key = tuple[int, int]
"""(agent, index)."""

_LISTED: Final = 20


@dataclass
class Recording:
    """What is known of a run after it.

    ``heard``: every release by (agent, index), the first body where there are several. ``said``: of each agent, all
    distinct releases of the log in order. ``filled``: the releases that only a journal holds. ``first_ns``: when the
    eavesdropper received each. ``headers``: of each agent, the size in bytes of each distinct release's header.
    ``bodies``: of each agent, how often each size of a body. ``findings``: what is wrong with frames by themselves.
    ``damage``: what of the log's file cannot be read.
    """

    run: RunFolder
    capture: Capture
    heard: dict[Key, Release] = field(default_factory=dict)
    said: dict[int, list[Release]] = field(default_factory=dict)
    filled: set[Key] = field(default_factory=set)
    first_ns: dict[Key, int] = field(default_factory=dict)
    headers: dict[int, list[int]] = field(default_factory=dict)
    bodies: dict[int, Counter[int]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    def of(self, agent: int) -> list[Release]:
        """The agent's releases by index."""
        return self._by_agent.get(agent, [])

    @property
    def _by_agent(self) -> dict[int, list[Release]]:
        if not hasattr(self, "_sorted"):
            grouped: dict[int, list[Release]] = {}
            for key in sorted(self.heard):
                grouped.setdefault(key[0], []).append(self.heard[key])
            self._sorted = grouped
        return self._sorted


def read_recording(folder: Path) -> Recording:
    """Read a run's folder with its shards, log and journals.

    Raises `RunFolderError` where there is no run, no shard of some agent, or neither log nor journals, and what the
    readers of shard and log raise.
    """
    manifest = read_manifest(folder)
    for agent in range(manifest.agents):
        if not shard_path(folder, agent).exists():
            raise RunFolderError(f"{folder} has no shard of agent {agent}: an audit needs the records of all agents")
    run = read_run(folder)
    logs = logs_of(folder)
    journals = [agent_folder(folder, agent) / "journal.bin" for agent in range(run.agents)]
    if not logs and not any(path.exists() for path in journals):
        raise RunFolderError(
            f"{folder} has neither a traffic log nor journals: no agent released anything, or nothing was recorded"
        )
    counter = CaptureCounter(run.run, range(run.agents))
    recording = Recording(run, counter.verdict())
    frames: dict[Key, set[bytes]] = {}
    unknown: Counter[str] = Counter()
    for frame in frames_of(folder, recording.damage):
        header = counter.count(frame.parts)
        if header is None:
            unknown.update(_unknown_keys(frame.parts))
        elif header["kind"] == "release":
            _take(recording, header, frame.parts, frame.time_ns, frames)
    recording.capture = counter.verdict()
    _note_frames(recording, unknown)
    for agent, path in enumerate(journals):
        _read_journal(recording, agent, path, frames, complete=bool(logs) and recording.capture.complete)
    return recording


def _take(
    recording: Recording, header: ReleaseHeader, parts: Parts, time_ns: int, frames: dict[Key, set[bytes]]
) -> None:
    sender = header["from"]
    key = (sender, header["index"])
    known = frames.setdefault(key, set())
    whole = bytes(parts[1]) + bytes(parts[2])
    if whole in known:
        return
    known.add(whole)
    recording.bodies.setdefault(sender, Counter())[len(parts[2])] += 1
    if len(parts[2]) != _due(recording, sender):
        return  # a receiver drops it
    release = message(header, parts[2])
    assert isinstance(release, Release)
    recording.heard.setdefault(key, release)
    recording.said.setdefault(sender, []).append(release)
    recording.first_ns.setdefault(key, time_ns)
    recording.headers.setdefault(sender, []).append(len(parts[1]))


def _due(recording: Recording, agent: int) -> int:
    """Bytes that every release of the agent has."""
    return 8 * recording.run.public[agent].release_dimension


def _read_journal(
    recording: Recording, agent: int, path: Path, frames: dict[Key, set[bytes]], *, complete: bool
) -> None:
    journalled: dict[Key, Release] = {}
    for _, parts in read_journal(path):
        try:
            release = decode(parts, recording.run.run)
        except Refused:
            continue
        if not isinstance(release, Release) or release.sender != agent:
            continue
        key = (agent, release.index)
        if not journalled.setdefault(key, release).same_as(release):
            recording.findings.append(
                f"agent {agent} release {release.index}: its journal holds two different releases of this index"
            )
            continue
        whole = parts[1] + parts[2]
        if key in frames:
            if whole not in frames[key]:
                recording.findings.append(
                    f"agent {agent} release {release.index}: its journal holds other bytes than the log"
                )
            continue
        recording.heard[key] = release
        recording.filled.add(key)
        if complete:
            recording.findings.append(
                f"agent {agent} release {release.index}: in its journal, but not in a complete log"
            )
    if journalled:
        for key in sorted(k for k in frames if k[0] == agent and k not in journalled):
            recording.findings.append(f"agent {agent} release {key[1]}: in the log, but not in its journal")


def _unknown_keys(parts: Parts) -> list[str]:
    """Header keys that no message of this version has."""
    with suppress(Exception):  # a stranger may have written anything there
        fields = msgpack.unpackb(parts[1], raw=False)
        allowed = KEYS.get(fields.get("kind"), frozenset())
        return sorted(repr(key)[:40] for key in fields if key not in allowed)
    return []


def _note_frames(recording: Recording, unknown: Counter[str]) -> None:
    for key, count in unknown.most_common(_LISTED):
        recording.findings.append(f"{count} frames with {key} in their header, which is not public")
    for reason, count in recording.capture.refused.items():
        recording.findings.append(f"{count} frames are no messages of this run: {reason}")
    for agent, sizes in sorted(recording.bodies.items()):
        due = _due(recording, agent)
        odd = {size: count for size, count in sizes.items() if size != due}
        for size, count in sorted(odd.items()):
            recording.findings.append(f"agent {agent}: {count} releases of {size} bytes, every one should have {due}")
