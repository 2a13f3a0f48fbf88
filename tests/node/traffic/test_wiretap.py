"""What a wiretap writes down is what the eavesdropper heard; of encrypted links, sizes and times."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from node.cli import main
from node.traffic.format import Event
from node.traffic.reader import TrafficLogReader
from node.traffic.zmtp import ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IP, Address, Wiretap, Zmtp
from tests.helpers.clusters import AGENTS, ran, table
from tests.helpers.own_network import in_own_network
from tests.helpers.traffic_logs import assert_the_eavesdroppers_log, run_id

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="capturing needs root")


def captured(folder: Path, network: dict[str, object]) -> tuple[Path, str, int]:
    """Run a cluster into ``folder``/run while its packets are captured; the wiretap's log, words and exit status."""
    log = folder / "overheard.mcap"
    command = [sys.executable, "-m", "node.cli", "wiretap", "--interface", "lo", "--log", str(log)]
    tap = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert tap.stdout is not None
        assert tap.stdout.readline() == "capturing on lo\n"
        watch = ran(folder / "run", table(network={"transport": "tcp", **network}))
        assert watch.failures == []
        tap.send_signal(signal.SIGTERM)
        words, _ = tap.communicate(timeout=600)
    finally:
        if tap.poll() is None:
            tap.kill()
            tap.communicate()
    return log, words, tap.returncode


@needs_root
@pytest.mark.processes
def test_without_keys_it_is_the_eavesdroppers_log_frame_for_frame(tmp_path: Path) -> None:
    log, words, status = in_own_network(lambda: captured(tmp_path, {}))
    assert status == 0, words
    assert_the_eavesdroppers_log(log, tmp_path / "run")


@needs_root
@pytest.mark.processes
def test_with_keys_it_holds_sizes_and_times_alone_and_says_so(tmp_path: Path) -> None:
    log, words, status = in_own_network(lambda: captured(tmp_path, {"encryption": True}))
    assert status == 0, words
    assert "only size and time are known" in words
    items = list(TrafficLogReader(log).items())
    run = run_id(tmp_path / "run")
    assert not [frame for frame in TrafficLogReader(log) if run in frame.header]
    assert sum(isinstance(item, Event) for item in items) > AGENTS * 40 * 3
    data = log.read_bytes()
    for frame in TrafficLogReader(tmp_path / "run" / "traffic.mcap"):
        assert not frame.body or frame.body not in data


def test_a_zmtp_stream_reads_the_same_however_it_is_cut() -> None:
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x04\x06\x05READY"
    message = b"\x01\x05topic" + b"\x03" + (300).to_bytes(8) + bytes(300) + b"\x00\x00"
    subscribe = b"\x04\x0c\x09SUBSCRIBEab"
    whole = greeting + ready + message + subscribe + message
    for size in (1, 7, len(whole)):
        zmtp = Zmtp()
        found = [parts for at in range(0, len(whole), size) for parts, _ in zmtp.feed(whole[at : at + size])]
        assert found == [(b"topic", bytes(300), b"")] * 2
        assert zmtp.subscriptions == {b"ab"}


# --- packets that a test makes ---------------------------------------------------------------------------------------

HERE, THERE = (b"\x7f\0\0\1", 7000), (b"\x7f\0\0\1", 8000)
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
SUBSCRIBED = GREETING + b"\x00\x01\x01"
MESSAGE = b"\x01\x05topic\x01\x06header\x00\x04body"


def tcp(source: Address, target: Address, sequence: int, data: bytes = b"", *, syn: bool = False) -> bytes:
    """An IPv4 packet of one TCP segment."""
    head = struct.pack(">HHIIBBHHH", source[1], target[1], sequence & 0xFFFFFFFF, 0, 5 << 4, 2 * syn, 0, 0, 0)
    size = 20 + len(head) + len(data)
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 6, 0, source[0], target[0]) + head + data


def conversation(count: int, size: int = 12, first: int = 0xFFFFFF00) -> list[bytes]:
    """A publisher's connection: handshake, subscription, ``count`` messages in segments of ``size`` bytes."""
    said = GREETING + MESSAGE * count
    packets = [tcp(THERE, HERE, 0, syn=True), tcp(HERE, THERE, first, syn=True), tcp(THERE, HERE, 1, SUBSCRIBED)]
    return packets + [tcp(HERE, THERE, first + 1 + at, said[at : at + size]) for at in range(0, len(said), size)]


LINKS = {
    "ethernet": (ETHERNET, bytes(12) + b"\x08\x00"),
    "vlan": (ETHERNET, bytes(12) + b"\x81\x00\x00\x07\x08\x00"),
    "two vlan tags": (ETHERNET, bytes(12) + b"\x88\xa8\x00\x07\x81\x00\x00\x08\x08\x00"),
    "cooked": (LINUX_COOKED, bytes(14) + b"\x08\x00"),
    "cooked, version 2": (LINUX_COOKED_2, b"\x08\x00" + bytes(18)),
    "raw": (RAW_IP, b""),
}


@pytest.mark.parametrize("name", LINKS)
def test_every_kind_of_link_gives_the_same_frames(name: str) -> None:
    link, head = LINKS[name]
    tap = Wiretap()
    for k, packet in enumerate(conversation(5)):
        tap.take(k, head + packet, link)
    assert [frame.parts for frame in tap.captured()] == [(b"topic", b"header", b"body")] * 5
    assert tap.holes == 0


def test_packets_in_any_order_and_twice_give_every_frame_once() -> None:
    packets = conversation(200)
    stream = random.Random(1)
    data = packets[3:] + stream.sample(packets[3:], 50)
    stream.shuffle(data)
    tap = Wiretap()
    for k, packet in enumerate(packets[:3] + data):
        tap.take(k, packet, RAW_IP)
    assert [frame.parts for frame in tap.captured()] == [(b"topic", b"header", b"body")] * 200
    assert tap.holes == 0


def test_a_lost_packet_does_not_make_the_following_ones_slow() -> None:
    packets = conversation(5200)
    del packets[6]
    tap = Wiretap()
    began = time.process_time()
    for k, packet in enumerate(packets):
        tap.take(k, packet, RAW_IP)
    assert time.process_time() - began < 5.0, "0.1 s; quadratic time was 9 s"
    assert tap.holes == 1


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (slice(None), ""),
        (slice(0, -3), "1 packets were captured in part"),
        (slice(0, 24), "no message of ZeroMQ was found"),
    ],
)
def test_what_a_file_lacks_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: slice, words: str) -> None:
    data = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, RAW_IP)
    for k, packet in enumerate(conversation(3)):
        data += struct.pack("<4I", 1, k, len(packet), len(packet)) + packet
    (tmp_path / "a.pcap").write_bytes(data[kept])
    with pytest.raises(SystemExit) as ended:
        main(["wiretap", "--pcap", str(tmp_path / "a.pcap"), "--log", str(tmp_path / "a.mcap")])
    assert ended.value.code == (1 if words else 0)
    told = capsys.readouterr().err
    assert words in told
    assert len(told.splitlines()) == (1 if words else 0)
