"""How a restarted agent goes on: from its ledger, and it repeats its last release if it still has the bytes.

Rules that hold here:
- No index is drawn twice: without rounds the agent goes on with the next index that is not charged.
- In rounds a release must not be lost: charge, bytes and state are one record, and the release is repeated exactly.
- Bytes that may have left are never made again with other noise.
"""

from __future__ import annotations

import base64
import contextlib

import numpy as np

from coordinator_free.inbox import RoundInbox
from coordinator_free.privacy.ledger import LedgerError
from coordinator_free.release import FloatArray, Release
from node.agent.conversation import Conversation
from node.agent.snapshot import unpacked_snapshot
from node.folder.ledger_lines import Line
from node.wire import Parts, Refused, decode


def resume(talk: Conversation) -> bool:
    """Bring a restarted agent to where it was; False if it has not released anything yet."""
    if talk.charger.charged == 0:
        return False
    if isinstance(talk.incoming.inbox, RoundInbox):
        return _resume_round(talk, talk.incoming.inbox)
    outgoing = talk.outgoing
    state: dict[str, FloatArray] = {}
    if outgoing.frames and isinstance(last := decode(outgoing.frames[-1]), Release):
        state = {"model": last.vector, "index": np.array([float(last.index)])}
        outgoing.last = last.index
    talk.agent.restore(state, talk.charger.charged)
    talk.around.notes.append(f"restarted: goes on with index {talk.charger.charged}")
    outgoing.repeat()
    return True


def _resume_round(talk: Conversation, inbox: RoundInbox) -> bool:
    # A torn record was charged and never sent. What it held is computed again from the state before it and under its
    # own index, with the noise of this start.
    records = [record for record in talk.charger.records() if "state" in record]
    indices = [int(record["again" if "again" in record else "first"]) for record in records]
    following = max(indices, default=-1) + 1
    if not talk.charger.covers(following):
        following = talk.charger.charged
    if following in talk.outgoing.sent and following not in indices:
        raise LedgerError(
            f"ledger: the record of release {following} is damaged, but the journal holds the release, so it may have "
            "been sent; nothing more is released"
        )
    if not records:
        if following > 0:
            talk.agent.restore({}, following)
        return False
    state = unpacked_snapshot(base64.b64decode(records[-1]["state"]))
    frames = [(index, _frame(record)) for index, record in zip(indices[-2:], records[-2:], strict=True)]
    talk.outgoing.recall_records(frames, indices)
    talk.agent.restore(state, following)
    with contextlib.suppress(Refused):
        last = decode(frames[-1][1])
        if isinstance(last, Release) and last.round is not None:
            inbox.jump(last.round + talk.agent.gathers)
            talk.outgoing.last = last.index
    talk.around.notes.append(f"restarted: repeats round {inbox.round - talk.agent.gathers}")
    talk.outgoing.repeat()
    return True


def _frame(record: Line) -> Parts:
    first, second, third = (base64.b64decode(part) for part in record["frame"])
    return first, second, third
