"""The command ``theory``: a bound is shown with its readings, its constants and what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from node.experiments.theory import registry
from node.experiments.theory.bound import Bound
from node.experiments.theory.pictures import panel, pictures
from node.experiments.theory.subject import Subject, subject
from tests.helpers.command import run_cli
from tests.helpers.documents import conforms
from tests.helpers.places import ROOT
from tests.helpers.twin_runs import finished

TABLE: dict[str, dict[str, object]] = {
    "run": {"seed": 1},
    "data": {"source": "synthetic", "agents": 3, "dimension": 2, "records": [8, 12]},
    "topology": {"kind": "ring"},
    "learning": {"mu": 1.0, "loss": "squared", "smoothness": "bound"},
    "clock": {"updates": 2},
    "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
}


def two_readings(of: Subject) -> list[Bound]:
    """Records of each agent below 100, where the published reading says 1."""
    at, records = np.arange(of.agents, dtype=np.float64), np.array(of.records, dtype=np.float64)
    return [
        Bound(
            name="records",
            source="000, Theorem 0",
            statement="an agent has at most c records",
            reading=reading,  # type: ignore[arg-type]
            x_label="agent",
            y_label="records",
            at=at,
            bound=np.full(of.agents, most),
            constants={"c": most},
            unspecified=("c",),
            measured=records,
            held=bool((records <= most).all()),
        )
        for reading, most in (("as published", 1.0), ("as true", 100.0))
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("theory") / "run", TABLE)


def test_a_bound_is_printed_drawn_and_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "BOUNDS", (two_readings,))
    assert run_cli("theory", str(run), "--json", "--out", str(tmp_path)) in (0, None)
    printed = json.loads(capsys.readouterr().out)
    conforms(printed, "theory")
    assert printed == json.loads((tmp_path / "theory.json").read_text())
    assert printed["kind"] == "run"
    assert [(bound["reading"], bound["held"]) for bound in printed["bounds"]] == [
        ("as published", False),
        ("as true", True),
    ]
    assert (tmp_path / "000-theorem-0-records.png").read_bytes().startswith(b"\x89PNG")
    assert run_cli("theory", str(run)) in (0, None)
    shown = capsys.readouterr().out
    assert "000, Theorem 0" in shown
    assert "left open by the paper: c" in shown
    assert "c = 100" in shown


def test_a_run_and_its_configuration_are_one_subject(run: Path) -> None:
    made, planned = subject(run), subject(run / "config.toml")
    assert made.records == planned.records
    assert [p.multipliers for p in made.public] == [p.multipliers for p in planned.public]
    assert len(made.releases) == 3 * 2
    assert planned.releases == ()


def test_two_readings_share_a_picture_and_the_published_one_is_dashed(run: Path) -> None:
    found = two_readings(subject(run))
    assert list(pictures(found)) == ["000-theorem-0-records.png"]
    drawn = panel(found)
    assert [(line.label, line.dashed) for line in drawn.series] == [
        ("bound, as published", True),
        ("bound, as true", False),
        ("measured", False),
    ]


def test_a_bound_that_contradicts_itself_is_refused() -> None:
    at = np.arange(3.0)
    common = {"name": "b", "source": "s", "statement": "", "x_label": "", "y_label": "", "at": at, "reading": "as true"}
    with pytest.raises(ValueError, match=r"bound has shape \(2,\)"):
        Bound(**common, bound=at[:2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without a value: c"):
        Bound(**common, bound=at, unspecified=("c",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="held must be None"):
        Bound(**common, bound=at, held=True)  # type: ignore[arg-type]


def test_what_is_neither_a_run_nor_a_configuration_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run_cli("theory", str(tmp_path / "missing.toml")) == 2
    assert "missing.toml" in capsys.readouterr().err
    assert run_cli("theory", str(tmp_path)) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_overrides_are_for_a_configuration_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("theory", str(run), "--set", "clock.updates=3") == 2
    assert "--set clock.updates=3" in capsys.readouterr().err
    assert run_cli("theory", str(ROOT / "examples" / "schools.toml"), "--set", "clock.nothing=3") == 2


def admm(name: str, mechanism: str) -> dict[str, dict[str, object]]:
    return {
        **TABLE,
        "data": {"source": "synthetic", "agents": 3, "dimension": 3, "feature_scale": 0.5, "records": [15, 15]},
        "learning": {"algorithm": name, "loss": "logistic", "capacity": 200.0, "rho": 1.0, "penalty": 40.0},
        "clock": {"updates": 3},
        "privacy": {"mechanism": mechanism, "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
    }


@pytest.mark.parametrize(("name", "mechanism"), [("dvp", "gamma-norm"), ("pvp", "gaussian")])
def test_what_papers_000_and_002_bound_in_a_run(name: str, mechanism: str, tmp_path: Path) -> None:
    found = registry.bounds(subject(finished(tmp_path / "run", admm(name, mechanism))))
    here = [bound for bound in found if bound.source.startswith("000")]
    assert {bound.reading for bound in here} == {"as published", "as true"}
    assert not [bound.name for bound in here if bound.reading == "as true" and bound.held is False]
    assert any(bound.held is False for bound in here if bound.reading == "as published")
    for bound in here:
        if bound.name.startswith("records"):
            assert bound.unspecified == ("beta",)
            assert (np.diff(bound.bound) < 0).all(), "less accuracy needs fewer records"
    sources = " ".join(bound.source for bound in here)
    assert "Theorem 3" in sources
    assert ("Theorem 4" in sources) == (name == "dvp")
    assert ("Theorem 6" in sources) == (name == "pvp")
    [published, true] = [bound for bound in here if bound.name == "epsilon for groups of records"]
    assert true.bound[0] == pytest.approx(published.bound[0])
    assert (true.bound[1:] > published.bound[1:]).all(), "c2 times epsilon is too little at delta > 0"


def test_papers_000_and_002_bound_nothing_of_another_algorithm(run: Path) -> None:
    assert not [bound for bound in registry.bounds(subject(run)) if bound.source.startswith("000")]


@pytest.mark.parametrize("algorithm", ["admm", "dvp"])
def test_bounds_for_the_squared_regulariser_are_left_out_with_another(algorithm: str, tmp_path: Path) -> None:
    learning = {"algorithm": algorithm, "loss": "logistic", "capacity": 5.0, "rho": 1.0, "penalty": 2.0}
    privacy = {} if algorithm == "admm" else {"mechanism": "gamma-norm", "epsilon": 2.0, "delta": 1e-3, "clip": 2.0}
    sources = {}
    for form in ("squared", "smooth-l1"):
        table = {**TABLE, "learning": {**learning, "regulariser_form": form}, "privacy": privacy}
        run = finished(tmp_path / form, table)
        sources[form] = {bound.source for bound in registry.bounds(subject(run))}
    left = {"dvp": {"000, Corollaries 1.2 and 2.2", "000, Proposition 7"}, "admm": set()}[algorithm]
    assert sources["smooth-l1"] == left
    assert left < sources["squared"]
