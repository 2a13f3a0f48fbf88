"""Simulated records in the place of private ones: the same shape and bounds, and nothing of the records in a figure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from node.configuration.reading import from_table
from node.dealing.rows import deal_data
from node.experiments.simulated import place, simulated
from node.experiments.trial import TrialError
from tests.helpers.documents import conforms
from tests.helpers.people import command, people, written


def test_they_have_the_shape_the_bounds_and_the_usual_size(tmp_path: Path) -> None:
    configuration = from_table(people(tmp_path))
    dealt = deal_data(configuration, 1)
    made = [simulated(configuration, dealt, seed) for seed in range(40)]
    for one in made:
        assert [shard.x.shape for shard in one.shards] == [shard.x.shape for shard in dealt.shards]
        assert [shard.x_test.shape for shard in one.shards] == [shard.x_test.shape for shard in dealt.shards]
        assert one.sources is None
        for shard in one.shards:
            assert np.linalg.norm(shard.x, axis=1).max() <= dealt.row_bounds["l2"] * (1 + 1e-12)
            assert np.abs(shard.y).max() <= dealt.label_bound
    labels = np.concatenate([shard.y for one in made for shard in one.shards])
    # 2,400 labels of usual size 5 / 3, which depend on each other in groups: within a quarter.
    assert float(np.sqrt(np.mean(labels**2))) == pytest.approx(5 / 3, rel=0.25)
    assert made[0].digest != made[1].digest


def test_no_figure_depends_on_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of the same shape and other cells: the same document, digit by digit, and no note in a registry."""
    monkeypatch.chdir(tmp_path)
    found = []
    for seed in (1, 2):
        config = written(people(tmp_path / "data", seed), tmp_path)
        few = ("--try", "clock.updates=2,6", "--only", "clock.updates", "--instances", "2")
        found.append(json.loads(command(capsys, "tune", config, *few, "--json")))
        conforms(found[-1], "tuning")
    assert found[0] == found[1]
    assert "simulated" in found[0]["on"]
    assert found[0]["accounted"] is True
    assert found[0]["note"] is None
    assert not list(tmp_path.rglob("*.spent"))
    open_ = json.loads(command(capsys, "tune", config, *few, "--json", "--on", "data"))
    assert open_["accounted"] is False
    assert "validation split" in open_["on"]
    assert list(tmp_path.rglob("*.spent"))


def test_a_comparison_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = written(people(tmp_path / "data"), tmp_path)
    made = json.loads(command(capsys, "compare", config, "--seeds", "1", "--json", "--out", "c"))
    conforms(made, "comparison")
    assert made["on"] == "simulated"
    assert not list(tmp_path.rglob("*.spent"))
    told = command(capsys, "compare", config, "--seeds", "1", "--out", "d")
    assert "no record of the data was looked at" in told
    refused = command(capsys, "compare", config, "--on", "simulated", "--world", "processes", code=2)
    assert "--on simulated" in refused


def test_published_data_are_looked_at_and_synthetic_tasks_have_no_choice(tmp_path: Path) -> None:
    table = people(tmp_path)
    assert place(from_table(table), None) == "simulated"
    assert place(from_table(table), "data") == "data"
    with pytest.raises(TrialError, match="--on elsewhere: accepted are data and simulated"):
        place(from_table(table), "elsewhere")
    schools = from_table(table | {"data": {"source": "schools"}})
    assert (place(schools, None), place(schools, "simulated")) == ("data", "simulated")
    with pytest.raises(TrialError, match="synthetic"):
        place(from_table(table | {"data": {"source": "synthetic"}}), "data")


def test_without_bounds_there_is_no_shape(tmp_path: Path) -> None:
    table = people(tmp_path)
    table["data"] |= {"bounds": {"age": [0, 100], "size": [0, 1]}, "centring": "none"}
    configuration = from_table(table)
    with pytest.raises(TrialError, match="nothing public bounds the labels"):
        simulated(configuration, deal_data(configuration, 1), 1)
