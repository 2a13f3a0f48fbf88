"""Scores of a finished run: fixed keys, figures computed again another way, and what is missing said."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu
from coordinator_free.problem.graph_objective import graph_objective, optimum
from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.folder.manifest import RunFolderError
from node.folder.run import read_run
from node.places import agent_folder
from node.results import scoring
from node.results.details import read_details
from node.results.documents import _other_observers
from node.results.results import read_results
from node.results.scores import mean_of
from node.results.scoring import Scores, score
from node.results.table import facts
from node.worlds.twin import run_twin
from tests.helpers.documents import conforms
from tests.helpers.tables import public
from tests.helpers.twin_runs import finished

EPSILON = {"budget", "charged_max", "charged_mean", "delta", "accountant", "zcdp_rho", "gdp_mu"}
KEYS = [
    "version",
    "algorithm",
    "world",
    "agents",
    "metric",
    "alone",
    "together",
    "released_average",
    "finish",
    "pooled",
    "optimum_gap",
    "epsilon",
    "observers",
    "other_observers",
    "capture",
    "wire",
    "time",
    "memory",
    "failures",
    "network",
    "staleness",
    "public_assumptions",
]


def read(run: Path, name: str = "results.json") -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, Any] = json.loads((run / name).read_text(), parse_constant=refuse)
    return document


@pytest.fixture
def copied(open_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(open_run, tmp_path / "run"))


def test_results_have_the_fixed_keys(open_run: Path, private_run: Path) -> None:
    for run in (open_run, private_run):
        results = read(run)
        assert list(results) == KEYS
        conforms(results, "results")
        conforms(read(run, "details.json"), "details")
        conforms(read(run, "manifest.json"), "manifest")
        assert set(results["epsilon"]) == EPSILON
        assert set(results["capture"]) == {"complete", "releases", "missing", "repeats"}
        assert set(results["wire"]) == {"bytes", "dropped_by_reason"}
        assert set(results["time"]) == {"ready_s", "wall_s"}
        assert set(results["memory"]) == {"pss_mb_per_agent"}
        for kind in ("alone", "together", "pooled"):
            assert set(results[kind]) == {"mean", "worst", "smallest_quarter"}


def test_what_is_written_is_for_its_owner_only(private_run: Path) -> None:
    for name in (
        "results.json",
        "details.json",
        "results.parquet",
        "convergence.png",
        "gain.png",
        "staleness.png",
        "report.html",
    ):
        assert stat.S_IMODE((private_run / name).stat().st_mode) == 0o600


def test_scores_computed_again(open_run: Path) -> None:
    run, results = read_run(open_run), read(open_run)
    together, alone = [], []
    for agent, (rows, problem) in enumerate(zip(run.rows, run.problems, strict=True)):
        for models, model in ((together, run.final(agent)["model"]), (alone, problem.minimiser())):
            models.append(np.mean(np.sign(rows.x_test @ model) == rows.y_test))
    assert results["together"]["mean"] == pytest.approx(np.mean(together), abs=1e-12)
    assert results["together"]["worst"] == pytest.approx(np.min(together), abs=1e-12)
    assert results["alone"]["mean"] == pytest.approx(np.mean(alone), abs=1e-12)
    assert results["metric"] == {"name": "accuracy", "larger_is_better": True}
    assert results["finish"] is None
    assert results["released_average"] is None


def test_the_gap_computed_again(open_run: Path) -> None:
    run, results = read_run(open_run), read(open_run)
    best = optimum(run.network, run.problems, run.confidences, 2.5)
    models = np.stack([run.final(agent)["model"] for agent in range(run.agents)])
    at = [
        graph_objective(run.network, run.problems, run.confidences, 2.5, m) for m in (models, best, np.zeros_like(best))
    ]
    assert results["optimum_gap"] == pytest.approx((at[0] - at[1]) / (at[2] - at[1]), rel=1e-6)
    assert 0 < results["optimum_gap"] < 1e-2


def test_the_curve_ends_where_the_run_ends(open_run: Path) -> None:
    results, curve = read(open_run), read(open_run, "details.json")["curve"]
    assert curve["releases"][0] == 0
    assert curve["releases"][-1] == 30
    assert curve["gap"][0] == pytest.approx(1.0, abs=1e-12)
    assert curve["gap"][-1] == pytest.approx(results["optimum_gap"], rel=1e-6)
    assert curve["metric"][-1] == pytest.approx(results["together"]["mean"], abs=1e-12)


def test_the_capture_is_complete_and_counted(open_run: Path) -> None:
    results = read(open_run)
    assert results["capture"] == {"complete": True, "releases": 300, "missing": {}, "repeats": 0}
    assert results["failures"] == []
    assert results["epsilon"] == dict.fromkeys(EPSILON)


def test_ages_of_a_run_whose_releases_arrive_late(tmp_path: Path) -> None:
    calm = finished(tmp_path / "calm", public())
    late = finished(tmp_path / "late", public(network={"delay": "2 s"}, clock={"rate": 1.0}))
    fresh, old = read(calm)["staleness"], read(late)["staleness"]
    assert (fresh["mean"], fresh["median"], fresh["p95"], fresh["max"]) == (0.0, 0, 0, 0)
    assert fresh["histogram"] == [[0, fresh["ages"]]]
    assert 500 < fresh["ages"] <= 600  # 300 releases of agents with two neighbours, without the very first
    assert 1.0 < old["mean"] < 3.0
    assert old["ages"] == sum(count for _, count in old["histogram"])
    assert old["mean"] == pytest.approx(sum(age * count for age, count in old["histogram"]) / old["ages"])
    assert len(old["agents"]) == 10
    assert min(old["agents"]) <= old["mean"] <= max(old["agents"])
    curve = read(late, "details.json")["curve"]
    assert len(curve["age"]) == len(curve["releases"])


def test_a_private_run_shows_what_its_ledgers_hold(private_run: Path) -> None:
    epsilon = read(private_run)["epsilon"]
    assert epsilon["budget"] == 2.0
    assert epsilon["delta"] == 1e-3
    assert 2.0 * (1 - 1e-3) <= epsilon["charged_mean"] <= epsilon["charged_max"] <= 2.0
    assert epsilon["accountant"] == "analytic Gaussian"
    details = read(private_run, "details.json")
    assert details["record"] == "one pupil"
    assert len(details["not_covered_by_epsilon"]) == 3
    assert read(private_run)["finish"] is not None
    assert details["best_ridge"]["mean"] <= read(private_run)["alone"]["mean"] + 1e-12


def test_a_table_has_one_row_an_agent(private_run: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(private_run / "results.parquet").to_pydict()
    assert table["agent"] == list(range(65))
    known = [value for value in table["together"] if value is not None]
    assert np.mean(known) == pytest.approx(read(private_run)["together"]["mean"], abs=1e-12)


# --- what is missing is said -----------------------------------------------------------------------------------------


def test_an_agent_that_died_is_a_failure_and_counts_in_no_figure(copied: Path) -> None:
    place = agent_folder(copied, 4)
    (place / "final.npz").unlink()
    (place / "final.json").unlink()
    (place / "stderr.log").write_text("first line\nlast words\n")
    (copied / "exits.jsonl").write_text('{"process": "agent-0004", "pid": 1, "status": -9}\n')
    results, details = (document.to_json() for document in score(copied))
    conforms(results, "results")
    conforms(details, "details")
    assert results["failures"] == [{"process": "agent-0004", "status": -9, "last_words": ["first line", "last words"]}]
    assert results["optimum_gap"] is None
    assert details["agents"]["together"][4] is None
    others = [value for value in details["agents"]["together"] if value is not None]
    assert len(others) == 9
    assert results["together"]["mean"] == pytest.approx(np.mean(others), abs=1e-12)


def test_a_run_without_a_log_has_no_capture(copied: Path) -> None:
    (copied / "traffic.mcap").unlink()
    results, details = (document.to_json() for document in score(copied))
    assert results["capture"] is None
    assert details["curve"] is None
    assert results["time"]["wall_s"] is None


def test_a_cut_log_says_what_is_missing(copied: Path) -> None:
    log = copied / "traffic.mcap"
    log.write_bytes(log.read_bytes()[:-4000])
    results, _ = (document.to_json() for document in score(copied))
    conforms(results, "results")
    assert not results["capture"]["complete"]
    assert results["capture"]["missing"]


def test_a_launchers_facts_go_first(copied: Path) -> None:
    failure = {"process": "agent-0001", "status": 3, "last_words": ["not ready"]}
    watch = {"world": "processes", "ready_s": 1.5, "wall_s": 9.0, "failures": [failure]}
    (copied / "watch.json").write_text(json.dumps(watch))
    results, _ = (document.to_json() for document in score(copied))
    assert results["time"] == {"ready_s": 1.5, "wall_s": 9.0}
    assert results["failures"] == [failure]


def test_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunFolderError, match=r"manifest\.json"):
        score(tmp_path)
    assert scoring.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_masked_run_says_what_each_observer_learns(tmp_path: Path) -> None:
    table = {
        "run": {"name": "masked", "seed": 7},
        "data": {"source": "breast-cancer", "agents": 6},
        "topology": {"kind": "complete"},
        "learning": {
            "algorithm": "gradient-descent",
            "aggregation": "masked-sum",
            "loss": "logistic",
            "step": 1.0,
            "regularisation": 0.1,
        },
        "clock": {"updates": 3},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": 1.0, "observer": "sum"},
    }
    run = finished(tmp_path / "run", table)
    results = read_results(run)
    promised = results.observers
    assert promised is not None
    conforms(read(run), "results")
    assert results.epsilon.charged_max == pytest.approx(1.0, rel=1e-3)
    assert promised["colluders"] == promised["participant"] == pytest.approx(results.epsilon.charged_max, rel=1e-6)
    assert promised["outside"] == pytest.approx(epsilon_outside(6), rel=1e-3)
    told = dict(facts(results, read_details(run)))["of the masked sums"]
    assert f"one agent of the sum: {promised['participant']:.4g}" in told


def test_a_run_whose_links_have_keys_says_what_single_agents_learn(private_run: Path, tmp_path: Path) -> None:
    assert read_results(private_run).other_observers is None
    run = Path(shutil.copytree(private_run, tmp_path / "run"))
    config = (run / "config.toml").read_text()
    keys = 'transport = "tcp"\nencryption = true'
    (run / "config.toml").write_text(config.replace('transport = "ipc"', keys))
    seen = _other_observers(read_run(run))
    assert seen is not None
    near, far = seen.distances[:2]
    assert (near.hops, far.hops) == (1, 2)
    assert far.epsilon < 0.5 < near.epsilon <= 2.0 * (1 + 1e-6)
    results = replace(read_results(private_run), other_observers=seen)
    conforms(json.loads(json.dumps(results.to_json())), "results")
    assert "not the promise" in dict(facts(results, read_details(private_run)))["as agents see it"]


def epsilon_outside(agents: int) -> float:
    """Of sums that keep epsilon 1 at delta 1e-5 where one agent's part of the noise is known."""
    return gaussian_epsilon(gaussian_mu(1.0, 1e-5) * math.sqrt((agents - 1) / agents), 1e-5)


# --- summaries -------------------------------------------------------------------------------------------------------


def test_agents_without_a_score_count_in_no_summary() -> None:
    records = np.array([5.0, 1.0, 9.0, 7.0, 3.0, 2.0, 8.0, 6.0])
    values = np.array([0.5, math.nan, 0.9, 0.7, 0.3, 0.2, 0.8, 0.6])
    higher = Scores(records, True, {"together": values})
    summary = higher.summary("together")
    assert summary is not None
    assert summary.mean == pytest.approx(np.nanmean(values))
    assert summary.worst == 0.2
    assert summary.smallest_quarter == 0.2
    lower = Scores(records, False, {"together": values}).summary("together")
    assert lower is not None
    assert lower.worst == 0.9
    assert higher.summary("alone") is None
    assert Scores(records, True, {"together": np.full(8, math.nan)}).summary("together") is None


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 5, 65])
def test_quarters_hold_every_agent_once_the_smallest_first(agents: int) -> None:
    records = np.random.default_rng(agents).integers(0, 50, agents).astype(float)
    groups = Scores(records, True, {}).quarters()
    assert sorted(np.concatenate(groups).tolist()) == list(range(agents))
    for smaller, larger in itertools.pairwise(groups):
        assert records[smaller].max() <= records[larger].min()


def test_gradients_are_not_scored_as_models(tmp_path: Path) -> None:
    learning = {"algorithm": "gradient-descent", "loss": "logistic", "aggregation": "flood", "step": 1.0, "mu": None}
    table = public(
        data={"source": "breast-cancer", "agents": 4, "dimension": None},
        topology={"kind": "complete"},
        learning=learning,
        clock={"updates": 5, "rate": None},
    )
    run = finished(tmp_path / "run", table)
    results, details = read(run), read(run, "details.json")
    assert results["together"] is not None
    assert results["released_average"] is None
    assert details["curve"] is None
    assert not (tmp_path / "run" / "convergence.png").exists()


def test_an_agent_that_diverged_is_in_no_mean_and_no_mean_is_without_it(copied: Path) -> None:
    final = agent_folder(copied, 3) / "final.npz"
    with np.load(final) as held:
        arrays = dict(held)
    np.savez(final, **{name: np.full_like(array, np.nan) for name, array in arrays.items()})
    results, details = score(copied)
    conforms(read(copied), "results")
    assert results.together is None
    assert results.alone is not None
    assert details.quarters
    means = [quarter.means["together"] for quarter in details.quarters]
    assert means.count(None) == 1


def test_the_means_of_scores_with_an_infinite_one() -> None:
    scores = Scores(np.arange(4.0), True, {"together": np.array([0.5, math.nan, -math.inf, 0.9])})
    assert scores.summary("together") is None
    assert mean_of(scores.kinds["together"]) is None
    assert mean_of(np.array([0.5, math.nan])) == 0.5


def test_a_run_whose_steps_diverge_stops_with_a_reason(tmp_path: Path) -> None:
    steep = public(
        learning={"loss": "squared", "smoothness": 1e-3, "mu": 20.0},
        data={"feature_scale": 10.0},
        clock={"updates": 400},
    )
    deal_run(from_table(steep), tmp_path / "run")
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"release \d+ is not finite.*was charged and not sent"),
    ):
        run_twin(tmp_path / "run")


# --- a finished run gets its table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held_out", "label"),
    [(0.0, "0"), (0.5, "0"), (0.0, "{k}")],
    ids=["nothing to learn or test", "zero is best", "all"],
)
def test_runs_with_little_to_judge_get_their_table(tmp_path: Path, held_out: float, label: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "".join(f"{k % 3},{label.format(k=k)}\n" for k in range(8)))
    data = {"source": "csv", "path": str(path), "label": "y", "held_out": held_out, "dimension": None, "agents": None}
    data |= {"split": "sizes", "sizes": [1, 0, 3, 4], "bounds": {"a": [0, 2]}}
    table = public(
        data=data,
        learning={"loss": "squared", "finish": True},
        clock={"updates": 2},
        privacy={"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    )
    results, details = score_of(tmp_path / "run", table)
    conforms(results, "results")
    conforms(details, "details")
    assert (results["optimum_gap"] is None) == (label == "0")
    assert (results["together"] is None) == (held_out == 0.0)
    assert not any("not made" in warning for warning in details["warnings"])
    assert any("no row is held out" in warning for warning in details["warnings"]) == (held_out == 0.0)
    assert (tmp_path / "run" / "results.parquet").exists() == (importlib.util.find_spec("pyarrow") is not None)


def score_of(run: Path, table: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    finished(run, table)
    return read(run), read(run, "details.json")


def test_a_part_that_fails_is_noted_and_the_rest_is_there(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise TypeError("no picture\nof this")

    monkeypatch.setattr("node.results.report.report_of", fails)
    monkeypatch.setattr(scoring, "relative_gap", fails)
    (copied / "results.json").unlink()
    results, details = score(copied)
    assert results.together is not None
    assert results.optimum_gap is None
    assert read_results(copied) == results
    assert read_details(copied) == details
    assert [warning for warning in details.warnings if "not made" in warning] == [
        "gap to the optimum: not made, TypeError: no picture of this",
        "report.html: not made, TypeError: no picture of this",
    ]


def test_a_run_without_a_record_is_refused_before_it_spends(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\[data\] no agent has a training record"):
        deal_run(from_table(public(data={"records": [0, 0]})), tmp_path / "run")
    assert not (tmp_path / "run" / "manifest.json").exists()
