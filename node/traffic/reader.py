"""Reads a traffic log from a file that may be cut or damaged anywhere.

Rules that hold here:
- The file is never trusted: lengths are bounded and checksums are compared.
- Once the file is known to be a traffic log, damage is recorded and never raised.
- Frames are read one at a time; a log need not fit into memory.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import msgpack
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.records import Attachment, Channel, Header, Metadata

from node.traffic.chunks import ChunkError, messages_of_chunk
from node.traffic.documents import Damaged
from node.traffic.format import (
    AGENTS,
    CHECKPOINTS,
    EVENTS,
    MAGIC,
    MESSAGE,
    NUMBERS,
    OTHER,
    PREFIX,
    PROFILE,
    RECORD_LIMIT,
    VERSION,
    Checkpoint,
    Damage,
    Event,
    Frame,
    Summary,
    TrafficLogError,
    frame_of,
)
from node.traffic.summary import Place, is_closed, summary_fault

_LISTED = (Opcode.CHUNK, Opcode.ATTACHMENT, Opcode.METADATA)
"""Records that a closing summary lists."""
_OWN_NAMES = {name: name for name in NUMBERS}


@dataclass
class TrafficLogReader:
    """Reads the frames of a log, in file order, from a file that may be cut or damaged anywhere.

    Iterate over a reader for the frames, as often as needed; `items` yields checkpoints and events too.

    Raises
    ------
    TrafficLogError
        At once, if the file is not a traffic log or has another version.
    """

    path: Path | str
    attachments: dict[str, bytes] = field(init=False, default_factory=dict)
    """Files of the run, by name (`node.traffic.attachments`)."""
    metadata: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    damage: list[Damage] = field(init=False, default_factory=list)
    """Parts of the file that the last iteration could not read."""
    closed: bool = field(init=False, default=False)
    """Whether the log was closed by its writer, known after an iteration."""
    chunks: int = field(init=False, default=0)
    """Whole chunks seen in the last iteration."""
    _places: list[Place] = field(init=False, default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        for opcode, _, _ in self._file_records():
            if opcode not in (Opcode.HEADER, Opcode.ATTACHMENT, Opcode.METADATA):
                break
        if not self.attachments:
            self._attachments_at_the_end()

    def __iter__(self) -> Iterator[Frame]:
        for name, time_ns, _, data in self.messages():
            if name is CHECKPOINTS or name is EVENTS:
                continue
            try:
                frame = frame_of(time_ns, msgpack.unpackb(data))
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
                    item = frame_of(time_ns, held)
            except Exception:  # msgpack raises many kinds
                self._unreadable(name, time_ns, data)
                continue
            yield item

    def _attachments_at_the_end(self) -> None:
        """Learn the attachments of a log that another tool wrote anew: it may have put them behind the frames."""
        with suppress(Exception), Path(self.path).open("rb") as file:  # a damaged summary hides no frame
            found = make_reader(file).get_summary()
            for index in found.attachment_indexes if found is not None else ():
                file.seek(index.offset + 9)
                self._learn(Opcode.ATTACHMENT, index.offset, file.read(min(index.length, RECORD_LIMIT) - 9))

    def damage_as_json(self) -> list[Damaged]:
        """``damage`` of the last iteration, for a JSON document."""
        return [{"offset": one.offset, "size": one.size, "meaning": one.meaning} for one in self.damage]

    def summary(self) -> Summary | None:
        """The log's closing summary, without reading the frames; None if the log was not closed."""
        try:
            with Path(self.path).open("rb") as file:
                found = make_reader(file).get_summary()
        except Exception:  # a file that is cut or damaged has no usable summary
            return None
        if found is None or found.statistics is None:
            return None
        counts = found.statistics.channel_message_counts
        names = {channel.topic: counts.get(number, 0) for number, channel in found.channels.items()}
        return Summary(
            first_ns=found.statistics.message_start_time,
            last_ns=found.statistics.message_end_time,
            frames=sum(count for name, count in names.items() if name not in (CHECKPOINTS, EVENTS)),
            agents=tuple(sorted(int(name[len(AGENTS) :]) for name in names if name.startswith(AGENTS))),
        )

    def messages(self) -> Iterator[tuple[str, int, int, bytes]]:  # noqa: C901 - one loop: a call for each frame costs more
        """(channel, time, sequence, data as stored) of every message of every whole chunk."""
        channels = {number: name for name, number in NUMBERS.items()}
        expected = 0
        unpack, message = MESSAGE.unpack_from, int(Opcode.MESSAGE)
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
                    _, length = PREFIX.unpack_from(plain, at)
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
        except Exception:  # a damaged name hides nothing: each frame names its sender
            return
        # Other MCAP tools number channels anew. The names in `NUMBERS` are compared by identity, once for each message.
        channels[record.id] = _OWN_NAMES.get(record.topic, record.topic)

    def _unreadable(self, name: str, time_ns: int, data: bytes) -> None:
        self._lost(0, len(data), f"a message on {name} at {time_ns} is unreadable")

    def _open_chunk(self, offset: int, body: bytes) -> bytes | None:
        try:
            return messages_of_chunk(body)
        except ChunkError as error:
            self._lost(offset, len(body), str(error))
            return None

    def _lost(self, offset: int, size: int, meaning: str) -> None:
        self.damage.append(Damage(offset, size, meaning))

    def _file_records(self) -> Iterator[tuple[int, int, bytes]]:
        """(opcode, offset, content) of every whole record up to the summary."""
        self.damage.clear()
        self.closed = False
        self.chunks = 0
        self._places.clear()
        crc = 0
        try:
            file = Path(self.path).open("rb")  # noqa: SIM115 - closed below, also when the caller stops early
        except OSError as error:
            raise TrafficLogError(f"{self.path} cannot be read: {error.strerror}") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            magic = file.read(8)
            if magic != MAGIC:
                what = (
                    "is cut within its first bytes" if size < 8 and MAGIC.startswith(magic) else "is not a traffic log"
                )
                raise TrafficLogError(f"{self.path} {what} (expected an MCAP file written by sottovoce)")
            crc = zlib.crc32(magic)
            at = 8
            while True:
                prefix = file.read(9)
                if len(prefix) < 9:
                    break
                opcode, length = PREFIX.unpack(prefix)
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
                raise TrafficLogError(f"{self.path} is cut within its header: nothing in it can be read")
            cut = size - at
            where = f"in the middle of a record, of which {cut} bytes are left" if cut else "between two records"
            self._lost(at, cut, f"the file ends {where}: the frames after the last whole chunk are lost")

    def _check_header(self, opcode: int, body: bytes) -> None:
        profile = ""
        if opcode == Opcode.HEADER:
            try:
                profile = Header.read(ReadDataStream(BytesIO(body))).profile
            except Exception:  # a header that cannot be read was not written by this program
                profile = ""
        if not profile.startswith(PROFILE):
            raise TrafficLogError(f"{self.path} is not a traffic log (an MCAP file of profile {profile!r})")
        version = profile[len(PROFILE) :]
        if version != str(VERSION):
            raise TrafficLogError(f"{self.path} is a traffic log of version {version}; this program reads {VERSION}")

    def _check_end(self, offset: int, body: bytes, crc: int, rest: bytes) -> None:
        # MCAP's checksum may be left out, which a 0 says.
        if len(body) != 4 or int.from_bytes(body, "little") not in (0, crc):
            self._lost(offset, 0, "the checksum over all records does not agree: something between the chunks changed")
        self.closed = is_closed(rest)
        if not self.closed:
            self._lost(offset, 0, "the closing summary is cut; no frame is lost")
        elif fault := summary_fault(rest, offset + 9 + len(body), self._places):
            self._lost(offset, 0, fault)

    def _learn(self, opcode: int, offset: int, body: bytes) -> None:
        if opcode in _LISTED:
            self._places.append((opcode, offset, 9 + len(body)))
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
