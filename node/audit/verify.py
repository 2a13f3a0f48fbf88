"""Re-execution: each agent's code, with shard, secret and inputs, must make every recorded release again.

Rules that hold here:
- On the build that made the run the comparison is bit for bit. On another one it is to 1e-9 before the noise, hence to
  one step of the public grid after it, and the verdict says so.
- Releases that the log missed are filled in from the agents' journals. A release that is in neither is not verified,
  and is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from coordinator_free.agent import Agent, Setting
from coordinator_free.agents.registry import algorithm
from coordinator_free.attacks.inversion import InversionError, invert
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.release import Release
from coordinator_free.twin.reexecution import reexecute
from node.audit.learned_graph import remade
from node.audit.recording import Recording, read_recording
from node.audit.restarts import restarts
from node.folder.build import same_build
from node.folder.ledger import LedgerFile
from node.folder.shard import read_secret, setting
from node.places import agent_folder
from node.untyped import Json

CLOSE: Final = 1e-9
"""Largest difference of exact values between builds."""
VERSION: Final = 1
"""Of the document that `Verdict.to_json` makes."""


@dataclass(frozen=True)
class Difference:
    """The first release of an agent that its code makes differently: ``reason``, and what it was computed from."""

    agent: int
    index: int
    reason: str
    computed_from: str

    def in_words(self) -> str:
        """One line."""
        return f"agent {self.agent} release {self.index}: {self.reason}; computed from {self.computed_from}"


@dataclass(frozen=True)
class Verdict:
    """What a re-execution came to.

    ``differences``: the first of each agent, in the order in which they were recorded. ``findings``: frames that are
    wrong by themselves, indices with two releases, and what is wrong with a learned graph. ``exact``: whether the
    comparison was bit for bit. ``missing``: releases that are nowhere. ``stopped``: where an agent could not be
    followed further, because what it used is missing.
    """

    agents: int
    releases: int
    filled: int
    missing: int
    exact: bool
    differences: tuple[Difference, ...]
    stopped: tuple[Difference, ...]
    findings: tuple[str, ...]
    damage: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every release was made again, none is missing, and there is one."""
        wrong = self.differences or self.findings
        return not wrong and not self.stopped and self.missing == 0 and self.releases > 0

    def to_json(self) -> Json:
        """What ``sottovoce verify --json`` prints: see ``node/schemas/verify.schema.json``."""
        return {
            "version": VERSION,
            "ok": self.ok,
            "agents": self.agents,
            "releases": self.releases,
            "filled_from_journals": self.filled,
            "missing": self.missing,
            "bit_for_bit": self.exact,
            "differences": [vars(difference) for difference in self.differences],
            "not_followed_further": [vars(stop) for stop in self.stopped],
            "findings": list(self.findings),
            "damage": list(self.damage),
        }


def verify(folder: Path) -> Verdict:
    """Re-execute every release of the run in ``folder``.

    Raises what `read_recording` and `read_secret` raise, and `LedgerError` if the starts of an agent's process cannot
    be read from its ledger.
    """
    recording = read_recording(folder)
    run = recording.run
    exact = same_build(run.manifest.build)
    make = algorithm(run.manifest.algorithm)
    differences: list[Difference] = []
    stopped: list[Difference] = []
    for agent in range(run.agents):
        recorded = recording.of(agent)
        given = _setting(recording, agent)
        code = make(given)  # type: ignore[call-arg]
        compare = _bits if exact else _nearly
        found = compare(code, recording, recorded, given)
        if found is not None:
            index, reason = found
            release = next(r for r in recorded if r.index == index)
            lacking = any(pair not in recording.heard for pair in release.used)
            (stopped if lacking else differences).append(Difference(agent, index, reason, computed_from(release)))
    late = max(recording.first_ns.values(), default=0) + 1
    differences.sort(key=lambda d: (recording.first_ns.get((d.agent, d.index), late), d.index, d.agent))
    return Verdict(
        agents=run.agents,
        releases=len(recording.heard),
        filled=len(recording.filled),
        missing=_missing(recording),
        exact=exact,
        differences=tuple(differences),
        stopped=tuple(stopped),
        findings=(*recording.findings, *restarts(recording), *remade(run)),
        damage=tuple(recording.damage),
    )


def computed_from(release: Release, most: int = 12) -> str:
    """The releases that a release was computed from, in words; at most ``most`` of other agents."""
    own = [index for sender, index in release.used if sender == release.sender]
    others = [f"{index} of agent {sender}" for sender, index in release.used if sender != release.sender]
    told = f"its release {own[-1]}" if own else "the start"
    if others:
        more = f" and {len(others) - most} more" if len(others) > most else ""
        told += " and releases " + ", ".join(others[:most]) + more
    return told


def _setting(recording: Recording, agent: int) -> Setting:
    """What the agent was given, the starts of its process from its ledger."""
    run = recording.run
    place = agent_folder(run.folder, agent)
    with LedgerFile.read(place / "ledger.jsonl", None) as ledger:
        starts = ledger.starts(run.run.hex())
    return setting(run.rows[agent], run.public[agent], read_secret(place / "secret"), starts)


def _bits(
    code: Agent,
    recording: Recording,
    recorded: Sequence[Release],
    given: Setting,  # noqa: ARG001
) -> tuple[int, str] | None:
    found = reexecute(code, recording.heard, recorded)
    return None if found is None else (found.index, found.reason)


def _nearly(code: Agent, recording: Recording, recorded: Sequence[Release], given: Setting) -> tuple[int, str] | None:
    """Another build: each release against code that goes on from the recorded ones, so that nothing adds up."""
    try:
        rows = invert(code, recorded, recording.heard)
    except InversionError as error:
        return (recorded[0].index if recorded else 0), str(error)
    for row in rows:
        vector, due, allowed = row.release.vector, row.exact, CLOSE
        if row.mechanism is not None:
            noise = row.mechanism.noise(vector.shape[0], given.stream(row.release.index))
            due, allowed = np.rint(row.exact / GRID) * GRID + noise, 1.5 * GRID
        largest = float(np.abs(vector - due).max(initial=0.0))
        if not largest <= allowed:
            return row.release.index, f"the vector differs by up to {largest:.3g} (other build: {allowed:.2g} allowed)"
    return None


def _missing(recording: Recording) -> int:
    missing = 0
    for agent, ranges in recording.capture.missing.items():
        for first, last in ranges:
            if last is not None:
                missing += sum((agent, index) not in recording.heard for index in range(first, last + 1))
    return missing
