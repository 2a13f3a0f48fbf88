"""Paper 003 made again: baselines with the epsilon that they truly have, and findings that come from the figures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.privacy.observer import noise_deviation
from coordinator_free.problem import trusted_party as curated
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from node.cli import main
from node.experiments.reproduce.figure import OPEN, PUBLISHED, TRULY, FigureError, Request
from node.experiments.reproduce.paper003 import condition, learning_rate, settings
from node.experiments.reproduce.paper003 import figures as paper003
from node.experiments.reproduce.paper003.findings import gains, grows_with_epsilon, similar, steady
from node.experiments.reproduce.paper003.runs import CENTRAL, MAJORITY, UNBOUNDED, Deal, Found
from node.experiments.reproduce.paper003.settings import CONVEXITY, sources
from node.experiments.reproduce.registry import planned, reproduce
from tests.helpers.averages_networks import problems
from tests.helpers.places import ROOT


@pytest.fixture(autouse=True)
def few_random_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "RANDOM_ROUNDS", 2_000)


def request(tmp_path: Path, *overrides: str, seeds: int = 1) -> Request:
    return Request("twin", seeds, overrides, tmp_path)


# --- baselines -------------------------------------------------------------------------------------------------------


def test_a_curator_descends_like_one_party_with_all_records() -> None:
    local = [replace(p, regularisation=0.01) for p in problems(3, [20, 50, 30])]
    theta = np.zeros(3)
    pooled = curated.everybody(local, 1.0)
    assert pooled.regularisation == 0.01
    for _ in range(6):
        theta = theta - 2.0 * pooled.gradient(theta)
    random = np.random.default_rng(0)
    found = curated.noisy_descent(local, 1e7, 0.1, clip=1.0, step=2.0, steps=6, random=random)
    assert found == pytest.approx(theta, abs=1e-2)


def test_the_curators_noise_is_that_of_the_composition() -> None:
    """600 draws: a tenth too little is seen but with probability 1e-3, half always."""
    local = problems(2, [40, 60], dimension=600)
    random = np.random.default_rng(0)
    drawn = curated.noisy_descent(local, 0.1, 1e-3, clip=1.0, step=1.0, steps=1, random=random)
    exact = 0.4 * local[0].gradient(np.zeros(600)) + 0.6 * local[1].gradient(np.zeros(600))
    assert np.std(drawn + exact) == pytest.approx(noise_deviation(0.1, 1e-3, 1.0, 100, 1), rel=0.1)


def test_a_descent_on_random_records_reaches_the_minimum_without_noise_and_clips() -> None:
    local = [replace(p, regularisation=0.05) for p in problems(3, [20, 50, 30])]
    pooled = curated.everybody(local, 5.0)
    found = curated.random_round_descent(
        local, clip=1.0, deviation=0.0, steps=60_000, reach=math.log(2.0), random=np.random.default_rng(1)
    )
    least = pooled.value(pooled.minimiser())
    assert pooled.value(found) - least < 0.05 * (pooled.value(np.zeros(3)) - least)
    clipped = curated.random_round_descent(
        local, clip=1e-9, deviation=0.0, steps=100, reach=math.log(2.0), random=np.random.default_rng(1)
    )
    assert 0.0 < np.linalg.norm(clipped) < 1e-4


def test_the_noise_of_a_descent_on_random_records_is_the_printed_one() -> None:
    """One step: 600 coordinates, a tenth off has probability 1e-3; gradients are clipped to nothing."""
    deviation = curated.random_round_deviation(0.5, 1e-3, 2.0, 100)
    assert deviation == pytest.approx(2.0 * math.sqrt(math.log(1e5) * math.log(1e3)) / 0.5)
    [local] = problems(1, [100], dimension=600)
    drawn = curated.random_round_descent(
        [local], clip=1e-12, deviation=deviation, steps=1, reach=math.log(2.0), random=np.random.default_rng(0)
    )
    smoothness = 0.25 + 2.0 * local.regularisation
    step = math.sqrt(2.0 * math.log(2.0) / (smoothness * 600 * deviation**2))
    assert np.std(drawn) == pytest.approx(step * deviation, rel=0.1)


def test_the_noisy_average_moves_by_what_its_true_epsilon_assumes_and_loses_more_than_is_printed() -> None:
    """From first principles: a minimiser moves by at most 2/(n convexity) in L2, and sqrt(p) times that in L1.

    Rows point along a diagonal, half with either label, and one label is exchanged: the slopes are one half, so the
    minimiser moves by two fifths of the bound. The privacy loss, the L1 shift over the printed scale, is above epsilon.
    """
    parties, records, p, convexity, epsilon = 2, 30, 100, 1.0, 0.5
    x = np.full((records, p), 1.0 / math.sqrt(p))
    as_is = LocalProblem(x, np.repeat([1.0, -1.0], records // 2), LOGISTIC, 0.0)
    y = as_is.y.copy()
    y[0] = -1.0
    local = [as_is] * parties
    shift = curated.average_of_minimisers([LocalProblem(x, y, LOGISTIC, 0.0), as_is], convexity)
    shift = shift - curated.average_of_minimisers(local, convexity)
    bound = 2.0 / (parties * records * convexity)
    assert 0.35 * bound < np.linalg.norm(shift) <= bound
    scale = curated.output_perturbation_scale(local, epsilon, convexity)
    assert scale == pytest.approx(2.0 / (records * epsilon * convexity))
    loss = float(np.abs(shift).sum()) / scale
    true = curated.output_perturbation_epsilon(epsilon, 0.0, parties, p)
    assert true == pytest.approx(epsilon * math.sqrt(p) / parties)
    assert epsilon < loss <= true


def test_no_replaced_record_moves_a_minimiser_beyond_the_bound() -> None:
    random = np.random.default_rng(2)
    [own] = problems(1, [20], dimension=5)
    for _ in range(30):
        x, y = own.x.copy(), own.y.copy()
        x[0] = random.normal(size=5)
        x[0] /= np.linalg.norm(x[0])
        y[0] = random.choice([-1.0, 1.0])
        moved = curated.average_of_minimisers([replace(own, x=x, y=y)], 0.3)
        assert np.linalg.norm(moved - curated.average_of_minimisers([own], 0.3)) <= 2.0 / (20 * 0.3)


def test_the_noise_of_the_noisy_average_has_the_printed_scale() -> None:
    """900 coordinates: the mean length of a Laplace variable is its scale; an eighth off has probability 2e-4."""
    local = problems(4, [25, 40, 60, 30], dimension=900)
    trial = SimpleNamespace(
        records=[25, 40, 60, 30], problems=local, tests=[(p.x, p.y) for p in local], scores=lambda models: np.zeros(4)
    )
    base = Deal(cast("Any", trial))
    seen: dict[str, Found] = {}
    models: list[np.ndarray] = []
    base.gap = lambda model: models.append(model) or 0.0  # type: ignore[method-assign, func-returns-value]
    base.add_baselines(seen, 0.5, np.random.default_rng(0))
    noise = models[0] - curated.average_of_minimisers(local, CONVEXITY)
    assert np.abs(noise).mean() == pytest.approx(2.0 / (25 * 0.5 * CONVEXITY), rel=0.125)


# --- the figure ------------------------------------------------------------------------------------------------------


def test_every_row_says_for_whom_its_epsilon_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper003, "EPSILONS", (0.25,))
    made = reproduce("paper003/figure1", request(tmp_path, "data.source=breast-cancer", "data.agents=4", seeds=2))
    rows = {row["method"]: row for row in made.rows}
    assert len(made.rows) == len(rows) == 13
    for row in made.rows:
        assert row["data"] == "breast-cancer"
        assert 0.0 <= row["accuracy"] <= 1.0
        assert row["sd"] is not None
        assert row["true releases"] is not None or row["true result"] is not None
    for name in ("WD-DP", "simple average"):
        assert rows[name]["reading"] == PUBLISHED
        assert rows[name]["true releases"] > rows[name]["true result"] > rows[name]["claimed"] == 0.25
    assert [rows["centralised noisy descent"][key] for key in ("true releases", "true result")] == [UNBOUNDED, 0.25]
    on_random = rows["centralised descent on random records"]
    assert on_random["true releases"] == UNBOUNDED
    assert on_random["true result"] != on_random["claimed"] == 0.25
    average = rows["noisy average of minimisers"]
    assert average["true releases"] == UNBOUNDED
    assert average["true result"] == pytest.approx(0.25 * math.sqrt(10) / 4, rel=0.05)
    assert rows["descent in step, masked sums"]["true releases"] is None
    assert rows["descent in step, masked sums"]["true result"] == 0.25
    for row in (row for row in made.rows if row["reading"] == TRULY):
        assert row["claimed"] == 0.25
    assert rows["each alone, nothing said"]["true releases"] == 0.0
    assert rows["no privacy, pooled"]["reading"] == OPEN
    assert rows["no privacy, pooled"]["accuracy"] > rows["majority class"]["accuracy"]
    assert rows["no privacy, pooled"]["gap"] == 0.0
    assert all(row["gap"] is None or row["gap"] >= 0.0 for row in made.rows)
    assert any("claim is false for an observer of the result alone" in line for line in made.findings)
    accuracy, gap = made.panels
    assert (accuracy.title, gap.title) == ("Accuracy", "Optimal gap")
    drawn = {series.label: series.y for series in accuracy.series}
    assert drawn["WD-DP (as published)"] == [rows["WD-DP"]["accuracy"]]
    assert drawn["WD-DP (truly private)"] == [rows["WD-DP, releases seen"]["accuracy"]]
    assert len(drawn) == 10, "all methods but two that are levels, and one for the table alone"


def test_two_parties_have_no_masked_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper003, "EPSILONS", (0.25,))
    made = reproduce("paper003/figure1", request(tmp_path, "data.source=breast-cancer", "data.agents=2"))
    assert "descent in step, masked sums" not in {row["method"] for row in made.rows}


def of(weighted: list[list[float]], equal: list[list[float]]) -> list[tuple[dict[str, float], dict[str, Found]]]:
    return [
        (
            {"epsilon": float(k)},
            {
                "w": Found(PUBLISHED, accuracy=w, gap=e),
                "e": Found(PUBLISHED, accuracy=e, gap=w),
                MAJORITY: Found(OPEN, accuracy=[0.8]),
                CENTRAL: Found(PUBLISHED, accuracy=[0.84]),
            },
        )
        for k, (w, e) in enumerate(zip(weighted, equal, strict=True))
    ]


def test_findings_follow_the_figures() -> None:
    better = of([[0.82, 0.83], [0.83, 0.84]], [[0.75, 0.76], [0.79, 0.80]])
    assert "gains +0.070, +0.040 in accuracy" in gains(better, "w", "e", "u", gap=False)
    assert "in 2 of 2: the paper's advantage reproduces." in gains(better, "w", "e", "u", gap=False)
    worse = of([[0.75, 0.76]], [[0.82, 0.83]])
    assert "in 0 of 1: the paper's advantage does not reproduce." in gains(worse, "w", "e", "u", gap=False)
    unclear = of([[0.70, 0.90]], [[0.75, 0.76]])
    assert "does not reproduce" in gains(unclear, "w", "e", "u", gap=False)
    assert "above zero (one run)" in gains(of([[0.8]], [[0.7]]), "w", "e", "u", gap=False)
    assert "a smaller optimal gap" in gains(better, "w", "e", "u", gap=True)
    grown = grows_with_epsilon(better, "w")
    assert "grows with epsilon, as in the paper, and is above the majority class in 2 of 2" in grown
    assert "+0.015, +0.005, within 0.02 in 2 of 2: similar, as in the paper" in similar(better, "w")
    assert "within 0.02 in 0 of 1: not throughout" in similar(worse, "w")
    assert "does not change" in grows_with_epsilon(of([[0.8], [0.801]], [[0.5], [0.5]]), "w")
    assert "does not grow" in grows_with_epsilon(of([[0.9], [0.7]], [[0.5], [0.5]]), "w")
    falling = of([[0.82], [0.825]], [[0.82], [0.74]])
    assert "w is steady" in steady(falling, "w", "e")
    assert "e falls or fluctuates" in steady(falling, "w", "e")
    assert "e is no less steady" in steady(of([[0.82], [0.825]], [[0.82], [0.83]]), "w", "e")


def test_data_are_found_by_their_files(tmp_path: Path) -> None:
    for folder, file in (("bank", "bank-additional-full.csv.gz"), ("adult", "adult.data")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).touch()
    assert sources(request(tmp_path, f"data.path={tmp_path}")) == [
        ("adult", str(tmp_path / "adult")),
        ("bank", str(tmp_path / "bank")),
    ]
    assert sources(request(tmp_path, f"data.path={ROOT / 'examples' / 'data'}")) == [
        ("breast-cancer", str(ROOT / "examples" / "data" / "breast-cancer"))
    ]
    assert sources(request(tmp_path, f"data.path={tmp_path / 'bank'}")) == [("bank", str(tmp_path / "bank"))]
    assert sources(request(tmp_path, "data.source=breast-cancer")) == [("breast-cancer", None)]
    with pytest.raises(FigureError, match=r"accepted is a folder that holds one of .*adult\.data"):
        sources(request(tmp_path, f"data.path={tmp_path / 'nothing'}"))
    with pytest.raises(FigureError, match="this figure accepts kddcup99, adult, bank, breast-cancer, credit-card, csv"):
        sources(request(tmp_path, "data.source=schools"))


OWN = "a,b,y\n" + "".join(f"{k % 7},{k % 5},{'yes' if k % 7 > 3 else 'no'}\n" for k in range(240))


def test_own_data_make_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure is planned with them; two are made whole, so over epsilon and over u."""
    path = tmp_path / "own.csv"
    path.write_text(OWN)
    own = ("data.source=csv", f"data.path={path}", "data.label=y", "data.positive=yes", "data.bounds.a=[0,6]")
    wanted = request(tmp_path, *own, "data.bounds.b=[0,4]", "data.agents=3")
    for figure in paper003.FIGURES:
        assert {setting.key[0] for setting in planned(figure, wanted)} == {"csv"}
    monkeypatch.setattr(paper003, "EPSILONS", (0.25,))
    monkeypatch.setattr(paper003, "UNEVEN", (3.0, 9.0))
    for name in ("figure1", "figure2"):
        made = reproduce(f"paper003/{name}", wanted)
        assert {row["data"] for row in made.rows} == {"csv"}
        assert len(made.rows) == 13, "u = 9 is for the larger data sets"
    with pytest.raises(FigureError, match=r"data\.row_scaling: rows may have norm 1\.73205, and this figure needs 1"):
        reproduce("paper003/figure1", request(tmp_path, *wanted.overrides, "data.row_scaling=none"))


def test_a_folder_without_data_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "paper003/figure1", "--world", "twin", "--set", f"data.path={tmp_path}"])
    assert stop.value.code == 2
    assert "data.path = " in capsys.readouterr().err


# --- the condition, and the learning rate ----------------------------------------------------------------------------


def test_which_losses_satisfy_the_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition, "ROUNDS_FAR_OUT", 300)
    made = reproduce("paper003/condition", request(tmp_path, "data.source=breast-cancer", "clock.updates=20"))
    rows = {(row["loss"], row["reading"]): row for row in made.rows}
    assert len(rows) == 6
    for name in ("logistic", "sigmoid-squared", "logistic-nonconvex"):
        assert rows[name, TRULY]["epsilon"] == pytest.approx(1.0, rel=1e-4)
        assert rows[name, TRULY]["bound"] > rows[name, TRULY]["last gap"]
        assert rows[name, TRULY]["bound"] > rows[name, OPEN]["bound"], "there is no noise to add"
        assert rows[name, TRULY]["bound held"] == "1 of 1"
    [fails] = [line for line in made.findings if "does not satisfy" in line]
    assert "logistic-nonconvex" in fails
    assert sum("satisfies it wherever it was looked at" in line for line in made.findings) == 2
    assert rows["logistic-nonconvex", OPEN]["gap far out"] > 1.0 > rows["sigmoid-squared", OPEN]["gap far out"]


def test_all_trials_of_a_rate_and_the_choice_cost_epsilon() -> None:
    parts = len(learning_rate.RATES)
    for epsilon in learning_rate.EPSILONS:
        mu = gaussian_mu(epsilon, 1e-3)
        settings_of = [
            setting
            for setting in learning_rate.FIGURE.settings(Request("twin", 1, ("data.source=breast-cancer",), Path()))
            if setting.key[1:3] == (epsilon, learning_rate.ACCOUNTED)
        ]
        assert [setting.key[3] for setting in settings_of] == list(learning_rate.RATES)
        spent = sum(gaussian_mu(setting.changes["privacy.epsilon"], 1e-3) ** 2 for setting in settings_of)
        assert spent == pytest.approx(mu**2, rel=1e-6)
        # One party's counts: L2 sensitivity sqrt(K), and a party's own part of the noise.
        own = learning_rate.count_deviation(epsilon, 9) / 3.0
        assert total([Gaussian(math.sqrt(parts), own)], 1e-3).epsilon == pytest.approx(epsilon, rel=1e-6)


def test_a_rate_is_chosen_by_what_the_validation_rows_say(tmp_path: Path) -> None:
    seen = {rate: np.array([100.0 * rate, 200.0, 0.5]) for rate in (0.1, 0.5, 1.0)}
    wanted = request(tmp_path, "data.source=breast-cancer")
    assert learning_rate._chosen(seen, learning_rate.FREE, 0.05, 0, wanted) == 1.0
    drawn = {learning_rate._chosen(seen, learning_rate.ACCOUNTED, 0.05, seed, wanted) for seed in range(30)}
    assert drawn == {0.1, 0.5, 1.0}, "counts of hundreds are lost in noise of this size"
    made = reproduce("paper003/learning-rate", request(tmp_path, "data.source=breast-cancer", "data.agents=3"))
    assert [(row["epsilon"], row["rate"]) for row in made.rows] == [
        (epsilon, how)
        for epsilon in learning_rate.EPSILONS
        for how in (learning_rate.FREE, learning_rate.ACCOUNTED, learning_rate.FIXED)
    ]
    assert len(made.findings) == 2
