"""A delimited text file (CSV, plain or gzip) as columns of words."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path

from node.data.errors import DataError


def read_columns(
    path: Path, *, delimiter: str = ",", header: Sequence[str] | None = None, skip: int = 0
) -> dict[str, list[str]]:
    """Every column by name, in file order; spaces around a cell are cut off. ``header``: names, if the file has none.

    Raises
    ------
    DataError
        The file cannot be read, is empty, repeats a column, or a row has too many or too few cells.
    """
    names = list(header or ())
    rows: list[list[str]] = []
    lines = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        for number, line in enumerate(lines):
            if number < skip or not line:
                continue
            cells = [cell.strip() for cell in line]
            if not names:
                names = cells
            elif len(cells) != len(names):
                raise DataError(
                    f"{path.name}, row {len(rows) + 1}: {len(cells)} cells where {len(names)} were expected"
                )
            else:
                rows.append(cells)
    except csv.Error as error:
        raise DataError(f"data.path: {path} is no delimited text: {error}") from None
    if not rows:
        raise DataError(f"data.path: {path} has no rows")
    _refuse_another(delimiter, names, path)
    if len(set(names)) < len(names):
        raise DataError(f"{path.name}: a column name occurs twice: {sorted({n for n in names if names.count(n) > 1})}")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _refuse_another(delimiter: str, names: Sequence[str], path: Path) -> None:
    """Raise DataError where the one column looks like several that another character separates."""
    other = next((mark for mark in ";\t|," if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise DataError(
            f"{path.name}: the header is one column, {names[0][:60]!r}, with {delimiter!r} as delimiter; "
            f"accepted by this file: data.delimiter = {other!r}"
        )


def read_text(path: Path) -> str:
    """The file as UTF-8, unpacked if its name ends in .gz."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"data.path: cannot read {path}: {error}") from None


def without_missing(columns: dict[str, list[str]], missing: str) -> dict[str, list[str]]:
    """Only the rows in which no cell equals ``missing``: a rule on each record alone."""
    rows = zip(*columns.values(), strict=True)
    kept = [row for row in rows if missing not in row]
    return {name: list(column) for name, column in zip(columns, zip(*kept, strict=True), strict=True)}
