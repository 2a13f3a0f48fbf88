"""Predictions use the model that they name on rows that are encoded like the run's own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from node.commands.predict import predict
from node.configuration.data import DataSection
from node.configuration.reading import load
from node.configuration.refusals import ConfigurationError
from node.folder.manifest import read_manifest
from node.folder.run import read_run
from node.results.prediction import PredictionError, features_of, words_of
from tests.helpers.documents import conforms
from tests.helpers.places import ROOT
from tests.helpers.tables import public
from tests.helpers.twin_runs import finished

PUPILS = ROOT / "examples" / "data" / "schools" / "exam.csv"


def test_rows_are_encoded_like_the_runs_own(private_run: Path, tmp_path: Path) -> None:
    lines = PUPILS.read_text().splitlines()
    head = next(csv.reader(lines[:1]))
    place = head.index("school")
    ours = [line for line in lines[1:] if next(csv.reader([line]))[place] == "1"]
    rows = tmp_path / "pupils.csv"
    rows.write_text("\n".join([lines[0], *ours]) + "\n")
    run = read_run(private_run)
    x = features_of(run.configuration, run.manifest.features, rows)
    own = run.rows[run.manifest.names.index("school 1")]
    everything = np.concatenate([own.x, own.x_test])
    assert sorted(x.tolist()) == sorted(everything.tolist())


def test_the_finish_is_used_and_marked(private_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    features = read_manifest(private_run).features
    values = np.random.default_rng(1).uniform(-0.4, 0.4, (3, len(features)))
    rows.write_text("\n".join([",".join(features), *(",".join(map(repr, row)) for row in values.tolist())]))
    predict(private_run, rows, agent=3, as_json=True)
    said = json.loads(capsys.readouterr().out)
    conforms(said, "predict")
    assert said["model"] == "finish"
    assert said["covered_by_epsilon"] is False
    finish = read_run(private_run).final(3)["finish"]
    assert [row["prediction"] for row in said["predictions"]] == pytest.approx(values @ finish, rel=1e-12)
    predict(private_run, rows, agent=3, model="together", as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["covered_by_epsilon"] is True
    predict(private_run, rows, agent=3)
    told = capsys.readouterr()
    assert "not covered by epsilon" in told.err
    assert len(told.out.splitlines()) == 4


def test_labels_come_with_their_probability(open_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = read_run(open_run)
    rows = tmp_path / "rows.csv"
    lines = [",".join(run.manifest.features), *(",".join(map(repr, row)) for row in run.rows[2].x_test.tolist())]
    rows.write_text("\n".join(lines))
    predict(open_run, rows, agent=2, as_json=True)
    said = json.loads(capsys.readouterr().out)["predictions"]
    right = np.mean([row["prediction"] == label for row, label in zip(said, run.rows[2].y_test, strict=True)])
    details = json.loads((open_run / "details.json").read_text())
    assert right == pytest.approx(details["agents"]["together"][2], abs=1e-12)
    assert all((row["probability"] >= 0.5) == (row["prediction"] == 1.0) for row in said)


def test_what_cannot_be_predicted_is_one_line(open_run: Path, private_run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n")
    with pytest.raises(PredictionError, match="agents 0 to 64"):
        predict(private_run, rows, agent=65)
    with pytest.raises(PredictionError, match="lacks column 'standLRT'"):
        predict(private_run, rows, agent=0)
    with pytest.raises(PredictionError, match="one column for each feature"):
        predict(open_run, rows, agent=0)
    with pytest.raises(PredictionError, match="--model finish"):
        predict(open_run, rows, agent=0, model="finish")
    with pytest.raises(ConfigurationError, match="No such file"):
        load(tmp_path / "config.toml")


def test_labels_are_predicted_in_the_words_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age;ill\n" + "".join(f"{k};{'yes, badly' if k > 0 else 'no'}\n" for k in range(-20, 20)))
    data = {"source": "csv", "path": str(path), "delimiter": ";", "label": "ill", "positive": "yes, badly", "agents": 4}
    finished(tmp_path / "run", public(data={**data, "dimension": None}, clock={"updates": 3}))
    predict(tmp_path / "run", path, agent=0, as_json=True)
    said = json.loads(capsys.readouterr().out)
    conforms(said, "predict")
    found = {row["prediction"]: row["probability"] for row in said["predictions"]}
    assert set(found) == {"yes, badly", "no"}
    assert found["yes, badly"] >= 0.5 > found["no"]
    predict(tmp_path / "run", path, agent=0)
    lines = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert lines[0] == ["prediction", "probability"]
    assert [row[0] for row in lines[1:]] == [row["prediction"] for row in said["predictions"]]


def test_the_words_of_labels() -> None:
    own = {"source": "csv", "path": "x", "label": "y", "agents": 2}
    assert words_of(DataSection(**own)) is None
    assert words_of(DataSection(**own, positive="a", negative=("b",))) == ("a", "b")
    assert words_of(DataSection(**own, positive="a", negative=("b", "c"))) == ("a", "not a")
    assert words_of(DataSection(**own, positive="a")) == ("a", "not a")
    assert words_of(DataSection(source="bank", path="x", agents=2)) == ("yes", "no")


def test_a_large_prediction_keeps_its_digits(
    private_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.csv"
    features = read_manifest(private_run).features
    rows.write_text("\n".join([",".join(features), ",".join("1" for _ in features)]))
    monkeypatch.setattr("node.results.prediction.predict", lambda *_: [{"prediction": 1234567.25}])
    predict(private_run, rows, agent=3)
    assert capsys.readouterr().out == "prediction\n1234567.25\n"
