"""Frames from captured packets: Ethernet or raw IP, TCP streams, ZMTP 3 (ZeroMQ RFC 23, 37).

Rules that hold here:
- Pure functions of bytes and times: no file, no socket.
- A stream is read from its first byte, or not at all. Repeated bytes are used once. Reading stops at a hole.
- Of an encrypted message only its size and time are known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from node.wire import EAVESDROPPER

ETHERNET, RAW_IP, LINUX_COOKED, LINUX_COOKED_2 = 1, 101, 113, 276
_KIND_AT: Final = {ETHERNET: (12, 14), LINUX_COOKED: (14, 16), LINUX_COOKED_2: (0, 20)}
"""Where a link's header names what it carries, and where that begins."""
_VLAN: Final = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_IP: Final = (b"\x08\x00", b"\x86\xdd")
_GREETING: Final = 64
_MORE, _LONG, _COMMAND = 1, 2, 4
_WINDOW: Final = 16 << 20
"""Bytes of one stream that may wait for missing bytes before them."""
_FRAME_LIMIT: Final = 64 << 20

Address = tuple[bytes, int]
Stream = tuple[Address, Address]
"""Sender and receiver: IP address and port of each."""


class Segment(NamedTuple):
    """One TCP segment."""

    stream: Stream
    sequence: int
    syn: bool
    data: bytes


class Captured(NamedTuple):
    """One captured message: its parts (None if encrypted), and its size in bytes on the wire."""

    time_ns: int
    stream: Stream
    parts: tuple[bytes, ...] | None
    size: int


def segment(packet: bytes, link: int) -> Segment | None:
    """The TCP segment in a packet; None if the packet has none."""
    try:
        if link in _KIND_AT:
            at, begins = _KIND_AT[link]
            kind, packet = packet[at : at + 2], packet[begins:]
            while kind in _VLAN:
                kind, packet = packet[2:4], packet[4:]
            if kind not in _IP:
                return None
        if packet[0] >> 4 == 4:
            if packet[9] != 6 or struct.unpack_from(">H", packet, 6)[0] & 0x3FFF:
                return None  # not TCP, or a fragment
            source, target = packet[12:16], packet[16:20]
            # The length is 0 where the network card was to divide the packet.
            tcp = packet[4 * (packet[0] & 15) : struct.unpack_from(">H", packet, 2)[0] or None]
        elif packet[0] >> 4 == 6 and packet[6] == 6:
            source, target, tcp = packet[8:24], packet[24:40], packet[40 : 40 + struct.unpack_from(">H", packet, 4)[0]]
        else:
            return None
        from_port, to_port, sequence = struct.unpack_from(">HHI", tcp)
        return Segment(((source, from_port), (target, to_port)), sequence, bool(tcp[13] & 2), tcp[4 * (tcp[12] >> 4) :])
    except (IndexError, struct.error):
        return None


@dataclass
class _Reassembly:
    """The bytes of one stream, in order. Pieces that came early wait in ``waiting`` by their first byte."""

    next: int
    """Sequence number of the first byte that is missing."""
    waiting: dict[int, bytes] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    """A heap of the keys of ``waiting``: bytes from the beginning of the stream."""
    place: int = 0
    """Of ``next``: bytes from the beginning of the stream, which do not wrap around as sequence numbers do."""
    held: int = 0
    """Bytes in ``waiting``."""
    lost: bool = False

    def add(self, sequence: int, data: bytes) -> bytes:
        if not data or self.lost:
            return b""
        ahead = (sequence - self.next) & 0xFFFFFFFF
        self._wait(self.place + (ahead if ahead < 1 << 31 else ahead - (1 << 32)), data)
        ready = []
        while self.starts and self.starts[0] <= self.place:
            start = heappop(self.starts)
            piece = self.waiting.pop(start)
            self.held -= len(piece)
            fresh = piece[self.place - start :]
            ready.append(fresh)
            self.place += len(fresh)
        found = b"".join(ready)
        self.next = (self.next + len(found)) & 0xFFFFFFFF
        if self.held > _WINDOW:
            self.lost = True
            self.waiting.clear()
        return found

    def _wait(self, start: int, data: bytes) -> None:
        known = self.waiting.get(start)
        if known is None:
            heappush(self.starts, start)
        elif len(known) >= len(data):
            return
        self.waiting[start] = data
        self.held += len(data) - len(known or b"")

    @property
    def hole(self) -> bool:
        """Whether bytes are missing before others that came."""
        return self.lost or bool(self.waiting)


class Zmtp:
    """One direction of one ZMTP connection."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self.mechanism: str | None = None
        self.subscriptions: set[bytes] = set()
        self.damaged = False

    def feed(self, data: bytes) -> Iterator[tuple[tuple[bytes, ...] | None, int]]:
        """The messages that ``data`` completes: parts (None if encrypted) and size in bytes on the wire."""
        if self.damaged:
            return
        self._bytes += data
        if self.mechanism is None and not self._greeted():
            return
        for flags, body, size in self._frames():
            if self.mechanism == "CURVE":
                # Each part is a command of its own once the handshake is over, and hides whether more follow.
                if body.startswith(b"\x07MESSAGE"):
                    yield None, size
            elif flags & _COMMAND:
                if body.startswith(b"\x09SUBSCRIBE"):
                    self.subscriptions.add(body[10:])
            else:
                self._parts.append(body)
                self._size += size
                if not flags & _MORE:
                    yield tuple(self._parts), self._size
                    if len(self._parts) == 1 and body[:1] == b"\x01":
                        self.subscriptions.add(body[1:])
                    self._parts, self._size = [], 0

    def _greeted(self) -> bool:
        """Read the greeting; returns whether it is here and valid."""
        if len(self._bytes) < _GREETING:
            return False
        if self._bytes[0] != 0xFF or self._bytes[9] != 0x7F:
            self.damaged = True
            return False
        self.mechanism = self._bytes[12:32].rstrip(b"\0").decode("ascii", errors="replace")
        del self._bytes[:_GREETING]
        return True

    def _frames(self) -> Iterator[tuple[int, bytes, int]]:
        """(flags, body, size on the wire) of every whole frame; removes them from the buffer at the end."""
        at = 0
        while len(self._bytes) - at >= 2:
            flags = self._bytes[at]
            head = 9 if flags & _LONG else 2
            if len(self._bytes) - at < head:
                break
            size = int.from_bytes(self._bytes[at + 1 : at + head])
            if flags > 7 or size > _FRAME_LIMIT:
                self.damaged = True
                break
            if len(self._bytes) - at < head + size:
                break
            yield flags, bytes(self._bytes[at + head : at + head + size]), head + size
            at += head + size
        del self._bytes[:at]


class Wiretap:
    """Takes packets in order of capture; keeps the messages of each connection that carries any."""

    def __init__(self) -> None:
        self._order: dict[Stream, _Reassembly] = {}
        self._zmtp: dict[Stream, Zmtp] = {}
        self._sent: dict[Stream, list[Captured]] = {}
        self.packets = 0

    def take(self, time_ns: int, packet: bytes, link: int) -> None:
        """Take one packet; it is ignored unless its stream was captured from the beginning."""
        found = segment(packet, link)
        self.packets += 1
        if found is None:
            return
        stream = found.stream
        if found.syn:
            begins = (found.sequence + 1) & 0xFFFFFFFF
            known = self._order.get(stream)
            if known is None or (known.next != begins and stream not in self._sent):
                self._order[stream], self._zmtp[stream] = _Reassembly(begins), Zmtp()
            return
        if stream in self._order:
            data = self._order[stream].add(found.sequence, found.data)
            for parts, size in self._zmtp[stream].feed(data) if data else ():
                self._sent.setdefault(stream, []).append(Captured(time_ns, stream, parts, size))

    @property
    def holes(self) -> int:
        """Number of streams with bytes that were not captured."""
        return sum(order.hole for order in self._order.values())

    @property
    def encrypted(self) -> bool:
        """Whether any connection was encrypted."""
        return any(zmtp.mechanism == "CURVE" for zmtp in self._zmtp.values())

    def captured(self) -> list[Captured]:
        """The messages of every publisher, once, in order of time: those to the eavesdropper, else to one subscriber.

        Subscriptions are left out. On encrypted connections publisher and subscriber look the same, so every such
        connection is included, in both directions.
        """
        chosen: dict[Address, Stream] = {}
        encrypted: list[Captured] = []
        for stream, sent in self._sent.items():
            if self._zmtp[stream].mechanism == "CURVE":
                encrypted += sent
                continue
            back = self._zmtp.get((stream[1], stream[0]))
            if back is None or not back.subscriptions:
                continue
            if stream[0] not in chosen or EAVESDROPPER in back.subscriptions:
                chosen[stream[0]] = stream
        frames = [frame for stream in chosen.values() for frame in self._sent[stream]]
        return sorted(frames + encrypted, key=lambda frame: frame.time_ns)
