"""Splits deal each row once at most, and hold out what they should."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.data import DataError, split

SEEDS = st.integers(0, 2**32)


@given(rows=st.integers(1, 300), agents=st.integers(1, 40))
def test_even_sizes_differ_by_one_at_most(rows: int, agents: int) -> None:
    if rows < agents:
        with pytest.raises(DataError, match=r"data\.agents"):
            split.even_sizes(rows, agents)
        return
    sizes = split.even_sizes(rows, agents)
    assert sum(sizes) == rows
    assert len(sizes) == agents
    assert max(sizes) - min(sizes) <= 1


@given(agents=st.integers(1, 40), floor=st.integers(0, 20), spare=st.integers(0, 300), seed=SEEDS)
def test_random_sizes_share_all_rows_above_the_floor(agents: int, floor: int, spare: int, seed: int) -> None:
    rows = agents * floor + spare
    sizes = split.random_sizes(rows, agents, floor, np.random.default_rng(seed))
    assert len(sizes) == agents
    assert sum(sizes) == rows
    assert min(sizes) >= floor


def test_random_sizes_are_uniform_over_all_ways_to_share() -> None:
    # 2 rows among 2 agents: (0, 2), (1, 1), (2, 0), each a third of 3,000 draws; 5 deviations are 129.
    random = np.random.default_rng(0)
    firsts = [split.random_sizes(2, 2, 0, random)[0] for _ in range(3000)]
    assert np.all(np.abs(np.bincount(firsts, minlength=3) - 1000) < 129)


def test_a_ratio_makes_two_groups() -> None:
    assert split.ratio_sizes(1000, 4, 9.0) == [50, 50, 450, 450]
    assert split.ratio_sizes(100, 5, 1.0) == [20] * 5
    with pytest.raises(DataError, match=r"data\.ratio"):
        split.ratio_sizes(10, 4, 100.0)


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=10), spare=st.integers(0, 5), seed=SEEDS)
def test_given_sizes_are_dealt_without_overlap(sizes: list[int], spare: int, seed: int) -> None:
    parts = split.by_sizes(sum(sizes) + spare, sizes, np.random.default_rng(seed))
    assert [len(part) for part in parts] == sizes
    dealt = np.concatenate(parts)
    assert len(np.unique(dealt)) == len(dealt)


def test_more_rows_than_there_are_is_an_error() -> None:
    with pytest.raises(DataError, match=r"data\.sizes asks for 11 rows, there are 10"):
        split.by_sizes(10, [5, 6], np.random.default_rng(0))


def test_dirichlet_skews_labels_the_more_the_smaller_alpha_is() -> None:
    labels = np.repeat([-1.0, 1.0], 500)

    def skew(alpha: float) -> float:
        parts = split.dirichlet(labels, 10, alpha, 5, np.random.default_rng(1))
        assert sorted(np.concatenate(parts)) == list(range(1000))
        assert min(map(len, parts)) >= 5
        return float(np.mean([abs(labels[part].mean()) for part in parts]))

    assert skew(0.3) > 2 * skew(30.0)


def test_dirichlet_says_what_it_cannot_do() -> None:
    with pytest.raises(DataError, match=r"data\.alpha"):
        split.dirichlet(np.repeat([-1.0, 1.0], 50), 10, 0.001, 9, np.random.default_rng(0))
    with pytest.raises(DataError, match="100 values"):
        split.dirichlet(np.arange(100.0), 2, 1.0, 1, np.random.default_rng(0))


def test_groups_come_in_their_natural_order() -> None:
    parts, values = split.by_groups(["10", "9", "10", "1"], None)
    assert values == ["1", "9", "10"]
    assert [list(part) for part in parts] == [[3], [1], [0, 2]]
    assert split.by_groups(["b", "a", "b"], 1)[1] == ["a"]
    with pytest.raises(DataError, match=r"data\.agents is 3, but the column has 2 values"):
        split.by_groups(["b", "a"], 3)


@given(count=st.integers(0, 200), share=st.floats(0, 0.99), seed=SEEDS)
def test_holding_out_parts_the_rows(count: int, share: float, seed: int) -> None:
    rows = np.arange(count) * 3
    train, test = split.hold_out(rows, share, np.random.default_rng(seed))
    assert sorted(np.concatenate([train, test])) == list(rows)
    if share == 0:
        assert len(test) == 0
    if count >= 1:
        assert len(train) >= 1
    if count >= 2 and share > 0:
        assert len(test) == min(max(round(share * count), 1), count - 1)


@pytest.mark.parametrize("hashes", ["1", "2"])
def test_groups_have_one_order(hashes: str) -> None:
    groups = ["2", "1", "01", "1.0", "10", "1e0"]
    text = ["b", "nan", "1", "01"]
    code = f"from node.data.split import by_groups\nprint(by_groups({groups}, None)[1], by_groups({text}, None)[1])"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True
    )
    assert found.stdout == "['01', '1', '1.0', '1e0', '2', '10'] ['01', '1', 'b', 'nan']\n"
