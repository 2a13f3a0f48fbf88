"""Comparisons at equal privacy, tuning away from what is judged, and figures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.privacy.accounting import kairouz
from coordinator_free.problem import baselines
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from node.cli import main
from node.configuration.public import dump
from node.configuration.reading import from_table
from node.data import als
from node.dealing.rows import deal_data
from node.experiments.charts import drawn_marks
from node.experiments.compare import check, compare, half_width, marks, named, parquet, picture
from node.experiments.grids import changed, parameters, value_of
from node.experiments.reproduce.figure import FigureError, Request
from node.experiments.reproduce.paper004.settings import printed_noise, theorem_1, true_cost
from node.experiments.reproduce.registry import FIGURES, reproduce
from node.experiments.trial import TrialError, configured, play, seeded
from node.experiments.tune import for_validation, tune, validation
from tests.helpers.documents import conforms
from tests.helpers.paper_data import films_folder
from tests.helpers.tables import private, public


def write(folder: Path, name: str, table: dict[str, Any]) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(dump(from_table(table, name=name)), encoding="utf-8")
    return path


def small(**changes: dict[str, Any]) -> dict[str, Any]:
    """Private descent on ten synthetic agents, few updates."""
    table = public(
        learning={"finish": True, "finish_mu": 5.0, "smoothness": "feature-law"},
        clock={"updates": 5},
        privacy={"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    )
    for section, settings in changes.items():
        table.setdefault(section, {}).update(settings)
    return table


# --- compare ---------------------------------------------------------------------------------------------------------


def test_budgets_that_differ_are_not_compared(tmp_path: Path) -> None:
    paths = [write(tmp_path, "one", small()), write(tmp_path, "two", small(privacy={"epsilon": 2.0}))]
    with pytest.raises(TrialError, match=r"privacy.epsilon = 2, .*accepted: one total for all"):
        check(named(paths, []))
    check(named(paths, ["privacy.epsilon=1.5"]))


def masked(**privacy: Any) -> dict[str, Any]:
    """Private masked sums on ten synthetic agents."""
    table = small(topology={"kind": "complete"}, privacy={"observer": "sum", **privacy})
    own = {"algorithm": "gradient-descent", "aggregation": "masked-sum", "step": 0.1}
    return table | {"learning": {"smoothness": "feature-law", **own}}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            small(),
            small(privacy={"levels": [[1.0, 50.0]]}),
            r"two: privacy.levels = \[\[1.0, 50.0\]\], but one has none",
        ),
        (
            small(privacy={"levels": [[1.0, 1.0]]}),
            small(privacy={"levels": [[1.0, 50.0]]}),
            r"two: privacy.levels = \[\[1.0, 50.0\]\], but one has \[\[1.0, 1.0\]\]; accepted: the same promise",
        ),
        (small(), small(privacy={"budgets": "rich.csv"}), 'two: privacy.budgets = .*rich.csv", but one has none'),
        (small(privacy={"budgets": "poor.csv"}), small(privacy={"budgets": "rich.csv"}), r"privacy.budgets"),
        (small(), masked(), 'two: privacy.observer = "sum", but one has "releases"'),
        (masked(), masked(colluders=2), "two: privacy.colluders = 2, but one has 1"),
        (
            small(),
            masked(observer="as_published"),
            'two: privacy.observer = "as_published" claims an epsilon that its releases do not keep',
        ),
    ],
)
def test_promises_that_differ_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    folder = tmp_path / ("a folder whose name is long " * 3)
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "rich.csv").write_text("agent,epsilon\n0,50\n")
    (folder / "poor.csv").write_text("agent,epsilon\n0,1\n")
    configurations = {"one": configured(one, {}), "two": configured(other, {})}
    with pytest.raises(TrialError, match=words):
        check(configurations)


def test_data_as_published_are_not_compared_at_equal_privacy() -> None:
    made = configured(small(), {})
    data = made.data.model_copy(update={"as_published": True})
    with pytest.raises(TrialError, match=r"one: data.as_published = true computes public numbers from all records"):
        check({"one": made.model_copy(update={"data": data})})


def test_own_budgets_are_compared_where_they_are_the_same(tmp_path: Path) -> None:
    levels = [[0.5, 3.0], [0.3, 0.5], [0.2, 0.0]]
    made = compare(
        {
            "a": configured(small(privacy={"levels": levels}), {}),
            "b": configured(small(privacy={"levels": levels}), {}),
        },
        [3],
        "twin",
        tmp_path,
    )
    assert made.budget is not None
    assert (made.budget.epsilon, made.budget.own) == (3.0, True)
    assert "each agent its own" in made.budget.in_words()
    assert [row.epsilon for row in made.rows if row.private] == pytest.approx([3.0] * 4, rel=1e-3)
    assert any("with epsilon 0" in note for note in made.notes)


def test_tasks_that_differ_are_not_compared(tmp_path: Path) -> None:
    paths = [write(tmp_path, "one", small()), write(tmp_path, "two", private())]
    with pytest.raises(TrialError, match="one task"):
        check(named(paths, []))


def test_configurations_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    found = named([write(tmp_path, "run", small()), write(tmp_path / "a", "run", small())], [])
    assert list(found) == ["synthetic", "synthetic-2"]


def test_a_comparison_spends_the_budget_and_keeps_the_deal(tmp_path: Path) -> None:
    paths = [write(tmp_path, "one", small(run={"name": "noisy"})), write(tmp_path, "two", public(run={"name": "open"}))]
    made = compare(named(paths, []), [3, 4], "twin", tmp_path)
    rows = {(row.what, row.kind): row for row in made.rows}
    assert rows["noisy", "together"].epsilon == pytest.approx(1.0, rel=1e-4)
    assert rows["noisy", "together"].epsilon <= 1.0
    assert rows["open", "together"].epsilon is None
    gain = rows["open", "together"].gain
    assert gain is not None
    np.testing.assert_allclose(gain, rows["open", "together"].mean - rows["baseline", "alone"].mean)
    assert ("noisy", "free finish") in rows
    assert rows["baseline", "alone, best ridge"].mean.mean() >= rows["baseline", "alone"].mean.mean() - 1e-12
    assert len(made.table()["seed"]) == 2 * len(made.rows)
    found = marks(made)
    assert [mean for _, mean, _ in found] == sorted((float(row.mean.mean()) for row in made.rows), reverse=True)
    assert {"noisy: free finish", "open: together", "alone", "pooled"} <= {label for label, _, _ in found}
    [axis] = drawn_marks("Held-out accuracy", "two seeds", found).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [label for label, _, _ in found]
    assert axis.get_title(loc="left") == "Held-out accuracy"
    assert [float(bar.lines[0].get_xdata()[0]) for bar in axis.containers] == [mean for _, mean, _ in found]
    assert picture(made).startswith(b"\x89PNG")
    assert (parquet(made) or b"PAR1").startswith(b"PAR1")
    json.dumps(made.as_json(), allow_nan=False)


def test_the_half_width_is_students() -> None:
    assert half_width(np.array([1.0, 2.0, 3.0])) == pytest.approx(4.302652729 / math.sqrt(3.0))
    assert half_width(np.array([1.0])) is None


def test_compare_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "one", small())
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(path), "--seeds", "1", "--out", str(tmp_path / "out"), "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    conforms(document, "comparison")
    assert document == json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert (tmp_path / "out" / "comparison.png").exists()
    held_out_figures = list((tmp_path / "out").glob("comparison.*"))
    assert {path.stat().st_mode & 0o777 for path in held_out_figures} == {0o600}


# --- the worlds of a trial -------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_synchronous_trial_is_the_same_in_both_worlds(tmp_path: Path) -> None:
    table = public(
        data={"agents": 4, "records": [20, 20]},
        learning={"algorithm": "admm", "mu": None, "capacity": 10.0, "rho": 0.1, "penalty": 0.5},
        clock={"updates": 4},
    )
    configuration = seeded(configured(table, {}), 5, name="trial")
    here = play(configuration, "twin")
    there = play(configuration, "processes", tmp_path / "trial")
    np.testing.assert_array_equal(here.models, there.models)
    by_key = {(r.sender, r.index): r for r in there.releases}
    assert len(by_key) == len(here.releases)
    assert all(by_key[r.sender, r.index].same_as(r) for r in here.releases)


# --- tune ------------------------------------------------------------------------------------------------------------


def test_validation_never_holds_a_test_row() -> None:
    dealt = deal_data(from_table(private()), 7)
    split = validation(dealt, 1)
    for before, after in zip(dealt.shards, split.shards, strict=True):
        known = {row.tobytes() for row in np.column_stack([before.x, before.y])}
        assert {row.tobytes() for row in np.column_stack([after.x_test, after.y_test])} <= known
        assert len(after.y) + len(after.y_test) == len(before.y)
        assert len(after.y) >= 1


def test_the_features_of_films_are_made_without_the_ratings_that_validate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They held them, and validation errors were far below test errors."""
    seen: list[int] = []
    honest = als.item_features

    def spied(ratings: Any, known: Any, *more: Any) -> Any:
        seen.append(int(known.sum()))
        return honest(ratings, known, *more)

    monkeypatch.setattr(als, "item_features", spied)
    folder = films_folder(tmp_path, 24, 40)
    data = {"source": "movielens-100k", "path": str(folder), "dimension": 4, "agents": None}
    configuration = from_table(public(data=data, learning={"loss": "squared"}))
    split, dealt = for_validation(configuration, 7, 1), deal_data(configuration, 7)
    assert [len(s.y) + len(s.y_test) for s in split.shards] == [len(s.y) for s in dealt.shards]
    assert seen == [sum(len(s.y) for s in made.shards) for made in (split, dealt)]
    assert split.similarity is not None
    assert split.similarity.nnz == seen[0]


def test_tuning_finds_the_better_of_two(tmp_path: Path) -> None:
    configuration = from_table(public(clock={"updates": 20}, learning={"mu": 1e-4}))
    found = tune(configuration, instances=2, grids={"learning.mu": [1e-4, 2.5]}, only=["learning.mu"])
    assert found.chosen == {"learning.mu": 2.5}
    assert found.before is not None
    assert found.after > found.before
    assert found.accounted


def test_the_result_of_tuning_is_scored_on_what_the_search_did_not_see() -> None:
    configuration = from_table(public(clock={"updates": 5}))
    found = tune(configuration, instances=2, grids={"learning.mu": [0.01, 2.5]}, only=["learning.mu"])
    assert found.alone is not None
    assert found.again.alone is not None
    assert found.again.alone != found.alone
    assert found.again.gain == 0.0 if not found.chosen else found.again.gain is not None
    assert found.again.gain_half_width is not None
    value = found.chosen.get("learning.mu", 2.5)
    assert any(f"learning.mu = {value} is the" in note for note in found.notes)


def test_one_split_and_a_result_no_better_than_alone_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path, "one", public(clock={"updates": 1}, learning={"mu": 1e-6}))
    with pytest.raises(SystemExit) as ended:
        main(["tune", str(path), "--try", "learning.mu=1e-6", "--only", "learning.mu", "--instances", "1"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "no better than agents alone" in told
    assert "how far scores spread is not known" in told
    assert told.count("agents alone 0.") == 2


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "warm-start", "parameters": {"warm_epsilon": 0.5, "warm_updates": 2}},
        {"algorithm": "coordinator_free.agents.personal.warm_start:WarmStart", "parameters": {"warm_updates": 2}},
    ],
)
def test_nested_parameters_are_tuned(given: dict[str, Any]) -> None:
    path = "learning.parameters.warm_updates"
    table = small()
    configuration = from_table(table | {"learning": {"mu": 2.5, "smoothness": "feature-law", **given}})
    assert value_of(configuration, path) == 2
    assert parameters(configuration, {path: [2, 3]})[path] == [2, 3]
    other = changed(configuration, {path: 3, "learning.mu": 1.0})
    assert (other.learning.get("warm_updates"), other.learning.get("mu")) == (3, 1.0)


@pytest.mark.parametrize("path", ["privacy.epsilon", "privacy.delta", "privacy.colluders", "run.seed", "data.held_out"])
def test_what_decides_the_promise_or_the_task_is_not_tuned(path: str) -> None:
    with pytest.raises(TrialError, match=rf"--try {path}: .*accepted are .*privacy.clip and privacy.r"):
        parameters(from_table(small()), {path: [1, 2, 8]})


def test_tuning_on_private_rows_says_that_nothing_accounts_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "schools", private(clock={"updates": 2}))
    command = ["tune", str(path), "--try", "learning.mu=20", "--only", "learning.mu", "--instances", "1", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    conforms(document, "tuning")
    assert "no budget accounts for it" in document["note"]
    assert document["model"] == "free finish"


def test_what_cannot_be_tuned_is_named() -> None:
    configuration = from_table(public())
    assert "privacy.clip" not in parameters(configuration, {})
    with pytest.raises(TrialError, match=r"--try privacy.clip"):
        parameters(configuration, {"privacy.clip": [1.0]})
    with pytest.raises(TrialError, match=r"--only learning.rho"):
        tune(configuration, only=["learning.rho"])


# --- baselines -------------------------------------------------------------------------------------------------------


def test_the_sparse_baseline_meets_its_optimality_condition() -> None:
    random = np.random.default_rng(3)
    problems = [
        LocalProblem(random.normal(size=(m, 6)), random.choice([-1.0, 1.0], size=m), LOGISTIC, 0.1) for m in (12, 30)
    ]
    tests = [(problem.x, problem.y) for problem in problems]
    models, value = baselines.best_sparse(problems, tests, [0.3])
    assert value == 0.3
    for problem, model in zip(problems, models, strict=True):
        gradient = LOGISTIC.gradient(model, problem.x, problem.y)
        penalty = 0.3 / math.sqrt(problem.records)
        held = model != 0
        np.testing.assert_allclose(gradient[held], -penalty * np.sign(model[held]), atol=1e-6)
        assert (np.abs(gradient[~held]) <= penalty + 1e-6).all()


def test_noised_records_have_the_stated_noise() -> None:
    # Mean absolute Laplace noise is its scale; 200,000 draws have a relative deviation of 0.0022: 5 deviations allowed.
    problem = LocalProblem(np.zeros((2000, 100)), np.ones(2000), LOGISTIC, 0.1)
    noised = baselines.noised_records(problem, 3.0, 0.25, np.random.default_rng(1))
    assert float(np.abs(noised.x).mean()) == pytest.approx(3.0, rel=0.011)
    assert float((noised.y < 0).mean()) == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / 2000))


# --- figures ---------------------------------------------------------------------------------------------------------


def request(tmp_path: Path, *overrides: str) -> Request:
    return Request("twin", 1, tuple(overrides), tmp_path)


def test_theorem_1_is_inverted() -> None:
    each = theorem_1(1.0, 10, math.exp(-5))
    assert kairouz(np.array([each]), np.array([10.0]), math.exp(-5)) == pytest.approx(1.0, rel=1e-9)
    assert theorem_1(1.0, 1) == 1.0


def test_the_printed_noise_is_charged_what_it_costs() -> None:
    # One release that claims epsilon 0.1 with L0 = 1, where L0 is 50, costs 5 and a little less at delta > 0.
    assert true_cost(0.1, 1, 50.0, 0.0) == pytest.approx(5.0)
    assert true_cost(0.1, 10, 50.0, 0.0) == pytest.approx(50.0)
    settings = printed_noise(1.0, 3, 20.0)
    assert settings["privacy.epsilon"] > 15.0
    table = small()
    trial = play(seeded(configured(table, settings), 1, simulation=True), "twin")
    each = theorem_1(1.0, 3)
    # The noise of the releases is the paper's: scale 2 / (each m) before the step, whatever the ledger is charged.
    multipliers = trial.preparation.multipliers * 20.0
    np.testing.assert_allclose(multipliers, 1.0 / each, rtol=1e-3)
    assert trial.epsilon == pytest.approx(settings["privacy.epsilon"], rel=1e-3)


def test_every_figure_is_there_and_named() -> None:
    for name, figure in FIGURES.items():
        assert figure.name == name
        assert callable(figure.settings)
        assert callable(figure.reduce)
        assert figure.title


def test_an_unknown_figure_and_missing_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match="paper004/figure9: not known; accepted are paper004/figure1"):
        reproduce("paper004/figure9", request(tmp_path))
    with pytest.raises(FigureError, match=r"needs --set data\.path=FOLDER"):
        reproduce("paper004/table1", request(tmp_path))
