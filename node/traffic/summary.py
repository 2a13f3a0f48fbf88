"""Whether a log's closing summary fits the records before it.

Other MCAP readers go by the summary: one that was damaged hides frames from them, or makes them fail. The reader here
never needs it, so it compares the summary with what it read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Final

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import AttachmentIndex, ChunkIndex, Footer, MetadataIndex

from node.traffic.format import MAGIC, PREFIX

Place = tuple[int, int, int]
"""Opcode of a record that the summary lists, its first byte in the file, its size in bytes."""

_FOOTER: Final = 9 + 20
_END: Final = _FOOTER + len(MAGIC)


def is_closed(rest: bytes) -> bool:
    """Whether the bytes after the last data record end as a closed log does."""
    return rest.endswith(MAGIC) and len(rest) >= _END and rest[-_END] == Opcode.FOOTER


def summary_fault(rest: bytes, start: int, places: Sequence[Place]) -> str | None:
    """What is wrong with the summary of a closed log, in words; None if nothing is.

    Parameters
    ----------
    rest
        The bytes of the file after its last data record.
    start
        Where in the file they begin.
    places
        The chunks, attachments and metadata that were read.
    """
    try:
        footer = Footer.read(ReadDataStream(BytesIO(rest[9 - _END : -len(MAGIC)])))
        # MCAP's checksum may be left out, which a 0 says.
        if footer.summary_start != start or footer.summary_crc not in (0, zlib.crc32(rest[: -4 - len(MAGIC)])):
            return "the closing summary is damaged (checksum); no frame is lost, but other MCAP readers may miss some"
        listed = sorted(_listed(rest[:-_END]))
    except Exception:  # records that were changed raise many kinds
        return "the closing summary is unreadable; no frame is lost, but other MCAP readers fail"
    if listed != sorted(places):
        return "the closing summary lists other chunks or attachments than the log holds: other MCAP readers miss some"
    return None


def _listed(data: bytes) -> Iterator[Place]:
    """The records that the indices of a summary list."""
    at = 0
    while at < len(data):
        opcode, length = PREFIX.unpack_from(data, at)
        stream = ReadDataStream(BytesIO(data[at + 9 : at + 9 + length]))
        at += 9 + length
        if opcode == Opcode.CHUNK_INDEX:
            chunk = ChunkIndex.read(stream)
            yield Opcode.CHUNK, chunk.chunk_start_offset, chunk.chunk_length
        elif opcode == Opcode.ATTACHMENT_INDEX:
            attachment = AttachmentIndex.read(stream)
            yield Opcode.ATTACHMENT, attachment.offset, attachment.length
        elif opcode == Opcode.METADATA_INDEX:
            metadata = MetadataIndex.read(stream)
            yield Opcode.METADATA, metadata.offset, metadata.length
