"""What a wiretap writes down is what the eavesdropper heard; of encrypted links, sizes and times."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from node.traffic.format import Event
from node.traffic.reader import TrafficLogReader
from node.traffic.zmtp import Zmtp
from tests.helpers.clusters import AGENTS, ran, table
from tests.helpers.traffic_logs import assert_the_eavesdroppers_log, run_id

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="capturing needs root")


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
        words, _ = tap.communicate(timeout=60)
    finally:
        if tap.poll() is None:
            tap.kill()
            tap.communicate()
    return log, words, tap.returncode


@pytest.mark.processes
def test_without_keys_it_is_the_eavesdroppers_log_frame_for_frame(tmp_path: Path) -> None:
    log, words, status = captured(tmp_path, {})
    assert status == 0, words
    assert_the_eavesdroppers_log(log, tmp_path / "run")


@pytest.mark.processes
def test_with_keys_it_holds_sizes_and_times_alone_and_says_so(tmp_path: Path) -> None:
    log, words, status = captured(tmp_path, {"encryption": True})
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
