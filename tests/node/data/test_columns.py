"""Features come from public rules: bounds hold for every record, and no record enters another's features."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.data import DataError
from node.data.columns import Number, Plan, Rated, Rule, Words, check_rows, encode, row_norms, scale_rows

PLAN: Plan = {
    "height": Number(0.0, 3.0, clip=True),
    "age": Number(0.0, 120.0, start=0.0, clip=True),
    "colour": Words(("red", "green", "blue"), base="red"),
    "shape": Words(("round", "flat")),
}
NUMBERS = st.floats(-1e6, 1e6)
RECORDS = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.sampled_from(["red", "green", "blue"]), st.sampled_from(["round", "flat"])),
    min_size=1,
    max_size=8,
)


def columns(records: list[tuple[float, float, str, str]]) -> dict[str, list[str]]:
    return {name: [str(record[k]) for record in records] for k, name in enumerate(PLAN)}


@given(records=RECORDS, scaling=st.sampled_from(["public", "record", "none"]), norm=st.sampled_from(["l1", "l2"]))
def test_public_row_bounds_hold_for_any_record(
    records: list[tuple[float, float, str, str]], scaling: str, norm: str
) -> None:
    x, bounds = scale_rows(encode(columns(records), PLAN, intercept=True), scaling, norm)
    for kind in ("l1", "l2"):
        assert row_norms(x, kind).max() <= bounds[kind] * (1 + 1e-12)
    if scaling == "record":
        assert bounds[norm] == 1.0


@pytest.mark.parametrize("scaling", ["public", "none"])
def test_public_row_bounds_are_reached(scaling: str) -> None:
    x, bounds = scale_rows(encode(columns([(3.0, 120.0, "blue", "flat")]), PLAN, intercept=True), scaling, "l2")
    assert row_norms(x, "l2")[0] == pytest.approx(bounds["l2"], rel=1e-12)
    assert row_norms(x, "l1")[0] == pytest.approx(bounds["l1"], rel=1e-12)


@given(records=RECORDS, scaling=st.sampled_from(["public", "record", "none"]))
def test_a_record_is_encoded_by_itself(records: list[tuple[float, float, str, str]], scaling: str) -> None:
    together, _ = scale_rows(encode(columns(records), PLAN, intercept=True), scaling, "l2")
    for row, record in zip(together, records, strict=True):
        alone, _ = scale_rows(encode(columns([record]), PLAN, intercept=True), scaling, "l2")
        assert np.array_equal(alone[0], row)


def test_features_are_named_and_placed() -> None:
    encoded = encode(columns([(0.0, 60.0, "red", "flat"), (3.0, 0.0, "blue", "round")]), PLAN, intercept=True)
    names = ("intercept", "height", "age", "colour=green", "colour=blue", "shape=round", "shape=flat")
    assert encoded.features == names
    assert encoded.columns == 5
    assert encoded.x.tolist() == [[1, -1, 0.5, 0, 0, 0, 1], [1, 1, 0, 0, 1, 1, 0]]


def test_unbounded_numbers_have_no_public_row_bound() -> None:
    plan: Plan = {"a": Number(None, None)}
    _, bounds = scale_rows(encode({"a": ["5"]}, plan, intercept=False), "public", "l2")
    assert bounds == {}
    x, bounds = scale_rows(encode({"a": ["5"]}, plan, intercept=False), "record", "l1")
    assert x[0, 0] == 1.0
    assert bounds["l1"] == 1.0


@pytest.mark.parametrize(
    ("cells", "rule", "words"),
    [
        (["1", "4"], Number(0.0, 3.0), ["row 2", "'c'", "4", "[0, 3]"]),
        (["1", "nan"], Number(0.0, 3.0), ["row 2", "'c'", "nan", "finite"]),
        (["-inf"], Number(None, None), ["row 1", "'c'", "-inf", "finite"]),
        (["1", "", "2"], Number(0.0, 3.0), ["row 2", "'c'", "no number"]),
        (["red", "pink"], Rated({"red": 0.5}), ["row 2", "'c'", "'pink'", "'red'"]),
        (["red", "pink"], Words(("red", "blue")), ["row 2", "'c'", "'pink'", "'red', 'blue'"]),
    ],
)
def test_a_bad_cell_is_named(cells: list[str], rule: Rule, words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        encode({"c": cells}, {"c": rule}, intercept=False)
    for word in words:
        assert word in str(caught.value)


def test_a_row_longer_than_the_public_bound_is_named() -> None:
    x = np.array([[0.6, 0.8], [0.6, 0.81]])
    check_rows(x[:1], "l2", 1.0)
    with pytest.raises(DataError, match=r"row 2 has L2 norm 1\.00\d*, longer than .*data\.row_bound = 1"):
        check_rows(x, "l2", 1.0)
    with pytest.raises(DataError, match=r"row 1 has L1 norm 1\.4"):
        check_rows(x, "l1", 1.0)


def test_the_norms_are_what_they_say() -> None:
    x = np.array([[3.0, -4.0]])
    assert row_norms(x, "l1")[0] == 7.0
    assert math.isclose(row_norms(x, "l2")[0], 5.0)
