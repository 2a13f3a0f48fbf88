"""A user's own data: CSV and Parquet (named columns), NPZ and svmlight (a matrix whose columns are x0, x1, ...).

One rule for all: a private run needs something public that bounds its rows, which is ``data.bounds`` for every column
of numbers, or ``data.row_bound``, or ``data.row_scaling = "record"``.
"""

from __future__ import annotations

import difflib
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from node.configuration.data import DataSection
from node.data.columns import Cells, Number, Plan, Words, check_rows, encode, numbers, scale_rows
from node.data.csv_file import read_columns, read_text
from node.data.errors import DataError
from node.data.labels import Labels, read_labels, text_of
from node.data.paths import existing
from node.data.table import Table

_LABEL = "y"
_MOST_CELLS = 500_000_000
_LAST = 2**53
"""No update has a larger number: beyond it float64 has no whole numbers one apart."""


def load(section: DataSection, *, private: bool, norm: str) -> Table:
    """Read, encode, scale and check the file that the section names."""
    path = existing(section.path or "")
    if section.source == "csv":
        columns: Mapping[str, Cells] = read_columns(path, delimiter=section.delimiter)
    elif section.source == "parquet":
        columns = _parquet(path)
    elif section.source == "npz":
        columns = _npz(path, section.column, section.arriving_column)
    else:
        columns = _svmlight(path, section.dimension, private)
    label = section.label or _LABEL
    _known(columns, section.drop, "data.drop")
    _known(columns, section.levels, "data.levels")
    _known(columns, [name for name in section.bounds if name != "*"], "data.bounds")
    _known(columns, [label], "data.label")
    _known(columns, filter(None, [section.column]), "data.column")
    _known(columns, filter(None, [section.arriving_column]), "data.arriving_column")

    if label in section.levels:
        raise DataError(f"data.levels: column {label!r} is the label; its values go in data.positive and data.negative")
    aside = {label, section.column, section.arriving_column, *section.drop}
    plan = {name: _rule(name, cells, section, private) for name, cells in columns.items() if name not in aside}
    encoded = encode(columns, plan, intercept=section.intercept is not False)
    x, row_bounds = scale_rows(encoded, section.row_scaling or "public", norm)
    if section.row_bound is not None:
        check_rows(x, norm, section.row_bound)
        root, bound = math.sqrt(encoded.columns), section.row_bound
        row_bounds = {"l1": bound, "l2": bound} if norm == "l1" else {"l1": bound * root, "l2": bound}
    labels = read_labels(label, columns[label], section, private=private)
    return Table(
        x=x,
        y=labels.y,
        features=encoded.features,
        record=section.record,
        row_bounds=row_bounds,
        label_bound=labels.bound,
        groups=None if section.column is None else [text_of(cell) for cell in columns[section.column]],
        group=section.column or "agent",
        public_assumptions=_assumed(section, plan, labels) if private else (),
        negative=labels.negative,
        sources=columns,
        arrivals=None if section.arriving_column is None else _updates(section.arriving_column, columns),
    )


def _updates(name: str, columns: Mapping[str, Cells]) -> npt.NDArray[np.int64]:
    """The first update that may use each row, as the column ``name`` states it."""
    values = numbers(name, columns[name], remedy="an update, from 0 on, is accepted")
    bad = np.flatnonzero((values < 0) | (values != np.floor(values)) | (values > _LAST))
    if bad.size:
        raise DataError(
            f"row {bad[0] + 1}, column {name!r}: {values[bad[0]]:g} is no update of data.arriving_column; accepted are "
            "whole numbers from 0, the first update"
        )
    return values.astype(np.int64)


def _assumed(section: DataSection, plan: Plan, labels: Labels) -> tuple[str, ...]:
    """What is public of a file only because the file says it, and no setting does."""
    found = []
    stated = {*section.bounds, *section.levels}
    if section.source != "svmlight" and any(name not in stated for name in plan):
        found.append(f"{section.source}: the columns are those of the file")
    if section.column is not None and section.column not in section.levels:
        found.append(f"{section.source}: the agents are the values of column {section.column!r} that occur in the file")
    if section.arriving_column is not None:
        found.append(
            f"{section.source}: when each record arrives is the value of its column {section.arriving_column!r}, and "
            "epsilon does not cover that column"
        )
    if labels.negative:
        found.append(f"{section.source}: the label that becomes -1, {labels.negative[0]!r}, was read from the file")
    return tuple(found)


def _rule(name: str, cells: Cells, section: DataSection, private: bool) -> Number | Words:
    if name in section.levels:
        return Words(section.levels[name])
    bounds = section.bounds.get(name, section.bounds.get("*"))
    if bounds is not None:
        return Number(*bounds, clip=section.outside == "clip")
    if private and section.row_bound is None and section.row_scaling != "record":
        numbers(name, cells)  # a column of words needs another remedy than bounds
        raise DataError(
            f"data.bounds says nothing of column {name!r}, and a private run needs public bounds: give [low, high] for "
            'it or for "*", or data.row_bound, or data.row_scaling = "record"'
        )
    return Number(None, None)


def _known(columns: Mapping[str, Cells], names: Iterable[str], key: str) -> None:
    for name in names:
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1)
            hint = f"nearest is {near[0]!r}" if near else f"there are {', '.join(list(columns)[:12])}"
            raise DataError(f"{key} names column {name!r}, which is not in the data; {hint}")


def _parquet(path: Path) -> dict[str, Cells]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError("data.source = 'parquet' needs the extra 'tables': pip install 'sottovoce[tables]'") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"data.path: cannot read {path} as Parquet: {error}") from None
    out: dict[str, Cells] = {}
    for name in table.column_names:
        cells = table.column(name).to_pylist()
        # A missing number is not finite, and is reported as such; a missing word is no level.
        out[name] = [math.nan if cell is None else cell for cell in cells]
    if table.num_rows == 0:
        raise DataError(f"data.path: {path} has no rows")
    return out


def _npz(path: Path, *named: str | None) -> dict[str, Cells]:
    """Arrays ``x`` (n, p), ``y`` (n,), and those (n,) of the columns that settings name. No pickle is read."""
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as data:  # a lone .npy is no NPZ
            arrays = {name: data[name] for name in data.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"data.path: cannot read {path} as NPZ: {error}") from None
    x, y = arrays.get("x"), arrays.get("y")
    if x is None or y is None:
        raise DataError(f"data.path: {path} holds {', '.join(arrays) or 'nothing'}; it must hold arrays x and y")
    return _matrix(path, x, y, {name: arrays[name] for name in named if name in arrays and name is not None})


def _svmlight(path: Path, dimension: int | None, private: bool) -> dict[str, Cells]:
    """Lines "label index:value ...", indices from 1, "#" opens a comment; what is not there is 0."""
    labels, rows = _svmlight_rows(path)
    smallest = min((min(row, default=1) for row in rows), default=1)
    largest = max(max(row, default=1) for row in rows)
    if smallest < 1 or (dimension is not None and largest > dimension):
        raise DataError(
            f"{path.name}: index {smallest if smallest < 1 else largest} is outside 1..{dimension or largest}"
        )
    if private and dimension is None:
        raise DataError(
            f"{path.name}: data.dimension is missing, and in a private run the largest index of a record must not "
            "decide how long a release is; give the public number of columns"
        )
    columns = dimension or largest
    if columns * len(rows) > _MOST_CELLS:
        raise DataError(f"{path.name}: {len(rows)} rows of {columns} columns are too many for this dense loader")
    x = np.zeros((len(rows), columns))
    for i, row in enumerate(rows):
        for index, value in row.items():
            x[i, index - 1] = value
    return _matrix(path, x, np.array(labels), {})


def _svmlight_rows(path: Path) -> tuple[list[float], list[dict[int, float]]]:
    labels: list[float] = []
    rows: list[dict[int, float]] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.split("#", 1)[0].split()
        if not cells:
            continue
        try:
            labels.append(float(cells[0]))
            pairs = [(int(index), float(value)) for index, _, value in (cell.partition(":") for cell in cells[1:])]
        except ValueError:
            raise DataError(f"{path.name}, line {number}: not of the form 'label index:value ...'") from None
        rows.append(dict(pairs))
        if len(rows[-1]) < len(pairs):
            raise DataError(f"{path.name}, line {number}: an index is there twice")
    if not rows:
        raise DataError(f"data.path: {path} has no rows")
    return labels, rows


def _matrix(path: Path, x: Any, y: Any, more: Mapping[str, Any]) -> dict[str, Cells]:
    if x.ndim != 2 or y.ndim != 1 or len(x) != len(y) or len(x) == 0 or x.shape[1] == 0:
        raise DataError(f"{path.name}: x has shape {x.shape} and y {y.shape}; (n, p) and (n,) are accepted, n, p >= 1")
    for name, array in more.items():
        if array.shape != y.shape:
            raise DataError(f"{path.name}: {name} has shape {array.shape}, y has {y.shape}")
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biufU":
        raise DataError(f"{path.name}: x is {x.dtype} and y {y.dtype}; numbers are accepted")
    return {**{f"x{k}": x[:, k] for k in range(x.shape[1])}, _LABEL: y, **more}
