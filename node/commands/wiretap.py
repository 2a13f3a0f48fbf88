"""``sottovoce wiretap``: captured packets into a traffic log."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.processes import StopSignals

if TYPE_CHECKING:
    from node.traffic.packet_files import Packet
    from node.traffic.zmtp import Captured, Wiretap

_ALL_PROTOCOLS = 3
_RECEIVE_BUFFER = 64 << 20
_LOOK_SECONDS = 0.2


def wiretap(
    log: Annotated[Path, typer.Option("--log", metavar="FILE", help="The traffic log; must not exist.")],
    interface: Annotated[str | None, typer.Option(help="Capture here, until SIGINT or SIGTERM; needs root.")] = None,
    pcap: Annotated[Path | None, typer.Option(help="Read this capture (pcap or pcapng) instead.")] = None,
) -> None:
    """Make a traffic log from captured packets.

    An eavesdropper on the network could do the same.
    Of links without keys the log holds what the eavesdropper receives. Of encrypted links it holds an event with size
    and time for each part of a message, and the command reports that. Connections have to be captured from their
    beginning.

    Example: sottovoce wiretap --pcap run.pcap --log overheard.mcap
    """
    if (interface is None) == (pcap is None):
        raise ValueError("wiretap needs --interface NAME or --pcap FILE, and not both")
    from node.traffic.packet_files import PacketFile
    from node.traffic.writer import TrafficLogWriter
    from node.traffic.zmtp import Wiretap

    file = PacketFile(pcap) if pcap is not None else None
    found = file if file is not None else _from_interface(interface or "")
    tap = Wiretap()
    writer = TrafficLogWriter(log)
    try:
        for time_ns, link, packet in found:
            tap.take(time_ns, packet, link)
        captured = tap.captured()
        for frame in captured:
            if frame.parts is not None:
                writer.write(frame.parts, frame.time_ns)
            else:
                writer.event({"encrypted": frame.size, "port": frame.stream[0][1]}, frame.time_ns)
        writer.close()
    except BaseException:
        with suppress(OSError):
            writer.close()
        log.unlink()  # it would look like a capture with fewer frames
        raise
    missing = _tell(log, tap, captured, file.cut if file is not None else 0)
    for words in missing:
        print(words, file=sys.stderr)
    if missing:
        raise typer.Exit(1)


def _tell(log: Path, tap: Wiretap, captured: Sequence[Captured], cut: int) -> list[str]:
    """Print what was found; returns what is missing."""
    clear = sum(frame.parts is not None for frame in captured)
    print(f"{log}: {clear} frames from {tap.packets} packets")
    if tap.encrypted:
        print(f"encrypted: only size and time are known of {len(captured) - clear} message parts", file=sys.stderr)
    missing = []
    if tap.holes:
        missing.append(f"{tap.holes} connections have holes: packets were not captured")
    if cut:
        missing.append(f"{cut} packets were captured in part: record whole packets (tcpdump -s 0) to their end")
    if not captured:
        missing.append("no message of ZeroMQ was found: record tcp packets from before the agents connect")
    return missing


def _from_interface(name: str) -> Iterator[Packet]:
    from node.traffic.zmtp import RAW_IP

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
