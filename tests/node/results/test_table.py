"""What a person sees at the end of a run: the table, the pictures, the report."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from rich.console import Console
from typer.testing import CliRunner

from node.cli import application
from node.drawing import png, spans_decades
from node.folder.manifest import RunFolderError
from node.results.details import Details
from node.results.gain import without_gain
from node.results.labels import LABELS
from node.results.pictures import convergence_figure, gain_figure
from node.results.results import Results
from node.results.staleness_picture import staleness_figure
from node.results.table import decimal, render, show

PNG = b"\x89PNG\r\n\x1a\n"


def documents(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads((run / "results.json").read_text()), json.loads((run / "details.json").read_text())


def typed(results: dict[str, Any], details: dict[str, Any]) -> tuple[Results, Details]:
    return Results.from_json(results), Details.from_json(details)


def printed(results: dict[str, Any], details: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(render(*typed(results, details)))
    file = console.file
    assert isinstance(file, io.StringIO)
    # Lines are broken where the terminal ends.
    return " ".join(file.getvalue().split())


def test_an_incomplete_capture_is_the_first_line(private_run: Path) -> None:
    results, details = documents(private_run)
    assert not printed(results, details).startswith("the capture")
    results["capture"]["complete"] = False
    details["capture"] = "incomplete, missing agent 3: from 9 on"
    assert printed(results, details).startswith("the capture is incomplete, missing agent 3: from 9 on:")


def test_a_private_runs_table_says_what_is_private_and_what_is_not(private_run: Path) -> None:
    results, details = documents(private_run)
    text = printed(results, details)
    for words in (
        "RMSE",
        "alone",
        "together, free finish *",
        "pooled",
        "best ridge alone",
        "one pupil",
        "of 2 at delta 0.001",
        "analytic Gaussian",
        "not covered by epsilon",
        "capture",
        "complete",
        "gap to optimum",
        "assumed public",
        f"{results['together']['mean']:.3f}",
        f"{results['finish']['worst']:.3f}",
    ):
        assert words in text
    assert "seed" not in text


def test_a_simulation_says_who_sees_through_its_noise(private_run: Path) -> None:
    results, details = documents(private_run)
    assert "a holder of the seed can compute the noise" in printed(results, {**details, "simulation": True})


def test_a_run_without_noise_claims_nothing(open_run: Path) -> None:
    text = printed(*documents(open_run))
    assert "none: releases carry no noise" in text
    assert "epsilon" not in text


def test_failures_and_earlier_runs_are_named(private_run: Path) -> None:
    results, details = documents(private_run)
    failure = {"process": "agent-0004", "status": -9, "last_words": ["killed by SIGKILL"]}
    earlier = [
        {"run": "before", "epsilon_max": 1.5, "epsilon_mean": 1.0, "delta": 1e-3},
        {"run": "open", "epsilon_max": None, "epsilon_mean": None, "delta": None},
    ]
    text = printed({**results, "failures": [failure]}, {**details, "earlier_runs": earlier})
    assert "agent-0004 did not finish (status -9): killed by SIGKILL" in text
    assert "earlier run before on the same data spent epsilon 1.5" in text
    assert "earlier run open on the same data released without noise" in text


def test_what_is_null_is_a_dash_or_left_out(private_run: Path) -> None:
    results, details = documents(private_run)
    gone = {**results, "alone": None, "pooled": None, "optimum_gap": None, "capture": None}
    gone["time"] = {"ready_s": None, "wall_s": None}
    gone["epsilon"] = {**results["epsilon"], "charged_max": None, "charged_mean": None, "accountant": None}
    empty = {**details, "capture": None, "releases_per_agent": None, "bytes_per_agent": None, "curve": None}
    text = printed(gone, empty)
    assert "gap to optimum" not in text
    assert "None" not in text


def test_show_needs_a_judged_run(private_run: Path, tmp_path: Path) -> None:
    results, _ = documents(private_run)
    with pytest.raises(RunFolderError, match=r"details\.json"):
        show(tmp_path, Results.from_json(results), Console(file=io.StringIO()))


def series(axis: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axis.get_lines()]


def test_the_convergence_picture_shows_gap_and_metric_over_releases(private_run: Path, open_run: Path) -> None:
    for run in (private_run, open_run):
        results, details = documents(run)
        figure, curve = convergence_figure(*typed(results, details)), details["curve"]
        assert figure is not None
        assert png(figure).startswith(PNG)
        gap, metric = figure.axes
        assert series(gap) == [(curve["releases"], curve["gap"])]
        assert gap.get_xlabel() == metric.get_xlabel() == "releases per agent"
        assert gap.get_yscale() == ("log" if spans_decades(np.array(curve["gap"])) else "linear")
        assert series(metric)[0] == (curve["releases"], curve["metric"])
        levels = [y[0] for _, y in series(metric)[1:]]
        kinds = [kind for kind in ("alone", "pooled", "finish") if results[kind] is not None]
        assert levels == [results[kind]["mean"] for kind in kinds]
        named = " ".join(text.get_text() for text in metric.texts)
        assert all(f"{LABELS[kind]} {results[kind]['mean']:.3f}" in named for kind in kinds)
        assert ("not covered by epsilon" in named) == details["private"]


def test_the_gain_picture_shows_every_agent_that_has_a_gain(private_run: Path) -> None:
    results, details = documents(private_run)
    figure, agents = gain_figure(*typed(results, details)), details["agents"]
    assert figure is not None
    axis = figure.axes[0]
    shown = sorted(map(tuple, np.concatenate([np.asarray(dots.get_offsets()) for dots in axis.collections]).tolist()))
    low, high = axis.get_ylim()
    edge = 0.041 / 1.08 * (high - low)  # between the range that is shown as it is and the frame
    low, high = low + edge, high - edge
    expected = [
        (float(records), alone - own)  # of an RMSE, less is better
        for kind in ("together", "finish")
        for records, alone, own in zip(agents["records"], agents["alone"], agents[kind], strict=True)
        if alone is not None and own is not None
    ]
    inside = [(records, gain) for records, gain in expected if low < gain < high]
    assert len(shown) == len(expected)
    assert len(inside) > 0.9 * len(expected)
    for point in inside:
        assert any(np.allclose(point, other, rtol=0, atol=1e-12) for other in shown)
    assert axis.get_ylabel() == "gain in RMSE over learning alone"
    legend = axis.get_legend()
    assert legend is not None
    assert [text.get_text().split(":")[0] for text in legend.get_texts()] == ["together", "together, free finish"]


def test_the_staleness_picture_shows_shares_that_add_up(open_run: Path) -> None:
    results, details = documents(open_run)
    figure = staleness_figure(*typed(results, details))
    assert figure is not None
    left, histogram, age = figure.axes
    assert series(left) == [(details["curve"]["releases"], details["curve"]["gap"])]
    ages = [value for value in details["curve"]["age"] if value is not None]
    assert [y for y in series(age)[0][1] if np.isfinite(y)] == ages
    assert sum(bar.get_height() for bar in histogram.patches) == pytest.approx(1.0)
    assert histogram.get_xlabel() == "age of a neighbour's model, in its releases"


def test_no_picture_is_drawn_of_what_nobody_knows(open_run: Path) -> None:
    results, details = documents(open_run)
    assert convergence_figure(*typed(results, {**details, "curve": None})) is None
    agents = {key: value for key, value in details["agents"].items() if key != "alone"}
    assert gain_figure(*typed(results, {**details, "agents": agents})) is None


def test_a_gap_of_nothing_or_below_is_drawn_too(open_run: Path) -> None:
    results, details = documents(open_run)
    curve = {
        "releases": [0.0, 1.0, 2.0],
        "gap": [1.0, 0.0, -1e-17],
        "metric": [0.5, None, 0.7],
        "age": [None, 0.0, 0.0],
    }
    assert convergence_figure(*typed(results, {**details, "curve": curve})) is not None


def test_the_report_needs_nothing_else_and_tells_the_run(private_run: Path) -> None:
    text = (private_run / "report.html").read_text()
    assert len(text) < 400_000
    for asking in ("<script", "<link", "http", "url(", "@import", "src="):
        assert asking not in text
    assert "not covered by epsilon" in text
    assert "one pupil" in text
    results, details = documents(private_run)
    assert f"<b>{results['finish']['mean']:.3f}</b>" in text
    assert f"<b>{results['epsilon']['charged_max']:.4g}</b>" in text
    assert "<b>complete</b>" in text
    assert "<b>not yet</b>" in text, "no audit was made"
    assert text.count("<circle") >= len(details["agents"]["name"]), "the network"


def test_a_report_made_again_tells_what_an_audit_found(private_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "copy"
    shutil.copytree(private_run, run)
    agents = [{"agent": 0, "accounted": 2.0, "attacked": 0.5, "attacked_if_charged": 1.75}]
    for findings, told in (([], "no finding"), (["noise: scale 0.5"], "1 finding")):
        (run / "audit.json").write_text(json.dumps({"agents": agents, "findings": findings}))
        assert CliRunner().invoke(application(["report"]), ["report", str(run)]).exit_code == 0
        text = (run / "report.html").read_text()
        assert f"<b>{told}</b>" in text
        assert "an epsilon of at least 1.75, accounted are 2.00" in text
        assert "Accounted and attacked" in text
    (run / "results.json").unlink()
    before = (run / "report.html").read_bytes()
    failed = CliRunner().invoke(application(["report"]), ["report", str(run)])
    assert isinstance(failed.exception, ValueError)
    assert "has no results" in str(failed.exception)
    assert (run / "report.html").read_bytes() == before


def test_sizes_that_hardly_differ_have_no_columns(private_run: Path) -> None:
    results, details = documents(private_run)
    assert "ranges: quarters" in printed(results, details)
    even = [{**quarter, "records": [4522, 4523]} for quarter in details["quarters"]]
    text = printed(results, {**details, "quarters": even})
    assert "ranges: quarters" not in text
    assert "4522" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.12345, "0.123"),
        (-5.5, "-5.500"),
        (999.1234, "999.123"),
        (1234.567, "1234.57"),
        (123456.7, "123457"),
        (4130173.336, "4130173"),
        (41301733.36, "4.13e7"),
        (1e300, "1.00e300"),
    ],
)
def test_large_numbers_are_short_and_whole(value: float | None, text: str) -> None:
    assert decimal(value) == text


def test_numbers_of_seven_digits_are_not_cut(private_run: Path) -> None:
    results, details = documents(private_run)
    for quarter in details["quarters"]:
        quarter.update({kind: 4130173.336 for kind in quarter if kind not in ("agents", "records")})
    for kind in ("alone", "together", "finish", "pooled"):
        results[kind] = {"mean": 4130173.336, "worst": 8033172.912, "smallest_quarter": 1.0}
    console = Console(file=io.StringIO(), width=80)
    console.print(render(*typed(results, details)))
    assert isinstance(console.file, io.StringIO)
    assert "…" not in console.file.getvalue()
    assert "8033173" in console.file.getvalue()


@pytest.mark.parametrize(("width", "quarters"), [(40, False), (160, True)])
def test_a_narrow_terminal_shows_whole_numbers(private_run: Path, width: int, quarters: bool) -> None:
    results, details = typed(*documents(private_run))
    console = Console(file=io.StringIO(), width=width)
    console.print(render(results, details, console.width))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "\u2026" not in text
    assert results.alone is not None
    assert f"{results.alone.mean:.3f}" in text
    assert ("the columns by dataset size need" in " ".join(text.split())) is not quarters


def test_a_run_that_gained_nothing_says_what_to_change(private_run: Path) -> None:
    results, details = documents(private_run)
    alone, finish = results["alone"]["mean"], results["finish"]
    results["finish"] = {**finish, "mean": 0.9 * alone}
    assert without_gain(*typed(results, details)) == []
    results["finish"] = {**finish, "mean": alone}
    told = without_gain(*typed(results, details))
    assert told[0].startswith("no gain: the free finish is no better than agents alone")
    assert any("sottovoce budget" in line for line in told)
    assert any("masked-sum" in line for line in told)
    assert "no gain: the free finish" in printed(results, details)
    results["finish"] = None
    assert any("learning.finish = true" in line for line in without_gain(*typed(results, details)))
