"""A log that another MCAP tool wrote anew is the same log."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.writer import CompressionType, Writer

from node.traffic import chunks
from node.traffic.attachments import counter_for
from node.traffic.check import verify_log
from node.traffic.chunks import ChunkError, messages_of_chunk
from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from tests.helpers.speech import RUN, START_NS, conversation, release, write_log


@pytest.mark.parametrize("compression", list(CompressionType))
@pytest.mark.parametrize("attachments_first", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_log_that_another_tool_compressed_is_read(
    tmp_path: Path, compression: CompressionType, attachments_first: bool, checksums: bool
) -> None:
    attachments = {"manifest.json": b'{"agents": 5, "run": "%s"}' % RUN.hex().encode(), "config.toml": b"[run]\n"}
    old = write_log(tmp_path / "old.mcap", conversation(), attachments=attachments, chunk_bytes=700)
    new = _recompressed(
        old, tmp_path / "new.mcap", compression, attachments_first=attachments_first, checksums=checksums
    )
    before, after = TrafficLogReader(old), TrafficLogReader(new)
    assert counter_for(after).verdict().silent == (0, 1, 2, 3, 4), "the run is known before its frames are read"
    assert list(after.items()) == list(before.items())
    assert after.attachments == attachments
    assert after.damage == []
    assert after.closed
    found = verify_log(new)
    assert found["ok"]
    assert found["chain"] == verify_log(old)["chain"]
    assert found["checkpoints"] > 3


def test_a_change_in_a_recompressed_log_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with TrafficLogWriter(path) as writer:
        writer.write(release(0, 0, value=0.5), START_NS)
    forged = _recompressed(path, tmp_path / "b.mcap", CompressionType.ZSTD, other_value=True)
    assert verify_log(forged)["chain_broken"]


def test_a_small_chunk_that_unpacks_to_much_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(300 << 20))
    assert len(bomb) < 40_000
    with pytest.raises(ChunkError, match="damaged"):
        messages_of_chunk(_chunk("zstd", bomb, 1000))
    monkeypatch.setattr(chunks, "RECORD_LIMIT", 1 << 20)
    with pytest.raises(ChunkError, match="damaged"):
        messages_of_chunk(_chunk("zstd", bomb, 300 << 20))


def test_an_unknown_compression_is_named() -> None:
    with pytest.raises(ChunkError, match="compressed with brotli; accepted are lz4 and zstd"):
        messages_of_chunk(_chunk("brotli", b"?", 1))


def _chunk(compression: str, data: bytes, size: int) -> bytes:
    builder = RecordBuilder()
    Chunk(compression, data, 0, 0, zlib.crc32(b"?"), size).write(builder)
    return bytes(builder.end())[9:]


def _recompressed(
    old: Path,
    new: Path,
    compression: CompressionType,
    *,
    attachments_first: bool = True,
    checksums: bool = True,
    other_value: bool = False,
) -> Path:
    """Write a log anew as the MCAP library does it, which numbers the channels in the order of their first message."""
    with old.open("rb") as source, new.open("wb") as target:
        reader = make_reader(source)
        writer = Writer(target, compression=compression, chunk_size=2000, enable_crcs=checksums)
        writer.start(reader.get_header().profile)
        if attachments_first:
            _attach(old, writer)
        numbers: dict[str, int] = {}
        for _, channel, message in reader.iter_messages(log_time_order=False):
            if channel.topic not in numbers:
                numbers[channel.topic] = writer.register_channel(channel.topic, channel.message_encoding, 0)
            data = message.data[:-1] + b"\1" if other_value and channel.topic.startswith("/agents") else message.data
            number, at = numbers[channel.topic], message.log_time
            writer.add_message(number, at, data, message.publish_time, message.sequence)
        if not attachments_first:
            _attach(old, writer)
        writer.finish()
    return new


def _attach(old: Path, writer: Writer) -> None:
    with old.open("rb") as file:
        for found in make_reader(file).iter_attachments():
            writer.add_attachment(found.create_time, found.log_time, found.name, found.media_type, found.data)
