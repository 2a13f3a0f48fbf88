"""The messages of a chunk, decompressed and compared with its checksum.

Rules that hold here:
- No chunk takes more memory than it claims, and none that claims more than `RECORD_LIMIT` is opened.

The writer compresses with lz4. Other MCAP tools write zstd by default, and a log may have passed through one of them.
"""

from __future__ import annotations

import zlib
from io import BytesIO

import lz4.frame
import zstandard  # the MCAP library requires it, as it requires lz4
from mcap.data_stream import ReadDataStream
from mcap.records import Chunk

from node.traffic.format import RECORD_LIMIT


class ChunkError(ValueError):
    """A chunk that cannot be opened; one line."""


def messages_of_chunk(body: bytes) -> bytes:
    """The records that the chunk record ``body`` holds, one after another; raises `ChunkError`."""
    try:
        chunk = Chunk.read(ReadDataStream(BytesIO(body)))
        plain = _decompressed(chunk)
    except ChunkError:
        raise
    except Exception:  # decoders raise many kinds; all mean that the chunk is not as written
        plain = None
    # MCAP's checksum may be left out, which a 0 says.
    if plain is None or (chunk.uncompressed_crc and zlib.crc32(plain) != chunk.uncompressed_crc):
        raise ChunkError("a chunk is damaged (checksum)")
    return plain


def _decompressed(chunk: Chunk) -> bytes | None:
    """The chunk's content; None where it has not the size that the chunk claims."""
    size = chunk.uncompressed_size
    if size > RECORD_LIMIT:
        return None
    plain: bytes
    if chunk.compression == "lz4":
        plain = lz4.frame.LZ4FrameDecompressor().decompress(chunk.data, max_length=size + 1)
    elif chunk.compression == "zstd":
        # Not `decompress`: that makes a buffer of the size that the frame itself claims.
        with zstandard.ZstdDecompressor().stream_reader(BytesIO(chunk.data)) as stream:
            plain = stream.read(size + 1)
    elif chunk.compression == "":
        plain = chunk.data
    else:
        raise ChunkError(f"a chunk is compressed with {chunk.compression}; accepted are lz4 and zstd")
    return plain if len(plain) == size else None
