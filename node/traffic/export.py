"""The frames of a log as a table: JSON lines, comma-separated values, Parquet."""

from __future__ import annotations

import base64
import csv
import importlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

from node.hello import Hello
from node.traffic.documents import Row
from node.traffic.format import Frame
from node.traffic.selection import sender_of
from node.wire import Done, Refused, decode

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "time_ns",
    "from",
    "to",
    "kind",
    "index",
    "round",
    "used",
    "last",
    "skipped",
    "heard",
    "digest",
    "bytes",
    "refused",
    "vector",
)
"""Columns of `rows`, in this order."""


def row(frame: Frame) -> Row:
    """A frame as a row of a table; if it is not a message, with ``refused`` and its ``parts`` in base64 instead."""
    size = sum(map(len, frame.parts))
    try:
        message = decode(frame.parts)
    except Refused as refused:
        parts = [base64.b64encode(part).decode() for part in frame.parts]
        return {
            "time_ns": frame.time_ns,
            "from": sender_of(frame),
            "bytes": size,
            "refused": str(refused),
            "parts": parts,
        }
    common: Row = {"time_ns": frame.time_ns, "from": message.sender}
    if isinstance(message, Hello):
        return {**common, "kind": "hello", "digest": message.digest.hex(), "bytes": size}
    if isinstance(message, Done):
        skipped, heard = list(message.skipped), list(message.heard)
        return {**common, "kind": "done", "last": message.last, "skipped": skipped, "heard": heard, "bytes": size}
    return {
        **common,
        "to": message.recipient,
        "kind": "release",
        "index": message.index,
        "round": message.round,
        "used": [list(pair) for pair in message.used],
        "bytes": size,
        "vector": message.vector.tolist(),
    }


def write_ndjson(frames: Iterable[Frame], out: IO[str]) -> int:
    """Write one JSON object a line; returns the number of lines. Infinity and NaN are strings, as JSON lacks them."""
    count = 0
    for frame in frames:
        line = row(frame)
        try:
            text = json.dumps(line, allow_nan=False)
        except ValueError:
            line["vector"] = [v if math.isfinite(float(v)) else str(v) for v in line["vector"]]
            text = json.dumps(line)
        out.write(text + "\n")
        count += 1
    return count


def write_csv(frames: Iterable[Frame], out: IO[str]) -> int:
    """Write a header line and one row a frame; returns the number of rows.

    Elements of a list are separated by spaces, the two numbers of a pair by a colon.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for frame in frames:
        line = row(frame)
        writer.writerow([_cell(line.get(column)) for column in COLUMNS])
        count += 1
    return count


def _cell(value: object) -> object:
    if isinstance(value, list):
        return " ".join(":".join(map(str, v)) if isinstance(v, list) else repr(v) for v in value)
    return value


def _fitting(value: object) -> object:
    """Null for a number that does not fit into a signed 64-bit column; no run has one."""
    return None if isinstance(value, int) and value >= 1 << 63 else value


def write_parquet(frames: Iterable[Frame], path: Path, batch: int = 10_000) -> int:
    """Write a Parquet file with the columns of `COLUMNS`; returns the number of rows.

    Parameters
    ----------
    frames
        The frames, in order.
    path
        The file; an existing one is replaced.
    batch
        Rows of one row group.

    Raises
    ------
    ValueError
        If pyarrow is not installed.
    """
    import_pyarrow("--format parquet")
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(path, _schema()) as writer:
        for some in _batches(frames, batch):
            writer.write_table(_table(some))
            count += len(some)
    return count


def arrow_table(frames: Iterable[Frame]) -> pa.Table:
    """An Arrow table with the columns of `COLUMNS`; raises ValueError without pyarrow."""
    pyarrow = import_pyarrow("a table of frames")
    tables = [_table(some) for some in _batches(frames, 10_000)]
    return pyarrow.concat_tables(tables) if tables else _table([])


def import_pyarrow(what: str) -> ModuleType:
    """Import pyarrow for ``what``; if it is not installed, raises ValueError with the way to install it."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise ValueError(f"{what} needs pyarrow: install sottovoce[tables]") from None


def _batches(frames: Iterable[Frame], size: int) -> Iterator[list[Row]]:
    rows = (row(frame) for frame in frames)
    while some := list(islice(rows, size)):
        yield some


def _table(rows: Sequence[Row]) -> pa.Table:
    import pyarrow as pa

    columns = {column: [_fitting(one.get(column)) for one in rows] for column in COLUMNS}
    return pa.table(columns, schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow as pa

    numbers = pa.list_(pa.int64())
    types = {
        "time_ns": pa.int64(),
        "kind": pa.string(),
        "used": pa.list_(numbers),
        "skipped": numbers,
        "heard": numbers,
        "digest": pa.string(),
        "refused": pa.string(),
        "vector": pa.list_(pa.float64()),
    }
    return pa.schema([(column, types.get(column, pa.int64())) for column in COLUMNS])
