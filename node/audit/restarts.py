"""Whether agents that were started again kept their rules: one release for each index, and no noise used twice.

Rules that hold here:
- One index is one release. An agent that is started again sends the same bytes as before, or goes on with an index that
  it has not used. Two releases under one index are two values under noise of one index.
- In rounds the ledger holds each release beside its charge, and that is the release which was sent.
- Each start of a process draws a nonce of its own. With a nonce that an earlier start had, indices that both may use
  have the same noise.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coordinator_free.privacy.ledger import LedgerError
from coordinator_free.release import Release
from node.audit.recording import Recording
from node.folder.ledger import LedgerFile
from node.places import agent_folder
from node.traffic.completeness import Capture
from node.wire import Refused, decode


def drawn_again(capture: Capture) -> list[str]:
    """What the log alone shows: indices with two releases, and ledgers that went backwards."""
    found = [
        f"agent {agent} release {index}: received with two different bodies, its noise was drawn again"
        for agent, index in capture.redrawn
    ]
    return found + [f"agent {agent}: its ledger went backwards" for agent in capture.backwards]


def restarts(recording: Recording) -> list[str]:
    """What the log and the ledgers show together. A ledger that cannot be read shows nothing here."""
    found = drawn_again(recording.capture)
    run = recording.run
    for agent in range(run.agents):
        try:
            with LedgerFile.read(agent_folder(run.folder, agent) / "ledger.jsonl", None) as ledger:
                starts, records = ledger.starts(run.run.hex()), ledger.records(run.run.hex())
        except LedgerError:
            continue
        if len({start.nonce for start in starts}) < len(starts):
            found.append(f"agent {agent}: two starts of its process have one nonce, so they draw the same noise")
        kept: dict[int, Release] = {}
        for release in _kept(records, run.run):
            index = release.index
            if not kept.setdefault(index, release).same_as(release):
                found.append(f"agent {agent} release {index}: its ledger holds two different releases of this index")
            elif not recording.heard.get((agent, index), release).same_as(release):
                found.append(f"agent {agent} release {index}: its ledger holds another release than was recorded")
    return found


def _kept(records: Iterable[Mapping[str, Any]], run: bytes) -> Iterator[Release]:
    """The releases that the lines of a ledger hold."""
    for record in records:
        if "frame" not in record:
            continue
        first, second, third = (base64.b64decode(part) for part in record["frame"])
        try:
            release = decode((first, second, third), run)
        except Refused:
            continue
        if isinstance(release, Release):
            yield release
