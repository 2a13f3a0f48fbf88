"""The log gives back what was written, from a whole file and from what is left of one."""

from __future__ import annotations

import errno
import os
import random
import struct
from hashlib import sha256
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.records import Chunk, Message
from mcap.stream_reader import StreamReader, breakup_chunk
from mcap.writer import CompressionType, Writer

from node.traffic.format import Checkpoint, Event, Frame, TrafficLogError, chain_next, chain_start, packed
from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from tests.helpers.speech import START_NS, conversation, release, write_log
from tests.helpers.traffic_logs import parts_of, record_offsets


def test_frames_come_back_as_written(tmp_path: Path) -> None:
    said = conversation()
    path = write_log(tmp_path / "a.mcap", said, attachments={"manifest.json": b"{}", "config.toml": b"[run]\n"})
    reader = TrafficLogReader(path)
    frames = list(reader)
    assert [frame.parts for frame in frames] == said
    assert [frame.time_ns for frame in frames] == [START_NS + k * 1_000_000 for k in range(len(said))]
    assert reader.attachments == {"manifest.json": b"{}", "config.toml": b"[run]\n"}
    assert reader.closed
    assert reader.damage == []
    assert [frame.parts for frame in reader] == said, "a reader can be read twice"


@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=5), max_size=20), st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_any_parts_come_back(tmp_path_factory: pytest.TempPathFactory, said: list[list[bytes]], chunk: int) -> None:
    path = write_log(tmp_path_factory.mktemp("log") / "a.mcap", said, chunk_bytes=chunk)
    assert [list(parts) for parts in parts_of(path)] == said


def test_the_mcap_library_reads_it(tmp_path: Path) -> None:
    said = conversation()
    path = write_log(tmp_path / "a.mcap", [*said, (b"?",)], attachments={"manifest.json": b"{}"}, chunk_bytes=500)
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        topics = {channel.topic for channel in summary.channels.values()}
        assert topics == {*(f"/agents/agent-000{i}" for i in range(4)), "/checkpoints", "/other"}
        assert {channel.message_encoding for channel in summary.channels.values()} == {"msgpack"}
        assert summary.statistics is not None
        assert summary.statistics.chunk_count == len(summary.chunk_indexes) > 3
        assert [attachment.name for attachment in reader.iter_attachments()] == ["manifest.json"]
        heard = [
            (message.sequence, tuple(msgpack.unpackb(message.data)))
            for _, channel, message in reader.iter_messages(topics=["/agents/agent-0003"])
        ]
        assert heard == [(k, parts) for k, parts in enumerate(said) if parts[0][:4] == b"\0\0\0\3"]


def test_the_summary_tells_span_frames_and_agents(tmp_path: Path) -> None:
    said = conversation()
    summary = TrafficLogReader(write_log(tmp_path / "a.mcap", said, chunk_bytes=500)).summary()
    assert summary is not None
    assert summary.frames == len(said)
    assert summary.agents == (0, 1, 2, 3)
    assert (summary.first_ns, summary.last_ns) == (START_NS, START_NS + (len(said) - 1) * 1_000_000)
    assert TrafficLogReader(write_log(tmp_path / "b.mcap", said, close=False)).summary() is None


def test_what_was_flushed_can_be_read_while_the_log_is_open(tmp_path: Path) -> None:
    said = conversation()
    path = tmp_path / "a.mcap"
    writer = TrafficLogWriter(path)
    for parts in said[:20]:
        writer.write(parts, START_NS)
    writer.flush()
    for parts in said[20:]:
        writer.write(parts, START_NS)
    reader = TrafficLogReader(path)
    assert [frame.parts for frame in reader] == said[:20]
    assert not reader.closed
    assert "between two records" in reader.damage[0].meaning
    writer.close()
    assert parts_of(path) == said


def test_the_chain_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    said = conversation()
    path = write_log(tmp_path / "a.mcap", said, attachments={"b": b"2", "a": b"1"}, chunk_bytes=700)
    start = sha256(msgpack.packb(["sottovoce traffic log", 1, [["a", b"1"], ["b", b"2"]]])).digest()
    assert chain_start({"b": b"2", "a": b"1"}) == start
    chain, frames, checkpoints = start, 0, 0
    reader = TrafficLogReader(path)
    for item in reader.items():
        if isinstance(item, Frame):
            chain = sha256(chain + struct.pack("<Q", item.time_ns) + msgpack.packb(list(item.parts))).digest()
            frames += 1
        elif isinstance(item, Checkpoint):
            assert (item.frames, item.chain) == (frames, chain)
            checkpoints += 1
    assert frames == len(said)
    assert checkpoints == reader.chunks > 3
    assert chain_next(start, 7, packed([b"x"])) == sha256(start + struct.pack("<Q", 7) + b"\x91\xc4\x01x").digest()


def test_events_are_kept_apart_from_frames(tmp_path: Path) -> None:
    with TrafficLogWriter(tmp_path / "a.mcap") as writer:
        writer.write(release(0, 0), START_NS)
        writer.event({"kind": "kill", "agent": 1}, START_NS + 5)
        writer.write(release(0, 1), START_NS + 9)
    reader = TrafficLogReader(tmp_path / "a.mcap")
    assert [frame.parts for frame in reader] == [release(0, 0), release(0, 1)]
    events = [item for item in reader.items() if isinstance(item, Event)]
    assert events == [Event(START_NS + 5, {"kind": "kill", "agent": 1})]
    assert reader.damage == []


def test_cut_at_any_byte_every_whole_chunk_comes_back(tmp_path: Path) -> None:
    said = conversation(5, 40)
    whole = write_log(tmp_path / "a.mcap", said, attachments={"manifest.json": b"{}"}, chunk_bytes=3000).read_bytes()
    chunks = [(start, end) for opcode, start, end in record_offsets(whole) if opcode == 6]
    held = frames_of_chunks(tmp_path / "a.mcap")
    assert len(chunks) == len(held) > 5
    cut = tmp_path / "cut.mcap"
    stream = random.Random(20180904)
    for at in [*range(60), *(stream.randrange(len(whole)) for _ in range(500)), len(whole) - 1]:
        cut.write_bytes(whole[:at])
        expected = sum(count for (_, end), count in zip(chunks, held, strict=True) if end <= at)
        try:
            reader = TrafficLogReader(cut)
        except TrafficLogError:
            assert at < chunks[0][0], "only a file that is cut within its header is refused"
            continue
        assert [frame.parts for frame in reader] == said[:expected]
        assert reader.damage, "a cut is told"
        assert not reader.closed


def frames_of_chunks(path: Path) -> list[int]:
    """Frames of each chunk, counted by the MCAP library; the last message of each chunk is its checkpoint."""
    with path.open("rb") as file:
        chunks = [record for record in StreamReader(file, emit_chunks=True).records if isinstance(record, Chunk)]
    return [sum(isinstance(record, Message) for record in breakup_chunk(chunk)) - 1 for chunk in chunks]


@pytest.mark.parametrize("number", [0, 2])
def test_a_damaged_chunk_is_told_and_the_others_come_back(tmp_path: Path, number: int) -> None:
    said = conversation(5, 40)
    path = write_log(tmp_path / "a.mcap", said, chunk_bytes=3000)
    whole = path.read_bytes()
    chunks = [(start, end) for opcode, start, end in record_offsets(whole) if opcode == 6]
    start, end = chunks[number]
    data = bytearray(whole)
    data[(start + end) // 2] ^= 1
    path.write_bytes(data)
    reader = TrafficLogReader(path)
    back = [frame.parts for frame in reader]
    held = frames_of_chunks(write_log(tmp_path / "b.mcap", said, chunk_bytes=3000))
    first, gone = sum(held[:number]), held[number]
    assert back == said[:first] + said[first + gone :]
    assert len(reader.damage) == 3
    meanings = " / ".join(damage.meaning for damage in reader.damage)
    assert "a chunk is damaged" in meanings
    assert f"{gone} frames are missing" in meanings
    assert "checksum over all records" in meanings


def test_a_chunk_that_was_taken_out_is_missed(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(5, 40), chunk_bytes=3000)
    whole = path.read_bytes()
    _, start, end = [r for r in record_offsets(whole) if r[0] == 6][3]
    path.write_bytes(whole[:start] + whole[end:])
    reader = TrafficLogReader(path)
    list(reader)
    assert any("frames are missing before frame" in damage.meaning for damage in reader.damage)


def test_damaged_attachment_is_told(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation(), attachments={"manifest.json": b'{"agents": 4}'})
    path.write_bytes(path.read_bytes().replace(b'"agents": 4', b'"agents": 5'))
    reader = TrafficLogReader(path)
    assert len(list(reader)) == len(conversation())
    assert any("manifest.json is damaged" in damage.meaning for damage in reader.damage)


@given(st.integers(0, 1 << 30), st.integers(0, 7), st.integers(0, 1 << 30))
@settings(max_examples=150, deadline=None)
def test_no_flipped_bit_raises_or_invents_a_frame(
    tmp_path_factory: pytest.TempPathFactory, where: int, bit: int, length: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    said = conversation(3, 10)
    path = write_log(folder / "a.mcap", said, attachments={"manifest.json": b"{}"}, chunk_bytes=900)
    data = bytearray(path.read_bytes())
    data[where % len(data)] ^= 1 << bit
    path.write_bytes(data[: len(data) - length % 3])
    try:
        reader = TrafficLogReader(path)
    except TrafficLogError:
        return
    known = set(said)
    assert all(frame.parts in known for frame in reader)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_garbage_after_the_header_never_raises(tmp_path_factory: pytest.TempPathFactory, garbage: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "a.mcap"
    write_log(path, [], close=False)
    path.write_bytes(path.read_bytes() + garbage)
    assert list(TrafficLogReader(path)) == []


def test_a_chunk_that_claims_to_be_huge_is_not_unpacked(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation())
    data = bytearray(path.read_bytes())
    start = next(start for opcode, start, _ in record_offsets(bytes(data)) if opcode == 6)
    data[start + 9 + 16 : start + 9 + 24] = struct.pack("<Q", 1 << 40)
    path.write_bytes(data)
    reader = TrafficLogReader(path)
    assert list(reader) == []
    assert "a chunk is damaged" in reader.damage[0].meaning


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation())
    before = path.read_bytes()
    with pytest.raises(TrafficLogError, match="exists"):
        TrafficLogWriter(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\x89MCA", b"hello, world", b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_what_is_no_log_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.mcap").write_bytes(content)
    with pytest.raises(TrafficLogError, match=r"is not a traffic log|is cut within its first bytes"):
        TrafficLogReader(tmp_path / "a.mcap")


def test_another_program_s_mcap_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    writer = Writer(str(path), compression=CompressionType.LZ4)
    writer.start(profile="ros2")
    writer.finish()
    with pytest.raises(TrafficLogError, match="profile 'ros2'"):
        TrafficLogReader(path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.mcap", conversation())
    path.write_bytes(path.read_bytes().replace(b"sottovoce-traffic/1", b"sottovoce-traffic/2"))
    with pytest.raises(TrafficLogError, match="version 2; this program reads 1"):
        TrafficLogReader(path)


def test_a_missing_file_and_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(TrafficLogError, match="No such file"):
        TrafficLogReader(tmp_path / "a.mcap")
    with pytest.raises(TrafficLogError, match="No such file"):
        TrafficLogWriter(tmp_path / "nowhere" / "a.mcap")


def test_a_full_disk_leaves_every_whole_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = 4000
    real_write = os.write

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = real_write(descriptor, data[:room])
        room -= taken
        return taken

    said = conversation(5, 40)
    path = tmp_path / "a.mcap"
    monkeypatch.setattr(os, "write", write)
    writer = TrafficLogWriter(path, chunk_bytes=1500)

    def write_all() -> None:
        for parts in said:
            writer.write(parts, START_NS)

    with pytest.raises(OSError, match="No space left"):
        write_all()
    writer.close()
    monkeypatch.undo()
    reader = TrafficLogReader(path)
    back = [frame.parts for frame in reader]
    assert 0 < len(back) <= writer.frames < len(said)
    assert back == said[: len(back)]
    assert "between two records" in reader.damage[-1].meaning


def test_senders_without_end_do_not_exhaust_the_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.traffic.writer._MOST_CHANNELS", 3)
    said = [release(i, 0) for i in range(10)]
    path = write_log(tmp_path / "a.mcap", said)
    assert parts_of(path) == said
    summary = TrafficLogReader(path).summary()
    assert summary is not None
    assert summary.agents == (0, 1, 2)
