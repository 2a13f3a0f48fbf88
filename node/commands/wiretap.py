"""``sottovoce wiretap``: captured packets into a traffic log."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from node.captured import ETHERNET, LINUX_COOKED, RAW_IP, Wiretap
from node.eavesdropper import StopSignals
from node.traffic_log import TrafficLogWriter

_ALL_PROTOCOLS = 3
_RECEIVE_BUFFER = 64 << 20
_LOOK_SECONDS = 0.2
_RAW_LINKS = {12: RAW_IP, 14: RAW_IP, RAW_IP: RAW_IP, ETHERNET: ETHERNET, LINUX_COOKED: LINUX_COOKED}
_FORMATS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""First bytes of a pcap file: byte order, nanoseconds of its smaller unit of time."""


def wiretap(
    log: Annotated[Path, typer.Option("--log", metavar="FILE", help="The traffic log; must not exist.")],
    interface: Annotated[str | None, typer.Option(help="Capture here, until SIGINT or SIGTERM; needs root.")] = None,
    pcap: Annotated[Path | None, typer.Option(help="Read this capture (tcpdump -w) instead.")] = None,
) -> None:
    """Turn captured packets into a traffic log, as somebody on the network would.

    Without keys it holds what the eavesdropper hears. Of encrypted links it holds an event with size and time for each
    part of a message, and says so. Connections have to be captured from their beginning.

    Example: sottovoce wiretap --pcap run.pcap --log overheard.mcap
    """
    if (interface is None) == (pcap is None):
        raise ValueError("wiretap needs --interface NAME or --pcap FILE, and not both")
    packets = _from_file(pcap) if pcap is not None else _from_interface(interface or "")
    tap = Wiretap()
    writer = TrafficLogWriter(log)
    try:
        for time_ns, link, packet in packets:
            tap.take(time_ns, packet, link)
        heard = tap.heard()
        for frame in heard:
            if frame.parts is not None:
                writer.write(frame.parts, frame.time_ns)
            else:
                writer.event({"encrypted": frame.size, "port": frame.stream[0][1]}, frame.time_ns)
    finally:
        writer.close()
    clear = sum(frame.parts is not None for frame in heard)
    print(f"{log}: {clear} frames from {tap.packets} packets")
    if tap.encrypted:
        print(f"encrypted: of {len(heard) - clear} parts of messages only sizes and times are known", file=sys.stderr)
    if tap.holes:
        print(f"{tap.holes} connections have holes: packets were not captured", file=sys.stderr)
        raise typer.Exit(1)


def _from_file(path: Path) -> Iterator[tuple[int, int, bytes]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise ValueError(f"--pcap {path}: {error.strerror}") from None
    with file:
        head = file.read(24)
        if head[:4] not in _FORMATS or len(head) < 24:
            raise ValueError(f"--pcap {path}: no pcap file; accepted is what tcpdump -w writes (not pcapng)")
        order, unit = _FORMATS[head[:4]]
        kind = struct.unpack(order + "I", head[20:])[0] & 0xFFFF
        if kind not in _RAW_LINKS:
            raise ValueError(f"--pcap {path}: link type {kind}; accepted are {', '.join(map(str, sorted(_RAW_LINKS)))}")
        while len(record := file.read(16)) == 16:
            seconds, fraction, size, _ = struct.unpack(order + "4I", record)
            yield seconds * 10**9 + fraction * unit, _RAW_LINKS[kind], file.read(min(size, 1 << 20))


def _from_interface(name: str) -> Iterator[tuple[int, int, bytes]]:
    stop = StopSignals()
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS))
    except PermissionError:
        raise ValueError(f"--interface {name}: capturing needs root (CAP_NET_RAW); or use tcpdump and --pcap") from None
    with tap:
        try:
            tap.bind((name, _ALL_PROTOCOLS))
        except OSError as error:
            known = ", ".join(each for _, each in socket.if_nameindex())
            raise ValueError(f"--interface {name}: {error.strerror}; accepted are {known}") from None
        try:
            tap.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _RECEIVE_BUFFER)
        except OSError:
            tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        tap.settimeout(_LOOK_SECONDS)
        print(f"capturing on {name}", flush=True)
        while True:
            try:
                packet, address = tap.recvfrom(1 << 17)
            except TimeoutError:
                if stop():
                    return
                continue
            if address[2] != socket.PACKET_OUTGOING or name != "lo":  # loopback shows each packet twice
                yield time.time_ns(), RAW_IP, packet
