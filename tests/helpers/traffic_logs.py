"""What a traffic log holds: its frames, its records, and the same frames in another log."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from node.traffic.reader import TrafficLogReader
from tests.helpers.clusters import AGENTS


def parts_of(path: Path) -> list[tuple[bytes, ...]]:
    return [frame.parts for frame in TrafficLogReader(path)]


def record_offsets(data: bytes) -> list[tuple[int, int, int]]:
    """(opcode, start, end) of every record of a whole MCAP file."""
    found, at = [], 8
    while at < len(data) - 8:
        opcode, length = struct.unpack_from("<BQ", data, at)
        found.append((opcode, at, at + 9 + length))
        at += 9 + length
    return found


def run_id(run: Path) -> bytes:
    """What tells a run's frames from others' on the same interface."""
    return bytes.fromhex(json.loads((run / "manifest.json").read_text())["run"])


def assert_the_eavesdroppers_log(log: Path, run: Path) -> None:
    """Frame for frame, agent by agent: a listener elsewhere receives agents in another order."""
    number = run_id(run)
    for agent in range(AGENTS):
        sender = agent.to_bytes(4)
        heard = [f.parts for f in TrafficLogReader(run / "traffic.mcap") if f.topic[:4] == sender]
        overheard = [f.parts for f in TrafficLogReader(log) if f.topic[:4] == sender and number in f.header]
        assert len(heard) > 40
        assert overheard == heard
