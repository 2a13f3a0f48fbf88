"""The frames of a log as a table: JSON lines, comma-separated values, Parquet."""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from node.traffic.format import Frame
from node.traffic.selection import sender_of
from node.wire import Done, Hello, Refused, decode

Row = dict[str, Any]

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
    """A frame as a table's row; one that is no message has ``refused`` and its ``parts`` in base64 instead."""
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
        heard = {"last": message.last, "skipped": list(message.skipped), "heard": list(message.heard)}
        return {**common, "kind": "done", **heard, "bytes": size}
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
    """One JSON object a line; returns how many. Numbers that JSON has not are strings."""
    count = 0
    for frame in frames:
        line = row(frame)
        try:
            text = json.dumps(line, allow_nan=False)
        except ValueError:
            line["vector"] = [v if math.isfinite(v) else str(v) for v in line["vector"]]
            text = json.dumps(line)
        out.write(text + "\n")
        count += 1
    return count


def write_csv(frames: Iterable[Frame], out: IO[str]) -> int:
    """Comma-separated, with a header line; lists are separated by spaces, pairs by colons. Returns how many rows."""
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
    """Null for a number that no run has and a signed 64-bit column cannot hold."""
    return None if isinstance(value, int) and value >= 1 << 63 else value


def write_parquet(frames: Iterable[Frame], path: Path, batch: int = 10_000) -> int:
    """A Parquet file with the columns of `COLUMNS`; returns how many rows. Raises ValueError without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("--format parquet needs pyarrow: install sottovoce[tables]") from None
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
    schema = pa.schema([(column, types.get(column, pa.int64())) for column in COLUMNS])
    count = 0
    waiting: list[Row] = []
    with pq.ParquetWriter(path, schema) as writer:

        def put() -> None:
            columns = {column: [_fitting(one.get(column)) for one in waiting] for column in COLUMNS}
            writer.write_table(pa.table(columns, schema=schema))
            waiting.clear()

        for frame in frames:
            waiting.append(row(frame))
            count += 1
            if len(waiting) >= batch:
                put()
        put()
    return count
