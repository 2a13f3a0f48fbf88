"""Tables as Parquet files, where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def parquet(columns: Mapping[str, Sequence[Any]]) -> bytes | None:
    """Return a table with these columns as the bytes of a Parquet file; None where pyarrow is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet as writer
    except ImportError:
        return None
    sink = pa.BufferOutputStream()
    writer.write_table(pa.table(dict(columns)), sink)
    return bytes(sink.getvalue().to_pybytes())
