"""A user's own CSV, Parquet, NPZ and svmlight files."""

from __future__ import annotations

import builtins
import gzip
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.data import DataError, DataSection, Dealt, deal

CSV = "who,height,colour,ill\nann,1.5,red,yes\nbob,3.0,blue,no\nann,0,red,no\nbob,1.5,red,yes\n"
GIVEN: dict[str, Any] = {
    "source": "csv",
    "label": "ill",
    "positive": "yes",
    "column": "who",
    "bounds": {"height": (0.0, 3.0)},
    "levels": {"colour": ("red", "blue")},
    "held_out": 0.0,
}


def dealt(path: Path, *, private: bool = True, norm: str | None = "l2", **fields: Any) -> Dealt:
    return deal(DataSection(path=str(path), **fields), seed=1, private=private, norm=norm)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def test_csv_by_a_column(csv: Path) -> None:
    data = dealt(csv, **GIVEN)
    assert data.names == ("who ann", "who bob")
    assert data.features == ("intercept", "height", "colour=red", "colour=blue")
    assert data.metric == "accuracy"
    assert data.record == "one row"
    assert data.row_bounds == {"l1": math.sqrt(3), "l2": 1.0}
    ann, bob = data.shards
    assert np.allclose(ann.x * math.sqrt(3), [[1, 0, 1, 0], [1, -1, 1, 0]], rtol=0, atol=1e-15)
    assert ann.y.tolist() == [1.0, -1.0]
    assert bob.y.tolist() == [-1.0, 1.0]


def test_gzip_and_a_byte_order_mark_are_read(csv: Path, tmp_path: Path) -> None:
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + CSV.encode()))
    assert dealt(packed, **GIVEN).digest == dealt(csv, **GIVEN).digest


def test_without_privacy_raw_numbers_are_allowed(csv: Path) -> None:
    data = dealt(csv, private=False, norm=None, **{**GIVEN, "bounds": {}, "intercept": False})
    assert data.row_bounds == {}
    assert data.shards[1].x[:, 0].tolist() == [3.0, 1.5]


def test_a_private_run_needs_something_public(csv: Path) -> None:
    bare = {**GIVEN, "bounds": {}}
    with pytest.raises(DataError, match=r"data\.bounds says nothing of column 'height'.*private"):
        dealt(csv, **bare)
    assert dealt(csv, **bare, row_scaling="record").row_bounds["l2"] == 1.0
    assert dealt(csv, norm="l1", **bare, row_bound=5.0).row_bounds == {"l1": 5.0, "l2": 5.0}
    assert dealt(csv, **{**bare, "bounds": {"*": (0.0, 9.0)}}).row_bounds["l2"] == 1.0


def test_a_row_longer_than_promised_is_an_error(csv: Path) -> None:
    with pytest.raises(DataError, match=r"row 2 has L2 norm .*data\.row_bound = 3"):
        dealt(csv, **{**GIVEN, "bounds": {}, "row_bound": 3.0})


def test_values_outside_public_bounds_are_an_error_or_cut(csv: Path) -> None:
    narrow = {**GIVEN, "bounds": {"height": (0.0, 2.0)}}
    with pytest.raises(DataError, match=r"row 2, column 'height': 3 is outside its public bounds \[0, 2\]"):
        dealt(csv, **narrow)
    assert dealt(csv, **narrow, outside="clip").shards[1].x[0, 1] == 1.0 / math.sqrt(3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bounds": {"hight": (0.0, 3.0)}}, ["data.bounds", "'hight'", "nearest is 'height'"]),
        ({"drop": ("shoe",)}, ["data.drop", "'shoe'"]),
        ({"label": "sick"}, ["data.label", "'sick'"]),
        ({"positive": None}, ["'ill'", "'yes' is no number", "data.positive"]),
        ({"positive": "maybe"}, ["data.positive is 'maybe'", "'no', 'yes'"]),
        ({"levels": {}, "bounds": {"*": (0.0, 3.0)}}, ["row 1", "'colour'", "data.levels"]),
        ({"agents": 3}, ["data.agents is 3"]),
    ],
)
def test_a_setting_that_does_not_fit_is_named(csv: Path, change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        dealt(csv, **{**GIVEN, **change})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no rows"]),
        ("who,height,colour,ill\n", ["no rows"]),
        ("who,who,colour,ill\na,1,red,yes\n", ["twice", "who"]),
        ("who,height,colour,ill\na,1,red\n", ["row 1", "3 cells", "4"]),
        ("who,height,colour,ill\na,inf,red,yes\n", ["row 1", "'height'", "finite"]),
        ("who,height,colour,ill\na,NaN,red,yes\n", ["row 1", "'height'", "finite"]),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        dealt(path, **GIVEN)
    for word in words:
        assert word in str(caught.value)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    for name in ("bad.csv", "bad.csv.gz"):
        path = tmp_path / name
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(DataError, match=r"data\.path: cannot read"):
            dealt(path, **GIVEN)
    with pytest.raises(DataError, match=r"data\.path: nothing at"):
        dealt(tmp_path / "absent.csv", **GIVEN)


def test_labels_of_numbers_are_regressed_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("a,y\n1,-2\n0,0.5\n")
    fields: dict[str, Any] = {"source": "csv", "label": "y", "agents": 1, "held_out": 0.0}
    data = dealt(path, **fields, bounds={"a": (0, 1), "y": (-3, 2)})
    assert data.metric == "rmse"
    assert data.label_bound == 3.0
    assert sorted(data.shards[0].y) == [-2.0, 0.5]
    with pytest.raises(DataError, match="row 1, column 'y': -2 is outside"):
        dealt(path, **fields, bounds={"a": (0, 1), "y": (-1, 2)})
    assert dealt(path, **fields, bounds={"a": (0, 1)}).label_bound is None


def test_parquet_is_dealt_as_csv_is(csv: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    cells = [line.split(",") for line in CSV.split()]
    table = {name: [row[k] for row in cells[1:]] for k, name in enumerate(cells[0])}
    table["height"] = [float(cell) for cell in table["height"]]
    path = tmp_path / "people.parquet"
    parquet.write_table(pyarrow.table(table), path)
    assert dealt(path, **{**GIVEN, "source": "parquet"}).digest == dealt(csv, **GIVEN).digest
    table["height"][2] = None
    parquet.write_table(pyarrow.table(table), path)
    with pytest.raises(DataError, match=r"row 3, column 'height'.*finite"):
        dealt(path, **{**GIVEN, "source": "parquet"})
    path.write_bytes(b"no parquet")
    with pytest.raises(DataError, match="as Parquet"):
        dealt(path, **{**GIVEN, "source": "parquet"})


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    path = tmp_path / "x.parquet"
    path.touch()
    with pytest.raises(DataError, match=r"sottovoce\[tables\]"):
        dealt(path, **{**GIVEN, "source": "parquet"})


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    x, y = np.array([[0.5, 1.0], [-1.0, 0.0], [0.0, 0.0]]), np.array([1, -1, 1])
    np.savez(path, x=x, y=y, who=np.array([7, 3, 7]))
    given: dict[str, Any] = {"source": "npz", "column": "who", "held_out": 0.0, "intercept": False}
    data = dealt(path, **given, row_bound=1.2)
    assert data.names == ("who 3", "who 7")
    assert data.features == ("x0", "x1")
    assert data.metric == "accuracy"
    assert data.row_bounds == {"l1": 1.2 * math.sqrt(2), "l2": 1.2}
    assert data.shards[1].x.tolist() == [[0.5, 1.0], [0.0, 0.0]]
    np.savez(path, x=np.array([[np.inf]]), y=np.array([1.0]))
    with pytest.raises(DataError, match="row 1, column 'x0': inf"):
        dealt(path, source="npz", agents=1, row_bound=1.0)


def test_damaged_npz_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.ones((50, 50)), y=np.ones(50))
    whole = path.read_bytes()
    np.save(tmp_path / "x.npy", np.ones(3))
    for damaged in (b"", whole[:300], whole[:60] + bytes(100) + whole[160:], (tmp_path / "x.npy").read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="as NPZ"):
            dealt(path, source="npz", agents=1, row_bound=9.0)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.ones((2, 2))}, ["x", "arrays x and y"]),
        ({"x": np.ones((2, 2)), "y": np.ones(3)}, ["(2, 2)", "(3,)"]),
        ({"x": np.ones((0, 2)), "y": np.ones(0)}, ["(0, 2)"]),
        ({"x": np.array([["a"]]), "y": np.ones(1)}, ["numbers are accepted"]),
        ({"x": np.array([[None]]), "y": np.ones(1)}, ["cannot read"]),
    ],
)
def test_a_bad_npz_is_named(tmp_path: Path, arrays: dict[str, Any], words: list[str]) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError) as caught:
        dealt(path, source="npz", agents=1, row_bound=9.0)
    for word in words:
        assert word in str(caught.value)


def test_svmlight(tmp_path: Path) -> None:
    path = tmp_path / "x.svm"
    path.write_text("1 1:0.5 3:-1 # a comment\n\n-1 2:1\n")
    given: dict[str, Any] = {"source": "svmlight", "agents": 1, "held_out": 0.0, "intercept": False}
    data = dealt(path, **given, bounds={"*": (-1, 1)}, row_scaling="none", dimension=4)
    assert data.dimension == 4
    assert sorted(data.shards[0].x.tolist()) == [[0, 1, 0, 0], [0.5, 0, -1, 0]]
    with pytest.raises(DataError, match=r"index 3 is outside 1\.\.2"):
        dealt(path, **given, bounds={"*": (-1, 1)}, dimension=2)
    for text in ("1 a:1\n", "x 1:1\n", "1 1\n", "1 0:1\n"):
        path.write_text(text)
        with pytest.raises(DataError, match=r"x\.svm"):
            dealt(path, **given, bounds={"*": (-1, 1)})


# --- what is missing or unknown is refused, and what is public is stated ---------------------------------------------


def refusal(path: Path, **fields: Any) -> str:
    with pytest.raises(DataError) as caught:
        dealt(path, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("label", ["", "?", "NaN", "null", "N/A", "YES", "maybe"])
def test_a_missing_or_unknown_label_is_no_class(csv: Path, label: str) -> None:
    csv.write_text(CSV.replace("red,no\n", f"red,{label}\n"))
    assert f"row 3, column 'ill': the label {label!r}" in refusal(csv, **GIVEN)
    csv.write_text(CSV.replace(",no\n", f",{label}\n"))
    if label not in ("YES", "maybe"):
        assert f"row 2, column 'ill': the label {label!r} stands for a missing value" in refusal(csv, **GIVEN)
        assert dealt(csv, **GIVEN, negative=(label,)).shards[0].y.tolist() == [1.0, -1.0]


def test_labels_of_several_classes_are_listed(csv: Path) -> None:
    csv.write_text(CSV.replace("red,no\n", "red,never\n"))
    assert "'never' is none of 'yes', 'no'" in refusal(csv, **GIVEN)
    assert dealt(csv, **GIVEN, negative=("no", "never")).shards[1].y.tolist() == [-1.0, 1.0]
    assert "'no' is none of 'yes', 'never'" in refusal(csv, **GIVEN, negative="never")


@pytest.mark.parametrize("group", ["", "?", "nan", "NA", "null"])
def test_a_missing_group_is_no_agent(csv: Path, group: str) -> None:
    csv.write_text(CSV.replace("ann,0", f"{group},0"))
    assert f"row 3, column 'who': the group {group!r} stands for a missing value" in refusal(csv, **GIVEN)
    stated = {**GIVEN, "levels": {**GIVEN["levels"], "who": ("bob", group, "ann")}}
    assert dealt(csv, **stated).names == ("who bob", f"who {group}", "who ann")


def test_missing_labels_and_groups_of_arrays_and_tables(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    given: dict[str, Any] = {"held_out": 0.0, "positive": "1", "column": "who", "row_bound": 9.0}
    for y, who, words in (
        ([1.0, 0.0, math.nan], [1.0, 1.0, 2.0], "row 3, column 'y': the label 'nan'"),
        ([1.0, 0.0, 1.0], [1.0, math.nan, 2.0], "row 2, column 'who': the group 'nan'"),
    ):
        np.savez(tmp_path / "x.npz", x=np.ones((3, 1)), y=np.array(y), who=np.array(who))
        assert words in refusal(tmp_path / "x.npz", source="npz", **given)
        cells = {"y": y, "who": who}
        columns = {name: [None if math.isnan(c) else int(c) for c in values] for name, values in cells.items()}
        parquet.write_table(pyarrow.table({"x": [1.0, 1.0, 1.0], **columns}), tmp_path / "x.parquet")
        assert words in refusal(tmp_path / "x.parquet", source="parquet", label="y", **given)
    path = tmp_path / "x.svm"
    path.write_text("1 1:1\n0 1:1\nnan 1:1\n")
    fields: dict[str, Any] = {"source": "svmlight", "agents": 1, "dimension": 1, "row_bound": 9.0}
    assert "row 3, column 'y': the label 'nan'" in refusal(path, **fields, positive="1")
    assert "row 3, column 'y': nan is not a finite number" in refusal(path, **fields)


def test_one_record_does_not_decide_how_long_a_release_is(tmp_path: Path) -> None:
    path = tmp_path / "x.svm"
    path.write_text("1 1:0.5 41:1\n-1 2:1\n")
    given: dict[str, Any] = {"source": "svmlight", "agents": 1, "bounds": {"*": (-1, 1)}}
    assert "data.dimension is missing" in refusal(path, **given)
    assert dealt(path, private=False, **given).dimension == 42
    assert dealt(path, **given, dimension=50).dimension == 51
    path.write_text("1 1:0.5 1:1\n")
    assert "line 1: an index is there twice" in refusal(path, **given)


def test_what_only_the_file_says_is_a_public_assumption(csv: Path) -> None:
    assert dealt(csv, **GIVEN).public_assumptions == (
        "csv: the agents are the values of column 'who' that occur in the file",
        "csv: the label that becomes -1, 'no', was read from the file",
    )
    assert dealt(csv, **GIVEN).negative == ("no",)
    assert dealt(csv, private=False, **GIVEN).public_assumptions == ()
    stated = {**GIVEN, "negative": "no", "levels": {**GIVEN["levels"], "who": ("bob", "cid", "ann")}}
    data = dealt(csv, **stated)
    assert data.public_assumptions == ()
    assert data.names == ("who bob", "who cid", "who ann")
    assert [shard.records for shard in data.shards] == [2, 0, 2]
    assert dealt(csv, **{**stated, "bounds": {"*": (0, 3)}}).public_assumptions == (
        "csv: the columns are those of the file",
    )
    stated["levels"]["who"] = ("bob", "cid")
    assert "row 1: the group 'ann' is not in data.levels" in refusal(csv, **stated)


def test_a_column_of_words_is_not_asked_for_bounds(csv: Path) -> None:
    assert (
        "row 1, column 'colour': 'red' is no number; list its values in data.levels, or put it in data.drop"
        in refusal(csv, **{**GIVEN, "levels": {}})
    )
    csv.write_text(CSV.replace("ann,0", "ann,"))
    assert "row 3, column 'height': '' is no number; fill the missing value in" in refusal(csv, **GIVEN)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"positive": None, "negative": "no"}, "no effect without data.positive"),
        ({"negative": ()}, "data.negative is []"),
        ({"negative": ("no", "yes")}, "without data.positive = 'yes'"),
        ({"levels": {"colour": ("red", "red")}}, "data.levels.colour is ['red', 'red']"),
    ],
)
def test_words_that_say_nothing_are_refused(csv: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        DataSection(path=str(csv), **{**GIVEN, **change})


def test_another_delimiter(csv: Path) -> None:
    for mark in (";", "\t", "|"):
        csv.write_text(CSV.replace(",", mark))
        data = dealt(csv, **GIVEN, delimiter=mark)
        assert data.features == ("intercept", "height", "colour=red", "colour=blue")
        if mark != "|":
            assert f"data.delimiter = {mark!r}" in refusal(csv, **GIVEN)
    for nonsense in ("", ";;", "a", "1", '"', "\n", ".", "-"):
        with pytest.raises(ValueError, match="should be one character that no cell holds"):
            DataSection(path=str(csv), **GIVEN, delimiter=nonsense)


TIMED = CSV.replace("\n", ",0\n").replace("ill,0", "ill,week").replace("bob,3.0,blue,no,0", "bob,3.0,blue,no,7")


def timed(folder: Path, text: str = TIMED) -> Path:
    path = folder / "timed.csv"
    path.write_text(text)
    return path


def test_a_column_says_when_records_arrive_and_is_no_feature(tmp_path: Path, csv: Path) -> None:
    data = dealt(timed(tmp_path), **GIVEN, arriving_column="week")
    assert [shard.arrivals.tolist() for shard in data.shards if shard.arrivals is not None] == [[0, 0], [7, 0]]
    assert data.features == dealt(csv, **GIVEN).features
    assert any("'week'" in line and "epsilon does not cover" in line for line in data.public_assumptions)
    assert data.sources is not None
    assert "week" in data.sources.columns  # a record with another time of arrival is another record
    assert dealt(csv, **GIVEN).shards[0].arrivals is None


def test_arrivals_stay_with_their_training_records(tmp_path: Path) -> None:
    """Each row's label is also its time of arrival, whatever rows are held out."""
    path = tmp_path / "x.npz"
    when = np.arange(20)
    np.savez(path, x=np.full((20, 2), 0.5), y=when.astype(float), week=when)
    for shard in dealt(path, source="npz", agents=3, held_out=0.4, row_bound=2.0, arriving_column="week").shards:
        assert shard.arrivals is not None
        assert shard.arrivals.tolist() == shard.y.tolist()
        assert shard.records >= 3


@pytest.mark.parametrize("cell", ["soon", "", "-1", "1.5", "inf", "nan", "1e300", "2026-11-30"])
def test_a_cell_that_is_no_update_is_an_error(tmp_path: Path, cell: str) -> None:
    said = refusal(timed(tmp_path, TIMED.replace("no,7", f"no,{cell}")), **GIVEN, arriving_column="week")
    assert "row 2, column 'week'" in said
    assert "data.levels" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arriving": 0.5}, "data.arriving is 0.5 and data.arriving_column 'week'"),
        ({"label": "week", "positive": None}, "in data.label too"),
        ({"column": "week"}, "in data.column too"),
        ({"drop": ("week",)}, "in data.drop too"),
        ({"bounds": {"week": (0.0, 9.0)}}, "in data.bounds too"),
        ({"levels": {"week": ("0", "7")}}, "in data.levels too"),
        ({"source": "svmlight", "dimension": 2}, "is not used by data.source = 'svmlight'"),
    ],
)
def test_a_column_of_arrivals_is_nothing_else(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    given = {**GIVEN, "arriving_column": "week", **change}
    if given["source"] == "svmlight":
        given = {key: given[key] for key in ("source", "arriving_column", "dimension")} | {"agents": 2}
    with pytest.raises(ValueError, match=re.escape(words)):
        DataSection(path=str(timed(tmp_path)), **given)
    with pytest.raises(DataError, match=r"data\.arriving_column names column 'weak'.*nearest is 'week'"):
        dealt(timed(tmp_path), **GIVEN, arriving_column="weak")
