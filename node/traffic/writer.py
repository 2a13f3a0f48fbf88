"""Writes a traffic log, one frame after another, into a new MCAP file.

Rules that hold here:
- A log is never overwritten.
- A chunk is written in one piece: if a file is cut at any byte, every whole chunk before it can still be read.
- After an error of the disk, the file ends with the last whole chunk.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import lz4.frame
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Statistics,
    SummaryOffset,
)

from node.traffic.format import (
    CHECKPOINTS,
    ENCODING,
    EVENTS,
    FIRST_AGENT,
    MAGIC,
    MESSAGE,
    NUMBERS,
    OTHER,
    PROFILE,
    TIME,
    VERSION,
    TrafficLogError,
    bytes_of,
    chain_start,
    channel_name,
    pack,
)

CHUNK_BYTES: Final = 1 << 20
_MOST_CHANNELS: Final = 60_000


class TrafficLogWriter:
    """Writes frames to a new file.

    Parameters
    ----------
    path
        The file; it must not exist.
    attachments, metadata
        Files (name to bytes) and strings at the file's start, so that a truncated file has them too.
    chunk_bytes
        Size at which a chunk is compressed and written.

    Raises
    ------
    TrafficLogError
        If the file exists or cannot be created.
    OSError
        By its methods, if the disk fails. The file then ends with the last whole chunk.
    """

    def __init__(
        self,
        path: Path | str,
        attachments: Mapping[str, bytes] | None = None,
        metadata: Mapping[str, str] | None = None,
        *,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        attachments = dict(attachments or {})
        self.path = Path(path)
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise TrafficLogError(f"{path} exists: a traffic log is never overwritten, name a new file") from None
        except OSError as error:
            raise TrafficLogError(f"{path} cannot be written: {error.strerror}") from None
        self.frames = 0
        """Frames written so far."""
        self.chain = chain_start(attachments)
        """The SHA-256 chain after the last frame."""
        self._chunk_bytes = chunk_bytes
        self._written = 0
        self._crc = 0
        self._failed = False
        self._closed = False
        self._channels: dict[bytes, int] = {}
        self._records: list[Channel] = []
        self._named: dict[str, int] = {}
        self._counts: dict[int, int] = {}
        self._chunks: list[ChunkIndex] = []
        self._attached: list[AttachmentIndex] = []
        self._described: list[MetadataIndex] = []
        self._first = self._last = 0
        self._pieces: list[bytes] = []
        self._size = self._chunk_first = self._chunk_last = 0
        self._new_chunk()
        self._append(MAGIC + bytes_of(Header(f"{PROFILE}{VERSION}", "sottovoce")))
        if metadata:
            self._describe("sottovoce", metadata)
        for name, data in attachments.items():
            self._attach(name, data)

    def __enter__(self) -> TrafficLogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def write(self, parts: Sequence[bytes], time_ns: int) -> None:
        """Add a frame: its parts as received, at ``time_ns`` (ns since 1970)."""
        data = pack(parts)
        first = parts[0][:4]
        channel = self._channels.get(first) or self._channel_of(first)
        self.chain = sha256(self.chain + TIME.pack(time_ns) + data).digest()
        self._add(channel, self.frames, time_ns, data)
        self.frames += 1
        if self._size >= self._chunk_bytes:
            self._finish_chunk()

    def event(self, fields: Mapping[str, Any], time_ns: int) -> None:
        """Add an event at ``time_ns`` (ns since 1970)."""
        self._add(self._channel(EVENTS), self.frames, time_ns, pack(dict(fields)))

    def flush(self) -> None:
        """Write all frames so far to the file, as a whole chunk."""
        if self._pieces:
            self._finish_chunk()

    def close(self, metadata: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Flush, add ``metadata`` (name to strings), the summary and the end of the file."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._failed:
                self.flush()
                for name, fields in (metadata or {}).items():
                    self._describe(name, fields)
                self._append(bytes_of(DataEnd(self._crc)))
                self._append(self._summary())
        finally:
            os.close(self._file)

    def _add(self, channel: int, sequence: int, time_ns: int, data: bytes) -> None:
        head = MESSAGE.pack(Opcode.MESSAGE, 22 + len(data), channel, sequence & 0xFFFFFFFF, time_ns, time_ns)
        self._pieces += (head, data)
        self._size += 31 + len(data)
        self._counts[channel] += 1
        if time_ns > self._chunk_last:
            self._chunk_last = time_ns
        if time_ns < self._chunk_first:
            self._chunk_first = time_ns

    def _channel_of(self, first: bytes) -> int:
        if len(first) != 4 or len(self._channels) >= _MOST_CHANNELS:
            return self._channel(OTHER)
        channel = self._channels[first] = self._channel(channel_name(first))
        return channel

    def _channel(self, name: str) -> int:
        number = self._named.get(name)
        if number is None:
            agents = len(self._named.keys() - NUMBERS.keys())
            number = self._named[name] = NUMBERS.get(name, FIRST_AGENT + agents)
            record = Channel(id=number, topic=name, message_encoding=ENCODING, metadata={}, schema_id=0)
            self._records.append(record)
            self._counts[number] = 0
            data = bytes_of(record)
            self._pieces.append(data)
            self._size += len(data)
        return number

    def _new_chunk(self) -> None:
        self._pieces = []
        self._size = 0
        self._chunk_first, self._chunk_last = (1 << 64) - 1, 0

    def _finish_chunk(self) -> None:
        self._add(
            self._channel(CHECKPOINTS),
            self.frames,
            self._chunk_last,
            pack({"frames": self.frames, "chain": self.chain}),
        )
        plain = b"".join(self._pieces)
        packed: bytes = lz4.frame.compress(plain)
        start, first, last = self._written, self._chunk_first, self._chunk_last
        self._first = first if not self._chunks else min(first, self._first)
        self._last = max(last, self._last)
        self._new_chunk()
        record = Chunk(
            compression="lz4",
            data=packed,
            message_start_time=first,
            message_end_time=last,
            uncompressed_crc=zlib.crc32(plain),
            uncompressed_size=len(plain),
        )
        self._append(bytes_of(record))
        # No message indices: each chunk holds frames of all agents, so a reader has to open every chunk anyway.
        self._chunks.append(
            ChunkIndex(
                chunk_length=self._written - start,
                chunk_start_offset=start,
                compression="lz4",
                compressed_size=len(packed),
                message_end_time=last,
                message_index_length=0,
                message_index_offsets={},
                message_start_time=first,
                uncompressed_size=len(plain),
            )
        )

    def _attach(self, name: str, data: bytes) -> None:
        media = {"json": "application/json", "toml": "application/toml", "graphml": "application/xml"}
        record = Attachment(0, 0, name, media.get(name.rpartition(".")[2], "application/octet-stream"), data)
        start = self._written
        self._append(bytes_of(record))
        self._attached.append(AttachmentIndex(start, self._written - start, 0, 0, len(data), name, record.media_type))

    def _describe(self, name: str, fields: Mapping[str, str]) -> None:
        start = self._written
        self._append(bytes_of(Metadata(name, dict(fields))))
        self._described.append(MetadataIndex(start, self._written - start, name))

    def _append(self, data: bytes) -> None:
        if self._failed:
            raise OSError(f"{self.path} could not be written before")
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self._failed = True
            os.ftruncate(self._file, self._written)
            raise
        self._written += len(data)
        self._crc = zlib.crc32(data, self._crc)

    def _summary(self) -> bytes:
        statistics = Statistics(
            attachment_count=len(self._attached),
            channel_count=len(self._records),
            channel_message_counts=self._counts,
            chunk_count=len(self._chunks),
            message_count=sum(self._counts.values()),
            message_end_time=self._last,
            message_start_time=self._first,
            metadata_count=len(self._described),
            schema_count=0,
        )
        groups: list[tuple[Opcode, Sequence[McapRecord]]] = [
            (Opcode.CHANNEL, self._records),
            (Opcode.STATISTICS, [statistics]),
            (Opcode.CHUNK_INDEX, self._chunks),
            (Opcode.ATTACHMENT_INDEX, self._attached),
            (Opcode.METADATA_INDEX, self._described),
        ]
        start = self._written
        data, offsets = b"", b""
        for opcode, records in groups:
            if records:
                group = bytes_of(*records)
                offsets += bytes_of(SummaryOffset(opcode, start + len(data), len(group)))
                data += group
        footer = struct.pack("<BQQQ", Opcode.FOOTER, 20, start, start + len(data))
        crc = zlib.crc32(data + offsets + footer)
        return data + offsets + bytes_of(Footer(start, start + len(data), crc)) + MAGIC
