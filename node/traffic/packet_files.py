"""Files of captured packets: pcap, as tcpdump -w writes it, and pcapng, as dumpcap and Wireshark do.

Rules that hold here:
- Each packet has the time of its capture and the kind of link on which it was captured.
- If a file ends inside a packet, that packet is left out and counted. Any other damage is an error of one line.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from node.traffic.zmtp import ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IP

Packet = tuple[int, int, bytes]
"""Time in ns since 1970, kind of link (`node.traffic.zmtp`), bytes."""

_LINKS: Final = {
    **dict.fromkeys((12, 14, RAW_IP, 228, 229), RAW_IP),
    **{link: link for link in (ETHERNET, LINUX_COOKED, LINUX_COOKED_2)},
}
_FORMATS: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""First bytes of a pcap file, with its byte order and its smaller unit of time in nanoseconds."""
_PACKET_LIMIT: Final = 1 << 20
_BLOCK_LIMIT: Final = 64 << 20

_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_RESOLUTION, _OFFSET = 9, 14
"""Options of an interface: the unit of its times, and seconds to be added to them."""


class PacketFileError(ValueError):
    """A file that cannot be read; one line."""


class PacketFile:
    """The packets of a pcap or pcapng file, one after another, once.

    Raises
    ------
    PacketFileError
        While it is read: if the file cannot be read, is not a capture, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cut = 0
        """Packets so far of which bytes are missing: only their beginning was kept, or the file ends inside one."""

    def __iter__(self) -> Iterator[Packet]:
        try:
            file = self._path.open("rb")
        except OSError as error:
            raise PacketFileError(f"--pcap {self._path}: {error.strerror}") from None
        with file:
            start = file.read(4)
            file.seek(0)
            try:
                if start in _FORMATS:
                    yield from self._pcap(file)
                elif start == _SECTION.to_bytes(4):
                    yield from self._pcapng(file)
                else:
                    raise PacketFileError("no capture; accepted are pcap (tcpdump -w) and pcapng (dumpcap, Wireshark)")
            except (PacketFileError, struct.error) as error:
                raise PacketFileError(f"--pcap {self._path}: {error}") from None

    def _pcap(self, file: BinaryIO) -> Iterator[Packet]:
        head = file.read(24)
        order, unit = _FORMATS[head[:4]]
        link = _link(struct.unpack(order + "I", head[20:])[0] & 0xFFFF)
        while len(record := file.read(16)) == 16:
            seconds, fraction, size, original = struct.unpack(order + "4I", record)
            if size > _PACKET_LIMIT:
                raise PacketFileError(f"a packet of {size} bytes; accepted are at most {_PACKET_LIMIT}")
            packet = file.read(size)
            if len(packet) < size:
                self.cut += 1
                return
            self.cut += original > size
            yield seconds * 10**9 + fraction * unit, link, packet
        self.cut += bool(record)

    def _pcapng(self, file: BinaryIO) -> Iterator[Packet]:
        """Section headers, interfaces and packets; blocks of other types hold no packets and are passed over."""
        interfaces: list[tuple[int, int, int]] = []
        for kind, order, body in self._blocks(file):
            if kind == _SECTION:
                interfaces = []
            elif kind == _INTERFACE:
                options = _options(body[8:], order)
                units = (options.get(_RESOLUTION) or b"\x06")[0]
                per_second = 1 << (units & 0x7F) if units & 0x80 else 10**units
                offset = struct.unpack(order + "q", options.get(_OFFSET, bytes(8)))[0]
                interfaces.append((struct.unpack_from(order + "H", body)[0], per_second, offset))
            elif kind == _ENHANCED:
                number, high, low, size, original = struct.unpack_from(order + "5I", body)
                if number >= len(interfaces) or size > len(body) - 20:
                    raise PacketFileError("a packet that is damaged, or of an interface that is not described")
                self.cut += original > size
                link, per_second, offset = interfaces[number]
                time_ns = offset * 10**9 + (high << 32 | low) * 10**9 // per_second
                if not 0 <= time_ns < 1 << 63:
                    raise PacketFileError("a packet whose time is not between 1970 and 2262")
                yield time_ns, _link(link), body[20 : 20 + size]
            elif kind == _SIMPLE:
                raise PacketFileError("a packet without its time (a simple packet block); accepted are enhanced ones")

    def _blocks(self, file: BinaryIO) -> Iterator[tuple[int, str, bytes]]:
        """(type, byte order, body) of each whole block."""
        order = "<"
        while len(head := file.read(12)) == 12:
            if head[:4] == _SECTION.to_bytes(4):
                if head[8:] not in _ORDERS:
                    raise PacketFileError("a section whose byte order is neither little nor big")
                order = _ORDERS[head[8:]]
            kind, size = struct.unpack(order + "2I", head[:8])
            if size % 4 or not 12 <= size <= _BLOCK_LIMIT:
                raise PacketFileError(f"a block of {size} bytes; accepted are multiples of 4 from 12 to {_BLOCK_LIMIT}")
            rest = file.read(size - 12)
            if len(rest) < size - 12:
                self.cut += 1
                return
            yield kind, order, (head[8:] + rest)[:-4]
        self.cut += bool(head)


def _link(kind: int) -> int:
    if kind not in _LINKS:
        raise PacketFileError(f"link type {kind}; accepted are {', '.join(map(str, sorted(_LINKS)))}")
    return _LINKS[kind]


def _options(data: bytes, order: str) -> Mapping[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from(order + "2H", data, at)
        if code == 0:
            break
        found[code] = data[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
    return found
