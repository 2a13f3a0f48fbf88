"""Every figure and table of every paper in a small form: its rows, its findings and what it draws."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.commands.documents import document_text
from node.experiments.charts import Panel, drawn
from node.experiments.reproduce.dual_and_primal import LOSS_OFF_SCALE
from node.experiments.reproduce.figure import OPEN, PUBLISHED, TRULY, Reproduction, Request
from node.experiments.reproduce.paper001.figure1 import DISTANCE
from node.experiments.reproduce.paper003 import figures as paper003
from node.experiments.reproduce.paper003 import settings as paper003_settings
from node.experiments.reproduce.paper004 import figure1, figure4, settings, table1, updates
from node.experiments.reproduce.paper004.scores import Line
from node.experiments.reproduce.registry import FIGURES, reproduce
from tests.helpers.command import run_cli
from tests.helpers.documents import conforms
from tests.helpers.paper_data import adult_folder, small_overrides

Make = Callable[[str], Reproduction]
ALIKE = {f"paper003/figure{number}" for number in (4, 6, 8, 10, 13, 15)}
"""Figures that differ from figures 1 and 2 of their paper in the number of parties and in epsilon alone."""
MADE = [name for name in FIGURES if name not in ALIKE]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a small form of a figure, once, in the twin with one run of each setting."""
    folder = tmp_path_factory.mktemp("figures")
    known: dict[str, Reproduction] = {}

    def once(name: str) -> Reproduction:
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(paper003, "EPSILONS", (0.01, 0.05, 0.25))
                patch.setattr(paper003, "UNEVEN", (1.0, 3.0, 9.0))
                patch.setattr(paper003_settings, "RANDOM_ROUNDS", 2_000)
                few = {key: changes | {"clock.updates": 30} for key, changes in figure1.METHODS.items()}
                patch.setattr(figure1, "METHODS", few)
                patch.setattr(updates, "INSTANCES", (1, 3))
                patch.setattr(updates, "SPLITS", (3, 10))
                known[name] = reproduce(name, Request("twin", 1, small_overrides(name, folder), folder))
        return known[name]

    return once


def panel(made: Reproduction, title: str) -> Panel:
    """The one panel of this title."""
    [found] = [one for one in made.panels if one.title == title]
    return found


def lines(made: Reproduction, title: str) -> dict[str, list[float]]:
    """The drawn values of a panel by label."""
    return {series.label: list(series.y) for series in panel(made, title).series}


def values(rows: list[dict[str, Any]], column: str, **cells: Any) -> list[Any]:
    """The column ``column`` of the rows that have these ``cells``."""
    return [row[column] for row in rows if all(row[key] == value for key, value in cells.items())]


# --- what all figures have -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_every_figure_has_rows_findings_and_finite_lines(name: str, make: Make) -> None:
    made = make(name)
    assert made.figure == name
    assert made.title.startswith(FIGURES[name].title)
    assert made.paper == FIGURES[name].paper
    assert made.findings
    assert made.notes
    assert len({tuple(row) for row in made.rows}) == 1
    readings = {str(row["reading"]).partition(":")[0].partition(",")[0] for row in made.rows}
    assert readings <= {PUBLISHED, TRULY, OPEN}
    assert made.panels
    for shown in made.panels:
        assert len({series.label for series in shown.series}) == len(shown.series)
        for series in shown.series:
            assert len(series.x) == len(series.y) > 0
            assert len(series.spread) in (0, len(series.y))
            assert np.isfinite(series.y).all()
            assert series.dashed == (PUBLISHED in series.label or PUBLISHED in shown.title) or not series.dashed
        assert all(math.isfinite(value) for _, value in shown.levels)
    printed = {**made.as_json(), "world": "twin", "settings": [], "seconds": 1.0}
    conforms(json.loads(document_text(printed)), "reproduction")


@pytest.mark.parametrize("name", MADE)
def test_the_picture_shows_the_lines_of_the_panels(name: str, make: Make) -> None:
    made = make(name)
    axes = drawn(made.panels).axes
    assert [axis.get_title(loc="left") for axis in axes] == [shown.title for shown in made.panels]
    for axis, shown in zip(axes, made.panels, strict=True):
        assert axis.get_xlabel() == shown.x_label
        assert axis.get_xscale() == ("log" if shown.x_log else "linear")
        assert axis.get_yscale() == ("log" if shown.y_log else "linear")
        [*lines, last] = [*axis.get_lines(), None]
        assert last is None
        for line, series in zip(lines, shown.series, strict=False):
            assert line.get_label() == series.label
            np.testing.assert_array_equal(line.get_xdata(), series.x)
            np.testing.assert_array_equal(line.get_ydata(), series.y)
            assert line.get_linestyle() == ("--" if series.dashed else "-")
        for line, (label, value) in zip(lines[len(shown.series) :], shown.levels, strict=True):
            assert line.get_label() == label
            np.testing.assert_array_equal(line.get_ydata(), [value, value])
        assert {text.get_text() for text in axis.get_legend().get_texts()} == {
            *(series.label for series in shown.series),
            *(label for label, _ in shown.levels),
        }


# --- paper 004 -------------------------------------------------------------------------------------------------------


def test_descent_and_admm_start_alike_and_end_where_their_rows_are(make: Make) -> None:
    made = make("paper004/figure1")
    assert [row["method"] for row in made.rows] == list(figure1.METHODS)
    for over in ("p-vectors", "updates"):
        gaps, accuracies = lines(made, f"Gap to the optimum over {over}"), lines(made, f"Accuracy over {over}")
        for row in made.rows:
            assert gaps[row["method"]][-1] == row["last gap"]
            assert accuracies[row["method"]][-1] == row["last accuracy"]
        assert len({(gap[0], accuracies[name][0]) for name, gap in gaps.items()}) == 1, "all from the local models"
    descent = made.rows[0]
    assert descent["last gap"] < 0.01
    assert descent["updates per agent to 1%"] is not None
    updates = panel(made, "Accuracy over updates").series[0].x
    assert updates[0] == 0
    assert updates[-1] == 30
    descent_sent, admm_sent = (series.x[-1] for series in panel(made, "Accuracy over p-vectors").series[:2])
    assert descent_sent == pytest.approx(2 * 30, rel=0.2), "each of 30 updates sends along each of the agent's edges"
    assert admm_sent == pytest.approx(4 * 30 * 8 / 28), "each of 30 updates of 8 agents sends four, on 28 edges"


@pytest.mark.parametrize(("name", "budgets"), [("paper004/figure2a", (1.0, 0.1)), ("paper004/figure2b", (1.05, 0.15))])
def test_descent_over_its_updates(name: str, budgets: tuple[float, float], make: Make) -> None:
    made = make(name)
    for reading in (PUBLISHED, TRULY):
        for epsilon in budgets:
            cells = {"reading": reading, "epsilon stated": epsilon}
            assert values(made.rows, "updates", **cells) == [1, 3, 10, 30]
            label = f"{reading}, epsilon {epsilon:g}"
            assert lines(made, "Objective")[label] == values(made.rows, "gap", **cells)
            assert lines(made, "Accuracy of the last releases")[label] == values(made.rows, "accuracy", **cells)
            finished = values(made.rows, "with free finish", **cells)
            true = values(made.rows, "epsilon true", **cells)
            if reading == TRULY:
                assert lines(made, "Accuracy with the free finish")[label] == finished
                assert true == pytest.approx([epsilon] * 4, rel=1e-4)
            else:
                assert finished == [None] * 4
                assert all(cost > 5 * epsilon for cost in true)
    alone = values(made.rows, "accuracy", reading=f"{OPEN}: alone")
    assert dict(panel(made, "Accuracy of the last releases").levels)["alone"] == alone[0]
    assert panel(made, "Objective").levels == [("start", 1.0)]
    assert len(made.findings) == 4
    assert made.findings[0].startswith(f"{PUBLISHED}, epsilon {budgets[0]:g}: the objective is lowest at ")


def test_accuracy_over_the_dimension(make: Make) -> None:
    made = make("paper004/figure2c")
    for budget in (1.0, 0.5, 0.15):
        shown = lines(made, f"Accuracy over the dimension, epsilon {budget:g}")
        for row in made.rows:
            label = row["method"] if row["reading"] == TRULY else f"{row['method']}, {row['reading']}"
            drawn_here = row["epsilon stated"] in (None, budget) and label in shown
            if drawn_here:
                assert shown[label] == [row[f"p = {p}"] for p in (20, 50, 100)]
            if row["reading"] == TRULY:
                assert row["epsilon true"] == pytest.approx(row["epsilon stated"], rel=1e-4)
        assert f"alone, best l1, {OPEN}" in shown
        assert "alone, best ridge" not in shown
    [smoothed] = [s for s in made.findings if s.startswith(f"{TRULY}, graph smoothing, free finish, epsilon 1:")]
    of = {"reading": TRULY, "method": "graph smoothing, free finish", "epsilon stated": 1.0}
    gain = values(made.rows, "p = 50", **of)[0] - values(made.rows, "p = 50", method="alone")[0]
    assert f", {gain:+.3f}, " in smoothed


def test_accuracy_by_quarter(make: Make) -> None:
    made = make("paper004/figure3")
    shown = lines(made, "Accuracy by dataset size")
    assert [len(y) for y in shown.values()] == [4] * len(made.rows)
    for row, y in zip(made.rows, shown.values(), strict=True):
        assert y == list(row.values())[4:]
        if row["reading"] == TRULY:
            assert row["epsilon true"] == pytest.approx(row["epsilon stated"], rel=1e-4)
        if row["reading"] == PUBLISHED:
            assert row["epsilon true"] > 10 * row["epsilon stated"]
    assert len(made.findings) == len([row for row in made.rows if not row["method"].startswith("alone")])


def test_noisy_records_have_no_true_epsilon_as_published(make: Make) -> None:
    made = make("paper004/figure4")
    noisy = [row for row in made.rows if row["method"] == figure4.NOISY]
    assert [(row["reading"], row["epsilon stated"]) for row in noisy] == [
        (reading, epsilon) for epsilon in (10.0, 1.0, 0.5) for reading in (PUBLISHED, TRULY)
    ]
    for row in noisy:
        assert row["epsilon true"] == (math.inf if row["reading"] == PUBLISHED else row["epsilon stated"])
    shown = list(lines(made, "Accuracy from noisy records").values())
    assert shown == [[row[f"p = {p}"] for p in settings.DIMENSIONS] for row in made.rows]
    [alone] = [row for row in made.rows if row["method"] == "alone"]
    [private] = [row for row in noisy if (row["reading"], row["epsilon stated"]) == (TRULY, 1.0)]
    worst = min(alone[f"p = {p}"] - private[f"p = {p}"] for p in settings.DIMENSIONS)
    assert f"{worst:.3f}" in made.findings[0]
    together = [row for row in made.rows if row["method"] == figure4.TOGETHER]
    assert len(together) == len(noisy) == len(made.findings) - 1
    for row, other in zip(together, noisy, strict=True):
        gain = row["p = 20"] - other["p = 20"]
        of = f"{row['reading']}, epsilon {row['epsilon stated']:g}: together {gain:+.3f}"
        assert any(finding.startswith(of) for finding in made.findings)


def test_the_films_table(make: Make) -> None:
    made = make("paper004/table1")
    shown = lines(made, "RMSE over the budget")
    assert shown["the paper"] == [0.9527, 0.9545, 0.9855]
    for name, reading in (("private", PUBLISHED), ("private", TRULY), ("private, free finish", TRULY)):
        cells = {"method": name, "reading": reading}
        assert shown[f"{name}, {reading}"] == values(made.rows, "RMSE", **cells)
        assert values(made.rows, "paper", **cells) == shown["the paper"]
        true = values(made.rows, "epsilon true", **cells)
        assert true == ([None] * 3 if reading == PUBLISHED else pytest.approx([1.0, 0.5, 0.1], rel=1e-3))
    for reading, mu in table1.OWN_MU.items():
        of = {"reading": f"{OPEN}, data {reading}"}
        assert values(made.rows, "paper", method="alone", **of) == [1.2834]
        assert values(made.rows, "paper", method=f"no privacy, mu {mu:g}", **of) == [0.9502]
        [zero] = values(made.rows, "RMSE", method="zero model", **of)
        [ridge] = values(made.rows, "RMSE", method="alone, best ridge", **of)
        assert ridge < zero, "the films of the test have a taste to learn"
    assert len(made.findings) == 7
    [run] = values(made.rows, "RMSE", method="no privacy, mu 0.04", reading=f"{OPEN}, data {PUBLISHED}")
    [least] = values(made.rows, "RMSE", method="no privacy, mu 0.04, optimum", reading=f"{OPEN}, data {PUBLISHED}")
    assert run == pytest.approx(least, rel=0.02), "four hundred updates have converged"


@pytest.mark.parametrize("name", ["paper004/figure2c-updates", "paper004/table1-updates"])
def test_the_best_number_of_updates_is_the_one_with_the_best_score(name: str, make: Make) -> None:
    made = make(name)
    metric, best = ("accuracy", max) if "2c" in name else ("rmse", min)
    shown = lines(made, "Score over the number of updates")
    assert len(shown) == (9 if "2c" in name else 6)
    for label, y in shown.items():
        of = next(row for row in made.rows if label == _label(row))
        rows = [row for row in made.rows if _label(row) == _label(of)]
        assert [row[metric] for row in rows] == y
        [chosen] = [row for row in rows if row["chosen"]]
        assert chosen[metric] == best(y)
        assert any(f"{label}: {chosen['updates']} updates are best" in finding for finding in made.findings)


def _label(row: dict[str, Any]) -> str:
    return Line(row["method"], row["reading"], row["epsilon stated"]).label()


# --- papers 000 and 002 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper000/figure4", "paper002/figure2"])
def test_convergence_ends_at_the_last_loss(name: str, make: Make) -> None:
    made = make(name)
    for reading in (PUBLISHED, TRULY):
        shown = lines(made, f"Loss by round, {reading}")
        rows = [row for row in made.rows if row["reading"] == reading]
        control = shown.pop("no privacy, ADMM")
        assert list(shown) == [f"{row['method']}, alpha {row['alpha']:g}" for row in rows]
        assert control[-1] == values(made.rows, "last loss", reading=OPEN, method="ADMM")[0]
        for row in rows:
            y = shown[f"{row['method']}, alpha {row['alpha']:g}"]
            assert y[-1] == min(row["last loss"], LOSS_OFF_SCALE)
            assert len(y) == (6 if reading == PUBLISHED else {"DVP": 5, "PVP": 20}[row["method"]])
            if reading == TRULY:
                assert row["alpha"] / 2 < row["true total"] <= row["alpha"] * (1 + 1e-9)
            if (reading, row["method"]) == (PUBLISHED, "DVP"):
                assert row["true total"] > row["alpha"], "the claim is for one round"
        levels = dict(panel(made, f"Loss by round, {reading}").levels)
        assert levels["zero model"] == pytest.approx(math.log(2.0))
        assert list(levels.values()) == values(made.rows, "last loss", reading=OPEN)[1:]
        cut = max(max(y) for y in shown.values()) >= LOSS_OFF_SCALE
        assert ("losses above 3 are drawn at 3" in panel(made, f"Loss by round, {reading}").below) == cut


@pytest.mark.parametrize(("name", "method"), [("paper000/figure5", "DVP"), ("paper000/figure6", "PVP")])
def test_the_trade_off_measures_the_last_loss(name: str, method: str, make: Make) -> None:
    made = make(name)
    assert method in made.title
    for reading in (PUBLISHED, TRULY):
        shown, early = (lines(made, f"Trade-off at {at}, {reading}") for at in ("the last round", "round 2"))
        losses = values(made.rows, "last loss", reading=reading, method=method)
        assert shown["measured"] == [min(loss, LOSS_OFF_SCALE) for loss in losses]
        fits = [line for line in made.findings if line.startswith(f"{reading}: ")]
        assert len(fits) in (1, 2)
        assert (len(fits) == 2) == ("c3 = 0.135" in fits[-1])
        assert method == "PVP" or early["measured"] != shown["measured"]
        assert "fitted L_acc" not in early
        assert ("fitted L_acc" in shown) == ("fitted L_acc" in fits[0])
        assert len(shown["utility of privacy, Eq. 29"]) == len(losses) == 6


@pytest.mark.parametrize(
    ("name", "measure", "column"), [("paper000/figure7", "loss", "last loss"), ("paper000/figure8", "error", "error")]
)
def test_the_final_model_over_alpha(name: str, measure: str, column: str, make: Make) -> None:
    made = make(name)
    for reading in (PUBLISHED, TRULY):
        shown = lines(made, f"Final {measure}, {reading}")
        assert list(shown) == ["DVP", "PVP"]
        for method, y in shown.items():
            of = values(made.rows, column, reading=reading, method=method)
            assert y == [min(value, LOSS_OFF_SCALE) for value in of]
        levels = [value for _, value in panel(made, f"Final {measure}, {reading}").levels]
        assert levels == values(made.rows, column, reading=OPEN)
    assert "truly private: primal perturbation" in made.findings[-1]


def test_the_search_marks_one_least_loss_and_one_printed_choice_of_each_method(make: Make) -> None:
    made = make("paper000/tables")
    for method in ("ADMM", "DVP", "PVP"):
        losses = values(made.rows, "last loss", method=method)
        assert values(made.rows, "last loss", method=method, least="least") == [min(losses)]
        assert len(values(made.rows, "rho", **{"method": method, "the paper's": "yes"})) == 1


def test_the_rows_as_printed_are_compared_and_have_no_epsilon(make: Make) -> None:
    made = make("paper000/rows")
    for method in ("ADMM", "DVP"):
        assert values(made.rows, "features", method=method) == [105, 105, 65]
        _, words, rate = values(made.rows, "last loss", method=method)
        [finding] = [line for line in made.findings if line.startswith(f"{method}: ")]
        assert f"changes the last loss by {rate - words:+.4f} to {rate:.4f}" in finding
    true = values(made.rows, "true total", method="DVP")
    assert true[0] > 0.5, "the claim is for one round"
    assert true[1:] == [None, None]


def test_paper_002_shows_errors_beside_its_trade_off(make: Make) -> None:
    made = make("paper002/figure3")
    places = ("round 2", "the last round")
    titles = [f"Trade-off at {at}, {reading}" for reading in (PUBLISHED, TRULY) for at in places]
    titles += [f"Final error, {reading}" for reading in (PUBLISHED, TRULY)]
    assert [shown.title for shown in made.panels] == titles
    for reading in (PUBLISHED, TRULY):
        assert lines(made, f"Final error, {reading}")["DVP"] == values(
            made.rows, "error", reading=reading, method="DVP"
        )


# --- paper 001 -------------------------------------------------------------------------------------------------------


def test_growing_penalties_end_further_from_the_optimum_than_constant_ones(make: Make) -> None:
    made = make("paper001/figure1")
    distances, losses = lines(made, "Distance to the pooled optimum"), lines(made, "Loss")
    for row in made.rows:
        assert row["rounds"] == len(distances[row["schedule"]]) == 6
        assert distances[row["schedule"]][-1] == row["distance to the pooled optimum"]
        assert losses[row["schedule"]][-1] == row["last loss"]
    constant, fastest = (values(made.rows, DISTANCE, schedule=f"(b) 0.5 times {q}^t") for q in ("1", "1.2"))
    assert constant[0] < fastest[0]
    assert f"Constant penalties end {constant[0]:.3g} (0.5)" in made.findings[1]
    assert len(lines(made, "Loss")) == 9, "three dual steps, four growths, two controls"
    assert "that weighs node i by 1/theta_i" in made.findings[-1]


@pytest.mark.parametrize("name", ["paper001/figure2", "paper001/figure3", "paper001/figure4"])
def test_penalty_against_dual_perturbation(name: str, make: Make) -> None:
    made = make(name)
    published = [row for row in made.rows if row["reading"].startswith(PUBLISHED)]
    assert len(published) == (12 if name == "paper001/figure2" else 6), "six lines for each first rate"
    for row in published:
        alpha = row["reading"].rpartition(", ")[2]
        shown, spent = lines(made, f"Loss by round, {row['reading']}"), lines(made, f"Privacy by round, {alpha}")
        assert shown[row["method"]][-1] == pytest.approx(row["last loss"])
        assert len(shown[row["method"]]) == 6
        claimed, true = (spent[f"{row['method']}, {reading}"] for reading in (PUBLISHED, "true at delta 1e-5"))
        assert claimed[-1] == pytest.approx(row["total as published"])
        assert true[-1] == row["true total, delta 1e-5"]
        assert true == sorted(true)
        assert row["true total, delta 0"] < row["total as published"], "the paper's bound is loose"
        assert row["true total, delta 1e-5"] <= row["true total, delta 0"] * (1 + 1e-9)
        assert row["range"] is None, "one run"
    private = [row for row in made.rows if row["reading"].startswith(TRULY)]
    refused = [line for line in made.findings if "it cannot spend so little" in line]
    methods = 5 if name == "paper001/figure2" else 3
    assert len(private) + len(refused) == 2 * methods, "two budgets"
    assert len(lines(made, f"Loss by round, {TRULY}")) == len(private)
    for row in private:
        assert row["true total, delta 1e-5"] <= float(row["reading"].rpartition(" ")[2]) * (1 + 1e-9)
    levels = dict(panel(made, f"Loss by round, {PUBLISHED}, alpha(1) = 3").levels)
    assert list(levels.values()) == values(made.rows, "last loss", reading=OPEN)


# --- paper 003 -------------------------------------------------------------------------------------------------------


def test_accuracy_over_epsilon_and_unevenness(make: Make) -> None:
    for name, column, at in (("figure1", "epsilon", [0.01, 0.05, 0.25]), ("figure2", "u", [1.0, 3.0])):
        made = make(f"paper003/{name}")
        for method in ("WD-DP", "simple average"):
            assert values(made.rows, column, method=method) == at, "the breast cancer data are too small for u = 9"
            assert lines(made, "Accuracy")[f"{method} ({PUBLISHED})"] == values(made.rows, "accuracy", method=method)
            assert lines(made, "Optimal gap")[f"{method} ({PUBLISHED})"] == values(made.rows, "gap", method=method)
        assert made.title.endswith(", breast-cancer")
        assert sum("weighting by size gains" in line for line in made.findings) == 4, "two readings, two measures"
        assert sum("gap goes" in line for line in made.findings) == (2 if name == "figure1" else 0)


@pytest.mark.slow
def test_a_paper_is_all_of_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = adult_folder(tmp_path / "adult", 60, 20)
    words = ["--small", "--world", "twin", "--set", f"data.path={path}", "--out", str(tmp_path / "out"), "--json"]
    assert run_cli("reproduce", "paper002", *words) in (0, None)
    printed = json.loads(capsys.readouterr().out)
    conforms(printed, "paper")
    assert [made["figure"] for made in printed["figures"]] == [name for name in FIGURES if name.startswith("paper002/")]
    for made in printed["figures"]:
        conforms({"version": 1, **made}, "reproduction")
        place = tmp_path / "out" / made["figure"].partition("/")[2]
        assert json.loads((place / "reproduction.json").read_text())["rows"] == made["rows"]
        assert list(place.glob("*.png"))
