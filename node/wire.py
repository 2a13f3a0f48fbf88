"""Messages between agents: their bytes, and the checks that a receiver makes before an agent sees them.

Rules that hold here:
- A message has three parts: topic, header, body. None of them holds a time: each receiver uses its own clock.
- Every frame is checked. A frame that fails is dropped and counted by reason, and never raises.
- Nothing is ever unpickled, and no field makes a receiver allocate more than the frame itself.
- Encoding is deterministic: a repeated release has the same bytes.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

import msgpack
import numpy as np

from coordinator_free.release import Release, Used
from node.hello import (
    HELLO_KEYS,
    RECEIPT_KEYS,
    Envelope,
    Hello,
    HelloHeader,
    hello_fields,
    hello_of,
    is_hello,
    naturals,
)

VERSION: Final = 1
EVERYBODY: Final = 0xFFFFFFFF
HEADER_LIMIT: Final = 1 << 20
"""A longer header is dropped unread, in bytes."""

RELEASE_KEYS: Final = frozenset({"v", "run", "from", "to", "kind", "index", "round", "used"})
DONE_KEYS: Final = frozenset({"v", "run", "from", "to", "kind", "last", "skipped", "heard"})
KEYS: Final = {"release": RELEASE_KEYS, "hello": RECEIPT_KEYS, "done": DONE_KEYS}

Parts = Sequence[bytes]


class ReleaseHeader(Envelope):
    """The header of a release; ``used`` has senders and indices in turn."""

    kind: Literal["release"]
    index: int
    round: int | None
    used: list[int]


class DoneHeader(Envelope):
    """The header of a `Done`."""

    kind: Literal["done"]
    last: int
    skipped: list[int]
    heard: list[int]


Header = ReleaseHeader | HelloHeader | DoneHeader
"""A header that was checked; its ``kind`` says which."""

_TOPIC = struct.Struct(">II")
_pack = msgpack.Packer(use_bin_type=True).pack


def topic(sender: int, recipient: int | None = None) -> bytes:
    """The topic of messages from ``sender`` to ``recipient`` (None: all): two big-endian 32-bit numbers."""
    return _TOPIC.pack(sender, EVERYBODY if recipient is None else recipient)


def own_name(agent: int | None) -> bytes:
    """The subscription by which a listener makes itself known to publishers; None is the eavesdropper.

    No message has such a topic: `EVERYBODY` is not the number of an agent.
    """
    return _TOPIC.pack(EVERYBODY, EVERYBODY if agent is None else agent)


EAVESDROPPER: Final = own_name(None)


@dataclass(frozen=True, slots=True)
class Done:
    """The last message: the last index (-1: none), skipped indices, and the agents whose `Done` was received."""

    sender: int
    last: int
    skipped: tuple[int, ...] = ()
    heard: tuple[int, ...] = ()


Message = Release | Hello | Done


@functools.lru_cache(maxsize=4096)
def release_head(run: bytes, sender: int, recipient: int | None) -> bytes:
    """The packed header of a release, a map of eight, up to the value of its index: the same in each of a sender's."""
    fields = {"v": VERSION, "run": run, "from": sender, "to": recipient, "kind": "release", "index": 0}
    packed: bytes = _pack(fields)
    return b"\x88" + packed[1:-1]


_ROUND: Final = _pack("round")
_USED: Final = _pack("used")
_INT: Final = {int}


def _tail() -> re.Pattern[bytes]:
    """What follows the head of a release without a round that used at most 32 others, its index as group 1.

    To match the bytes costs an agent a quarter of what it costs to unpack the numbers and look at each.
    """
    natural = rb"(?:[\x00-\x7f]|\xcc.|\xcd..|\xce.{4}|\xcf.{8})"
    lists = [
        re.escape(_pack([0] * count)[:-count] if count else _pack([])) + natural + b"{%d}+" % count
        for count in range(0, 65, 2)
    ]
    between = re.escape(_ROUND + _pack(None) + _USED)
    return re.compile(b"(" + natural + b")" + between + b"(?:" + b"|".join(lists) + b")", re.DOTALL)


_TAIL: Final = _tail().fullmatch


def index_after(header: bytes, size: int) -> int | None:
    """The index of a release whose header begins with a `release_head` of ``size`` bytes.

    None where what follows it is not what `encode` writes for a release without a round that used few: `decode_header`
    knows more. What is found here passes it too.
    """
    tail = _TAIL(header, size)
    if tail is None:
        return None
    packed = tail[1]
    return packed[0] if len(packed) == 1 else int.from_bytes(packed[1:])


def encode(run: bytes, message: Message) -> tuple[bytes, bytes, bytes]:
    """The three parts of a message of run ``run`` (16 bytes)."""
    if isinstance(message, Release):
        head = release_head(run, message.sender, message.recipient)
        used = list(itertools.chain.from_iterable(message.used))
        header = b"".join((head, _pack(message.index), _ROUND, _pack(message.round), _USED, _pack(used)))
        return topic(message.sender, message.recipient), header, message.vector.astype("<f8", copy=False).tobytes()
    common: Envelope = {"v": VERSION, "run": run, "from": message.sender, "to": None}
    if isinstance(message, Hello):
        return topic(message.sender), _pack({**common, **hello_fields(message)}), b""
    done = {"kind": "done", "last": message.last, "skipped": list(message.skipped), "heard": list(message.heard)}
    return topic(message.sender), _pack({**common, **done}), b""


class Refused(Exception):
    """A frame that is not a message of this run; ``reason`` is one of a fixed list of words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode_header(header: bytes) -> Header:
    """The header map, its keys and types checked; raises `Refused`."""
    if len(header) > HEADER_LIMIT:
        raise Refused("header too long")
    try:
        fields = msgpack.unpackb(header, raw=False, strict_map_key=True)
    except Exception as error:  # msgpack raises many kinds; all mean the same here
        raise Refused("header unreadable") from error
    if type(fields) is not dict:
        raise Refused("header unreadable")
    if type(fields.get("v")) is not int or fields["v"] != VERSION:
        raise Refused("version")
    kind = fields.get("kind")
    if type(kind) is not str or fields.keys() not in (KEYS.get(kind), HELLO_KEYS if kind == "hello" else None):
        raise Refused("header fields")
    recipient, sender = fields["to"], fields["from"]
    good = type(fields["run"]) is bytes and type(sender) is int and 0 <= sender < EVERYBODY
    good = good and (recipient is None or (type(recipient) is int and 0 <= recipient < EVERYBODY))
    if kind == "release":
        index, number, pairs = fields["index"], fields["round"], fields["used"]
        good = good and type(index) is int and index >= 0 and naturals(pairs) and len(pairs) % 2 == 0
        good = good and (number is None or (type(number) is int and number >= 0))
    elif kind == "hello":
        good = good and is_hello(fields)
    else:
        last = fields["last"]
        good = good and type(last) is int and last >= -1 and naturals(fields["skipped"]) and naturals(fields["heard"])
    if not good:
        raise Refused("header fields")
    return cast(Header, fields)


def decode(parts: Parts, run: bytes | None = None) -> Message:
    """A message of any sender from its parts, for readers of logs and journals; raises `Refused`."""
    if len(parts) != 3:
        raise Refused("parts")
    fields = decode_header(parts[1])
    if run is not None and fields["run"] != run:
        raise Refused("run")
    if parts[0] != topic(fields["from"], fields["to"]):
        raise Refused("topic")
    return message(fields, parts[2])


def message(fields: Header, body: bytes) -> Message:
    """A message from its header's fields (`decode_header`) and its body; raises `Refused`."""
    sender: int = fields["from"]
    if fields["kind"] == "hello":
        return hello_of(fields)
    if fields["kind"] == "done":
        return Done(sender, fields["last"], tuple(fields["skipped"]), tuple(fields["heard"]))
    if len(body) % 8:
        raise Refused("length")
    flat = fields["used"]
    return Release(
        sender=sender,
        index=fields["index"],
        vector=np.frombuffer(body, dtype="<f8"),
        used=tuple(zip(flat[::2], flat[1::2], strict=True)),
        round=fields["round"],
        recipient=fields["to"],
    )


Accepted = tuple[int, int, int | None, int | None, Used]
"""A release's sender, index, round, recipient and used."""


def _pairs(round_: int | None, flat: Sequence[int]) -> Used:
    """The pairs of ``used``. Agents need them in rounds only; otherwise they are left out."""
    return () if round_ is None else tuple(zip(flat[::2], flat[1::2], strict=True))


class Receiver:
    """One agent's checks on frames: known neighbour, this run, length, finite values, an index not seen before.

    ``dimension`` is the length of a release's vector, ``releases`` the number of indices a neighbour can have,
    ``largest`` the size of the largest coordinate that an honest neighbour can send.
    Counts: ``dropped`` by reason, ``repeats`` (an index that was already here), ``late`` (filled a gap),
    ``received`` (accepted releases).
    """

    def __init__(
        self,
        run: bytes,
        agent: int,
        neighbours: Iterable[int],
        dimension: int,
        releases: int,
        largest: float = sys.float_info.max,
    ) -> None:
        self._run = run
        self._largest = largest
        self._small = min(largest, 1e150) ** 2 / 2.0
        """No number is above ``largest`` where the sum of all squares, with its rounding, is not above this."""
        self._bytes = 8 * dimension
        self._releases = releases
        self._senders: dict[bytes, tuple[int, int | None]] = {}
        for j in neighbours:
            self._senders[topic(j)] = (j, None)
            self._senders[topic(j, agent)] = (j, agent)
        self._seen = {j: bytearray(releases) for j in neighbours}
        self._heads: dict[bytes, tuple[int, bytes, int]] = {}
        for j in neighbours:
            head = release_head(run, j, None)
            self._heads[topic(j)] = (j, head, len(head))
        self._newest = dict.fromkeys(neighbours, -1)
        self.repeated: set[int] = set()
        """Neighbours that repeated a release; for the caller to empty."""
        self.dropped: Counter[str] = Counter()
        self.repeats = 0
        self.late = 0
        self.received = 0

    def take(self, frames: Iterable[Parts]) -> tuple[list[Release], list[Hello | Done]]:
        """The messages among ``frames``, releases apart, each in order; drops and repeats are only counted."""
        accepted: list[Accepted] = []
        bodies: list[bytes] = []
        others: list[Hello | Done] = []
        for parts in frames:
            release = self._quickly(parts)
            if release is None:
                try:
                    message = self._carefully(parts)
                except Refused as refused:
                    self.dropped[refused.reason] += 1
                    continue
                if not isinstance(message, tuple):
                    others.append(message)
                    continue
                release = message
            sender, index = release[0], release[1]
            seen = self._seen[sender]
            if seen[index]:
                self.repeats += 1
                self.repeated.add(sender)
                continue
            seen[index] = 1
            accepted.append(release)
            bodies.append(parts[2])
        if not accepted:
            return [], others
        # One pass over all that arrived: per frame, these few array operations would cost as much as the header. The
        # product makes no array, which after a pause of this process would be larger than its caches.
        numbers = np.frombuffer(b"".join(bodies), dtype="<f8")
        suspect = not np.vdot(numbers, numbers) <= self._small  # true for a NaN too; vdot warns of no overflow
        vectors = numbers.reshape(len(bodies), -1)
        releases = []
        newest = self._newest
        for (sender, index, number, recipient, used), vector in zip(accepted, vectors, strict=True):
            if suspect and not np.abs(vector).max(initial=0.0) <= self._largest:
                self.dropped["too large" if np.isfinite(vector).all() else "not finite"] += 1
                self._seen[sender][index] = 0
                continue
            if index > newest[sender]:
                newest[sender] = index
            else:
                self.late += 1
            releases.append(Release(sender, index, vector, used, number, recipient))
        self.received += len(releases)
        return releases, others

    def _quickly(self, parts: Parts) -> Accepted | None:
        """A valid release to all neighbours; None for a frame that needs the careful checks.

        It reads what `encode` writes: a header that begins with the sender's own head, and an index after it. The tail
        is unpacked only of a release in a round, or one that used many.
        """
        try:
            begins, header, body = parts
            sender, head, size = self._heads[begins]
            if len(body) != self._bytes or not header.startswith(head):
                return None
            index = index_after(header, size)  # nothing near the limit of a header has one
            if index is not None:
                return (sender, index, None, None, ()) if index < self._releases else None
            if len(header) > HEADER_LIMIT:
                return None
            index, round_, number, used_, used = msgpack.unpackb(b"\x95" + header[size:])
            good = (
                type(index) is int
                and 0 <= index < self._releases
                and round_ == "round"
                and used_ == "used"
                and naturals(used)
                and len(used) % 2 == 0
                and (number is None or (type(number) is int and number >= 0))
            )
        except Exception:  # the careful checks find the reason
            return None
        return (sender, index, number, None, _pairs(number, used)) if good else None

    def _carefully(self, parts: Parts) -> Accepted | Hello | Done:
        """Any message of a neighbour in this run, check by check; raises `Refused`."""
        if len(parts) != 3:
            raise Refused("parts")
        from_and_to = self._senders.get(parts[0])
        if from_and_to is None:
            raise Refused("sender")
        fields = decode_header(parts[1])
        if fields["run"] != self._run:
            raise Refused("run")
        if (fields["from"], fields["to"]) != from_and_to:
            raise Refused("sender")
        sender = from_and_to[0]
        if fields["kind"] == "hello":
            return hello_of(fields)
        if fields["kind"] == "done":
            return Done(sender, fields["last"], tuple(fields["skipped"]), tuple(fields["heard"]))
        if len(parts[2]) != self._bytes:
            raise Refused("length")
        if fields["index"] >= self._releases:
            raise Refused("index")
        return sender, fields["index"], fields["round"], fields["to"], _pairs(fields["round"], fields["used"])

    def newest(self, neighbour: int) -> int:
        """The newest index received from a neighbour, -1 if none."""
        return self._newest[neighbour]

    def missing(self, neighbour: int, last: int, skipped: Iterable[int] = ()) -> tuple[int, ...]:
        """The indices up to ``last`` that were not received from a neighbour, without ``skipped`` ones."""
        passed = set(skipped)
        seen = self._seen[neighbour]
        return tuple(k for k in range(min(last + 1, len(seen))) if not seen[k] and k not in passed)
