"""Captured packets from a file: pcap and pcapng hold the same, and what is damaged is an error of one line."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from node.traffic.packet_files import Packet, PacketFile, PacketFileError
from node.traffic.zmtp import ETHERNET, RAW_IP
from tests.helpers.clusters import ran, table
from tests.helpers.command import answered
from tests.helpers.own_network import in_own_network
from tests.helpers.traffic_logs import assert_the_eavesdroppers_log

SECOND = 10**9
NOW = 1_700_000_000 * SECOND
SAID: list[Packet] = [
    (NOW, ETHERNET, b"first"),
    (NOW + 1_500, RAW_IP, b""),
    (NOW + SECOND, ETHERNET, bytes(range(99))),
]


def pcap(said: Sequence[Packet], order: str = "<", *, nanoseconds: bool = True) -> bytes:
    """Of Ethernet alone: a pcap file has one kind of link."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    data = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 1 << 18, ETHERNET)
    for time_ns, _, packet in said:
        size = len(packet)
        data += struct.pack(order + "4I", time_ns // SECOND, time_ns % SECOND // unit, size, size) + packet
    return data


def block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def option(code: int, value: bytes, order: str) -> bytes:
    return struct.pack(order + "2H", code, len(value)) + value + bytes(-len(value) % 4)


def pcapng(said: Sequence[Packet], order: str = "<", units: int = 9, offset: int = 0) -> bytes:
    """One section with an interface for each kind of link, and blocks that hold no packet between them."""
    per_second = 1 << (units & 0x7F) if units & 0x80 else 10**units
    data = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    for link in (ETHERNET, RAW_IP):
        options = option(2, b"lo", order) + option(9, bytes([units]), order)
        options += option(14, struct.pack(order + "q", offset), order) + option(0, b"", order)
        data += block(1, struct.pack(order + "HHI", link, 0, 0) + options, order)
    for time_ns, link, packet in said:
        ticks = (time_ns - offset * SECOND) * per_second // SECOND
        size, interface = len(packet), (ETHERNET, RAW_IP).index(link)
        head = struct.pack(order + "5I", interface, ticks >> 32, ticks & 0xFFFFFFFF, size, size)
        data += block(6, head + packet + bytes(-size % 4) + option(1, b"a comment", order), order)
        data += block(5, b"statistics", order) + block(0x0BAD, b"a vendor's own", order)
    return data


def read(folder: Path, data: bytes) -> list[Packet]:
    path = folder / "capture"
    path.write_bytes(data)
    return list(PacketFile(path))


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_formats_hold_the_same(tmp_path: Path, order: str) -> None:
    ethernet = [packet for packet in SAID if packet[1] == ETHERNET]
    assert read(tmp_path, pcap(ethernet, order)) == ethernet
    assert read(tmp_path, pcap(ethernet, order, nanoseconds=False)) == ethernet
    assert read(tmp_path, pcapng(SAID, order)) == SAID
    assert read(tmp_path, pcapng(SAID, order, offset=1_600_000_000)) == SAID


def test_times_are_in_the_unit_of_their_interface(tmp_path: Path) -> None:
    assert [t for t, _, _ in read(tmp_path, pcapng(SAID, units=6))] == [NOW, NOW + 1_000, NOW + SECOND]
    [_, second, _] = [t - NOW for t, _, _ in read(tmp_path, pcapng(SAID, units=0x80 | 20))]
    assert 0 <= 1_500 - second <= SECOND / 2**20
    plain = struct.pack("<HHI", ETHERNET, 0, 0)  # without options: microseconds
    head = struct.pack("<5I", 0, 0, 7, 1, 1) + b"x"
    data = pcapng([])[:28] + block(1, plain, "<") + block(6, head, "<")
    assert read(tmp_path, data) == [(7_000, ETHERNET, b"x")]


def test_sections_follow_each_other_each_with_its_own_interfaces_and_order(tmp_path: Path) -> None:
    assert read(tmp_path, pcapng(SAID, "<") + pcapng(SAID, ">", units=6)) == [
        *SAID,
        *((t - t % 1000, link, packet) for t, link, packet in SAID),
    ]


def test_a_file_that_ends_inside_a_packet_ends_before_it(tmp_path: Path) -> None:
    for data in (pcap([p for p in SAID if p[1] == ETHERNET]), pcapng(SAID)):
        whole = read(tmp_path, data)
        assert read(tmp_path, data[:-100]) == whole[:-1]


def section() -> bytes:
    return pcapng([])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"GIF89a", "accepted are pcap"),
        (lambda: b"", "accepted are pcap"),
        (lambda: section() + block(3, struct.pack("<I", 1) + b"x", "<"), "without its time"),
        (lambda: section() + block(6, struct.pack("<5I", 9, 0, 0, 0, 0), "<"), "not described"),
        (lambda: section() + block(6, struct.pack("<5I", 0, 0, 0, 99, 99), "<"), "damaged"),
        (lambda: section() + struct.pack("<3I", 6, 13, 0), "a block of 13 bytes"),
        (lambda: section() + struct.pack("<3I", 6, 1 << 31, 0), "a block of 2147483648 bytes"),
        (lambda: struct.pack("<3I", 0x0A0D0D0A, 28, 7), "byte order"),
        (
            lambda: pcapng([(NOW, ETHERNET, b"x")]).replace(struct.pack("<HHI", 1, 0, 0), struct.pack("<HHI", 9, 0, 0)),
            "link type 9; accepted are",
        ),
        (lambda: pcap([])[:20], "unpack"),
    ],
)
def test_what_is_no_capture_is_named(tmp_path: Path, make: Callable[[], bytes], words: str) -> None:
    with pytest.raises(PacketFileError, match=words) as raised:
        read(tmp_path, make())
    assert "\n" not in str(raised.value)
    assert str(tmp_path / "capture") in str(raised.value)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.integers(0, 600), data=st.binary(min_size=1, max_size=8), order=st.sampled_from("<>"))
def test_whatever_is_written_over_it_is_packets_or_an_error(
    tmp_path: Path, place: int, data: bytes, order: str
) -> None:
    whole = pcapng(SAID, order)
    try:
        found = read(tmp_path, whole[:place] + data + whole[place + len(data) :])
    except PacketFileError:
        return
    assert all(0 <= time_ns < 1 << 63 for time_ns, _, _ in found)


class Recorder:
    """Every packet on the loopback interface, from its making until `end`."""

    def __init__(self) -> None:
        self._tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._tap.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), 64 << 20)
        self._tap.bind(("lo", 3))
        self._tap.settimeout(0.2)
        self._over = threading.Event()
        self._packets: list[Packet] = []
        self._thread = threading.Thread(target=self._record)
        self._thread.start()

    def _record(self) -> None:
        while True:
            try:
                packet, address = self._tap.recvfrom(1 << 17)
            except TimeoutError:
                if self._over.is_set():
                    return
                continue
            if address[2] != socket.PACKET_OUTGOING:
                self._packets.append((time.time_ns(), ETHERNET, packet))

    def end(self) -> list[Packet]:
        self._over.set()
        self._thread.join(600)
        self._tap.close()
        return self._packets


def packets_of_a_run(folder: Path) -> list[Packet]:
    recorder = Recorder()
    try:
        assert ran(folder, table(network={"transport": "tcp"})).failures == []
    finally:
        captured = recorder.end()
    return captured


@pytest.mark.skipif(os.getuid() != 0, reason="capturing needs root")
@pytest.mark.processes
@pytest.mark.slow
def test_what_was_captured_of_a_run_is_the_eavesdroppers_log_from_either_file(tmp_path: Path) -> None:
    captured = in_own_network(lambda: packets_of_a_run(tmp_path / "run"))
    for name, data in (("pcap", pcap(captured)), ("pcapng", pcapng(captured))):
        (tmp_path / name).write_bytes(data)
        log = tmp_path / f"{name}.mcap"
        arguments = ["wiretap", "--pcap", str(tmp_path / name), "--log", str(log)]
        done = answered(*arguments)
        assert done.returncode == 0, done.stderr
        assert_the_eavesdroppers_log(log, tmp_path / "run")
        log.unlink()
        narrow = ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash"]
        command = [*narrow, sys.executable, "-m", "node.cli", *arguments]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1), refused.stderr
        assert not log.exists()


def test_what_cannot_be_captured_leaves_no_log(tmp_path: Path) -> None:
    log = tmp_path / "overheard.mcap"
    (tmp_path / "none").write_bytes(b"no capture")
    for source in (["--pcap", str(tmp_path / "none")], ["--interface", "no-such-interface"]):
        done = answered("wiretap", *source, "--log", log)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert not log.exists()
