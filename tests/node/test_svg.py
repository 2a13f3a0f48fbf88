"""Charts as SVG: marks stand where their values are, axes have round numbers, and nothing of a name becomes markup."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node import svg


def marks(drawn: str, tag: str) -> list[dict[str, str]]:
    root = ET.fromstring(drawn[: drawn.index("</svg>") + 6])
    return [one.attrib for one in root.iter(tag)]


def test_points_and_lines_lie_where_the_axis_says() -> None:
    points = svg.Points("gain", "finish", [0.0, 50.0, 100.0], [0.0, None, 10.0], ["a", "b", "c<d>"])
    line = svg.Line("alone", "alone", [0.0, 100.0], [5.0, 5.0], dashed=True)
    drawn = svg.chart("gain", "records", "gain", [points, line])
    low, high = marks(drawn, "circle")
    assert (float(low["cx"]), float(high["cx"])) == (svg.LEFT, svg.WIDTH - svg.RIGHT)
    flat = re.search(r'class="mark dash"[^>]* d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', drawn)
    assert flat is not None
    assert float(flat[2]) == float(flat[4]) == pytest.approx((float(low["cy"]) + float(high["cy"])) / 2, abs=0.1)
    assert "c&lt;d&gt;" in drawn
    assert "<d>" not in drawn


def test_a_gap_divides_a_line_and_a_logarithm_leaves_zero_out() -> None:
    line = svg.Line("gap", "together", [0, 1, 2, 3, 4], [1.0, None, 0.1, 0.0, 1e-3])
    drawn = svg.chart("gap", "releases", "gap", [line], log=True)
    path = next(one["d"] for one in marks(drawn, "path") if one["class"] == "mark")
    assert path.count("M") == 3
    heights = [float(y) for y in re.findall(r" ([\d.]+)", path)]
    assert heights[0] - heights[1] == pytest.approx((heights[1] - heights[2]) / 2, abs=0.2), "one decade, then two"
    assert {"1", "0.1", "0.01", "0.001"} <= set(re.findall(r">([\d.]+)</text>", drawn))


def test_bars_begin_at_zero() -> None:
    drawn = svg.chart("ages", "age", "share", [svg.Bars("", "age", ["0", "1", "2+"], [0.5, 0.25, 0.0])])
    heights = [float(bar["height"]) for bar in marks(drawn, "rect")]
    assert heights == [pytest.approx(2 * heights[1], abs=0.2), heights[1], 0.0]


def test_nothing_to_show_is_no_chart() -> None:
    assert svg.chart("nothing", "", "", [svg.Line("", "together", [0.0, 1.0], [None, math.nan])]) == ""


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_few_and_inside(low: float, span: float) -> None:
    found = svg.ticks(low, low + span)
    assert 1 <= len(found) <= 7
    assert all(low - 1e-6 * span <= one <= low + span * (1 + 1e-6) for one in found)
