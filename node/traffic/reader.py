"""The traffic log: every frame that the eavesdropper heard, as received, in one MCAP file.

Rules that hold here:
- The log adds to a frame nothing but the listener's own time.
- What was flushed is never lost: a chunk is written in one piece, and a file that is cut at any byte gives back every
  whole chunk.
- A SHA-256 chain runs over the frames; each chunk ends with a checkpoint of it.
- Reading never trusts the file: lengths are bounded, checksums are compared, and damage is told, never raised, once
  the file is known to be a traffic log.

The file's layout is the MCAP library's: its record classes write and read everything but messages. Messages are packed
here, because the library's writer takes 9 to 14 microseconds for each, which is all that an eavesdropper has for a
release (`benchmarks/log.py`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import lz4.frame
import msgpack
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.opcode import Opcode
from mcap.reader import make_reader
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

VERSION: Final = 1
PROFILE: Final = "sottovoce-traffic/"
ENCODING: Final = "msgpack"
CHECKPOINTS: Final = "/checkpoints"
EVENTS: Final = "/events"
OTHER: Final = "/other"
"""Channel of frames that name no agent."""

_NUMBERS: Final = {CHECKPOINTS: 1, EVENTS: 2, OTHER: 3}
"""Fixed, so that frames are told from what is none even where the chunk that names the channels is damaged."""
_FIRST_AGENT: Final = 4

CHUNK_BYTES: Final = 1 << 20
RECORD_LIMIT: Final = 256 << 20
"""No record of a log is longer, in bytes: a frame's three parts are at most 64 MiB each."""

_AGENTS: Final = "/agents/agent-"
_MAGIC: Final = b"\x89MCAP0\r\n"
_MOST_CHANNELS: Final = 60_000
_PREFIX = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQHIQQ")
_TIME = struct.Struct("<Q")
_SENDER = struct.Struct(">I")
_pack = msgpack.Packer(use_bin_type=True, autoreset=True).pack


class TrafficLogError(ValueError):
    """The file is no traffic log, or of another version; or it cannot be written where it should be."""


class Frame(NamedTuple):
    """One message as the listener received it, at its own time (ns since 1970).

    A frame that had not exactly three parts has them all in ``odd``, and empty bytes elsewhere.
    """

    time_ns: int
    topic: bytes
    header: bytes
    body: bytes
    odd: tuple[bytes, ...] | None = None

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts as received."""
        return (self.topic, self.header, self.body) if self.odd is None else self.odd


class Checkpoint(NamedTuple):
    """The chain after ``frames`` frames, at the listener's time."""

    time_ns: int
    frames: int
    chain: bytes


class Event(NamedTuple):
    """What was done to the run while it was heard, such as a fault that was injected."""

    time_ns: int
    fields: dict[str, Any]


class Summary(NamedTuple):
    """First and last time (ns), number of frames, and the agents heard, from a closed log's summary."""

    first_ns: int
    last_ns: int
    frames: int
    agents: tuple[int, ...]


class Damage(NamedTuple):
    """What of a file cannot be had: where it begins, how many bytes of the file, and what that means."""

    offset: int
    size: int
    meaning: str


def chain_start(attachments: Mapping[str, bytes]) -> bytes:
    """The chain before the first frame: a digest of the log's version and attachments."""
    return sha256(_pack(["sottovoce traffic log", VERSION, sorted(attachments.items())])).digest()


def packed(parts: Sequence[bytes]) -> bytes:
    """Parts as a log holds them: a msgpack list of byte strings."""
    data: bytes = _pack(list(parts))
    return data


def chain_next(chain: bytes, time_ns: int, data: bytes) -> bytes:
    """The chain after a frame whose parts the log holds as ``data``, which keeps their lengths apart."""
    return sha256(chain + _TIME.pack(time_ns) + data).digest()


def _channel_name(first: bytes) -> str:
    return f"{_AGENTS}{_SENDER.unpack(first)[0]:04d}" if len(first) == 4 else OTHER


def _frame(time_ns: int, parts: list[Any]) -> Frame:
    if len(parts) == 3:
        first, second, third = parts
        if type(first) is type(second) is type(third) is bytes:
            return Frame(time_ns, first, second, third)
    elif all(type(part) is bytes for part in parts):
        return Frame(time_ns, b"", b"", b"", tuple(parts))
    raise ValueError("parts are not bytes")


def _bytes_of(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    data: bytes = builder.end()  # type: ignore[no-untyped-call]
    return data


class TrafficLogWriter:
    """Writes frames to a new file; refuses one that exists.

    ``attachments`` (name to bytes) and the metadata are at the file's start, so that a truncated file has them. Errors
    of the disk are raised as `OSError`; the file then ends with the last chunk that was written whole.
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
        self._append(_MAGIC + _bytes_of(Header(f"{PROFILE}{VERSION}", "sottovoce")))
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
        """Add a frame with its parts as received, heard at ``time_ns``."""
        data = _pack(parts)
        first = parts[0][:4]
        channel = self._channels.get(first) or self._channel_of(first)
        self.chain = sha256(self.chain + _TIME.pack(time_ns) + data).digest()
        self._add(channel, self.frames, time_ns, data)
        self.frames += 1
        if self._size >= self._chunk_bytes:
            self._finish_chunk()

    def event(self, fields: Mapping[str, Any], time_ns: int) -> None:
        """Add an event that is no frame."""
        self._add(self._channel(EVENTS), self.frames, time_ns, _pack(dict(fields)))

    def flush(self) -> None:
        """Everything written so far is handed to the operating system as a whole chunk."""
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
                self._append(_bytes_of(DataEnd(self._crc)))
                self._append(self._summary())
        finally:
            os.close(self._file)

    def _add(self, channel: int, sequence: int, time_ns: int, data: bytes) -> None:
        head = _MESSAGE.pack(Opcode.MESSAGE, 22 + len(data), channel, sequence & 0xFFFFFFFF, time_ns, time_ns)
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
        channel = self._channels[first] = self._channel(_channel_name(first))
        return channel

    def _channel(self, name: str) -> int:
        number = self._named.get(name)
        if number is None:
            agents = len(self._named.keys() - _NUMBERS.keys())
            number = self._named[name] = _NUMBERS.get(name, _FIRST_AGENT + agents)
            record = Channel(id=number, topic=name, message_encoding=ENCODING, metadata={}, schema_id=0)
            self._records.append(record)
            self._counts[number] = 0
            data = _bytes_of(record)
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
            _pack({"frames": self.frames, "chain": self.chain}),
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
        self._append(_bytes_of(record))
        # No message indices: each chunk holds a little of every agent, so that a reader has to open it anyway.
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
        self._append(_bytes_of(record))
        self._attached.append(AttachmentIndex(start, self._written - start, 0, 0, len(data), name, record.media_type))

    def _describe(self, name: str, fields: Mapping[str, str]) -> None:
        start = self._written
        self._append(_bytes_of(Metadata(name, dict(fields))))
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
                group = _bytes_of(*records)
                offsets += _bytes_of(SummaryOffset(opcode, start + len(data), len(group)))
                data += group
        footer = struct.pack("<BQQQ", Opcode.FOOTER, 20, start, start + len(data))
        crc = zlib.crc32(data + offsets + footer)
        return data + offsets + _bytes_of(Footer(start, start + len(data), crc)) + _MAGIC


@dataclass
class TrafficLogReader:
    """Reads the frames of a log, in file order, from a file that may be cut or damaged anywhere.

    Iterate over it, as often as you like, for the frames; `items` gives checkpoints and events too. After an
    iteration ``damage`` says what could not be had, and ``closed`` whether the log was closed by its writer. Raises
    `TrafficLogError` at once if the file is no traffic log or of another version.
    """

    path: Path | str
    attachments: dict[str, bytes] = field(init=False, default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    damage: list[Damage] = field(init=False, default_factory=list)
    closed: bool = field(init=False, default=False)
    chunks: int = field(init=False, default=0)
    """Whole chunks seen in the last iteration."""

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        for opcode, _, _ in self._file_records():
            if opcode not in (Opcode.HEADER, Opcode.ATTACHMENT, Opcode.METADATA):
                break

    def __iter__(self) -> Iterator[Frame]:
        for name, time_ns, _, data in self.messages():
            if name is CHECKPOINTS or name is EVENTS:
                continue
            try:
                frame = _frame(time_ns, msgpack.unpackb(data))
            except Exception:  # msgpack raises many kinds
                self._unreadable(name, time_ns, data)
                continue
            yield frame

    def items(self) -> Iterator[Frame | Checkpoint | Event]:
        """Frames, checkpoints and events in file order."""
        for name, time_ns, _, data in self.messages():
            try:
                held = msgpack.unpackb(data)
                item: Frame | Checkpoint | Event
                if name is CHECKPOINTS:
                    item = Checkpoint(time_ns, int(held["frames"]), bytes(held["chain"]))
                elif name is EVENTS:
                    item = Event(time_ns, dict(held))
                else:
                    item = _frame(time_ns, held)
            except Exception:  # msgpack raises many kinds
                self._unreadable(name, time_ns, data)
                continue
            yield item

    def summary(self) -> Summary | None:
        """What the log's closing summary tells without reading the frames; None if the log was not closed."""
        try:
            with Path(self.path).open("rb") as file:
                found = make_reader(file).get_summary()
        except Exception:  # a file that is cut or damaged has no summary to go by
            return None
        if found is None or found.statistics is None:
            return None
        counts = found.statistics.channel_message_counts
        names = {channel.topic: counts.get(number, 0) for number, channel in found.channels.items()}
        return Summary(
            first_ns=found.statistics.message_start_time,
            last_ns=found.statistics.message_end_time,
            frames=sum(count for name, count in names.items() if name not in (CHECKPOINTS, EVENTS)),
            agents=tuple(sorted(int(name[len(_AGENTS) :]) for name in names if name.startswith(_AGENTS))),
        )

    def messages(self) -> Iterator[tuple[str, int, int, bytes]]:
        """(channel, time, sequence, data as the log holds it) of every message of every whole chunk."""
        channels = {number: name for name, number in _NUMBERS.items()}
        expected = 0
        unpack, message = _MESSAGE.unpack_from, int(Opcode.MESSAGE)
        for opcode, offset, body in self._file_records():
            if opcode != Opcode.CHUNK:
                continue
            plain = self._open_chunk(offset, body)
            if plain is None:
                continue
            self.chunks += 1
            at, end = 0, len(plain)
            while at + 9 <= end:
                if plain[at] == message and at + 31 <= end:
                    _, length, channel, sequence, time_ns, _ = unpack(plain, at)
                else:
                    _, length = _PREFIX.unpack_from(plain, at)
                after = at + 9 + length
                if after > end or (plain[at] == message and length < 22):
                    self._lost(offset, len(body), "a chunk holds a record that does not fit into it")
                    break
                if plain[at] == message:
                    name = channels.get(channel, OTHER)
                    if name is not CHECKPOINTS and name is not EVENTS:
                        if sequence != expected & 0xFFFFFFFF:
                            gap = (sequence - expected) & 0xFFFFFFFF
                            self._lost(offset, 0, f"{gap} frames are missing before frame {sequence}")
                            expected = sequence
                        expected += 1
                    yield name, time_ns, sequence, plain[at + 31 : after]
                elif plain[at] == Opcode.CHANNEL:
                    self._learn_channel(channels, plain[at + 9 : after])
                at = after

    def _learn_channel(self, channels: dict[int, str], data: bytes) -> None:
        try:
            record = Channel.read(ReadDataStream(BytesIO(data)))
        except Exception:  # a damaged name is only a name: frames carry their sender themselves
            return
        if record.id >= _FIRST_AGENT:
            channels[record.id] = record.topic

    def _unreadable(self, name: str, time_ns: int, data: bytes) -> None:
        self._lost(0, len(data), f"a message on {name} at {time_ns} is unreadable")

    def _open_chunk(self, offset: int, body: bytes) -> bytes | None:
        try:
            chunk = Chunk.read(ReadDataStream(BytesIO(body)))
            if chunk.uncompressed_size > RECORD_LIMIT:
                raise ValueError
            if chunk.compression == "lz4":
                plain: bytes = lz4.frame.LZ4FrameDecompressor().decompress(
                    chunk.data, max_length=chunk.uncompressed_size + 1
                )
            elif chunk.compression == "":
                plain = chunk.data
            else:
                self._lost(offset, len(body), f"a chunk is compressed with {chunk.compression}, not lz4")
                return None
            if len(plain) != chunk.uncompressed_size or zlib.crc32(plain) != chunk.uncompressed_crc:
                raise ValueError
        except Exception:  # whatever the decoders raise, the chunk is not what was written
            self._lost(offset, len(body), "a chunk is damaged (checksum)")
            return None
        return plain

    def _lost(self, offset: int, size: int, meaning: str) -> None:
        self.damage.append(Damage(offset, size, meaning))

    def _file_records(self) -> Iterator[tuple[int, int, bytes]]:
        """(opcode, offset, content) of every whole record up to the summary."""
        self.damage.clear()
        self.closed = False
        self.chunks = 0
        crc = 0
        try:
            file = Path(self.path).open("rb")  # noqa: SIM115 - closed below, also when the caller stops early
        except OSError as error:
            raise TrafficLogError(f"{self.path} cannot be read: {error.strerror}") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            magic = file.read(8)
            if magic != _MAGIC:
                what = "is cut within its first bytes" if size < 8 and _MAGIC.startswith(magic) else "is no traffic log"
                raise TrafficLogError(f"{self.path} {what} (expected an MCAP file written by sottovoce)")
            crc = zlib.crc32(magic)
            at = 8
            while True:
                prefix = file.read(9)
                if len(prefix) < 9:
                    break
                opcode, length = _PREFIX.unpack(prefix)
                if length > min(RECORD_LIMIT, size - at - 9):
                    break
                body = file.read(length)
                if len(body) < length:
                    break
                if at == 8:
                    self._check_header(opcode, body)
                if opcode == Opcode.DATA_END:
                    self._check_end(at, body, crc, file.read(RECORD_LIMIT))
                    return
                crc = zlib.crc32(body, zlib.crc32(prefix, crc))
                self._learn(opcode, at, body)
                yield opcode, at, body
                at += 9 + length
            if at == 8:
                raise TrafficLogError(f"{self.path} is cut within its header: nothing can be had from it")
            cut = size - at
            where = f"in the middle of a record, of which {cut} bytes are left" if cut else "between two records"
            self._lost(at, cut, f"the file ends {where}: what was heard after the last whole chunk is lost")

    def _check_header(self, opcode: int, body: bytes) -> None:
        profile = ""
        if opcode == Opcode.HEADER:
            try:
                profile = Header.read(ReadDataStream(BytesIO(body))).profile
            except Exception:  # a header that cannot be read is none of ours
                profile = ""
        if not profile.startswith(PROFILE):
            raise TrafficLogError(f"{self.path} is no traffic log (an MCAP file of profile {profile!r})")
        version = profile[len(PROFILE) :]
        if version != str(VERSION):
            raise TrafficLogError(f"{self.path} is a traffic log of version {version}; this program reads {VERSION}")

    def _check_end(self, offset: int, body: bytes, crc: int, rest: bytes) -> None:
        if len(body) != 4 or int.from_bytes(body, "little") != crc:
            self._lost(offset, 0, "the checksum over all records does not agree: something between the chunks changed")
        if rest.endswith(_MAGIC) and len(rest) > 37 and rest[-37] == Opcode.FOOTER:
            self.closed = True
        else:
            self._lost(offset, 0, "the closing summary is cut; no frame is lost")

    def _learn(self, opcode: int, offset: int, body: bytes) -> None:
        try:
            if opcode == Opcode.ATTACHMENT:
                attachment = Attachment.read(ReadDataStream(BytesIO(body)))
                if zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
                    self._lost(offset, len(body), f"the attachment {attachment.name} is damaged (checksum)")
                self.attachments[attachment.name] = attachment.data
            elif opcode == Opcode.METADATA:
                metadata = Metadata.read(ReadDataStream(BytesIO(body)))
                self.metadata[metadata.name] = metadata.metadata
        except Exception:  # an unreadable attachment hides no frame
            self._lost(offset, len(body), "an attachment or metadata record is unreadable")
