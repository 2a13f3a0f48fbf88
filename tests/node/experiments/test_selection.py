"""Settings chosen by private scores: what is shown, what is charged and when, and what one record can move."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.release import FloatArray
from node.configuration.reading import from_table
from node.data.dealt import Shard
from node.dealing.rows import deal_data
from node.experiments import selection
from node.experiments.selection import _prepared, _Scale, select
from node.experiments.trial import TrialError
from node.experiments.tune import validation
from node.folder.registry import Registry
from tests.helpers.documents import conforms
from tests.helpers.people import command, people, written

FEW = ("--only", "clock.updates", "--try", "clock.updates=1,2")


def chosen(folder: Path, epsilon: float = 8.0, **changes: Any) -> selection.Selected:
    table = people(folder)
    for section, values in changes.items():
        table[section] |= values
    return select(
        from_table(table), epsilon=epsilon, trials=2, grids={"clock.updates": [1, 2]}, only=("clock.updates",)
    )


def test_it_shows_the_choice_and_charges_all_of_it_to_every_training_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = written(people(tmp_path / "data"), tmp_path)
    shown = json.loads(command(capsys, "tune", config, *FEW, "--private", "8", "--trials", "2", "--json"))
    conforms(shown, "selection")
    assert shown["chosen"] in ({}, {"clock.updates": 1}, {"clock.updates": 2})
    assert 0.0 < shown["epsilon"] <= 8.0
    registry = Registry(tmp_path / "data" / "people.csv.spent")
    (entry,) = registry.entries()
    assert [len(part.records) for part in entry.parts] == [4] * 12  # of six records two are held out, and not looked at
    for part in entry.parts:
        assert part.costs is not None
        ((cost, count),) = part.costs.items()
        assert (cost.multiplier, cost.delta, count) == (1.0 / shown["epsilon"], shown["delta"], 1)

    # A run counts it. Of delta the choice took a tenth, so the run's own epsilon is a little larger in the total.
    told = json.loads(command(capsys, "budget", config, "--json"))
    together = told["on_these_data"]["together"]
    assert shown["epsilon"] < together["epsilon"] <= shown["epsilon"] + 1.05
    assert together["delta"] == 1e-3
    refused = command(capsys, "tune", config, *FEW, "--private", "8", "--set", "privacy.total_epsilon=12", code=2)
    assert "privacy.total_epsilon = 12" in refused
    assert "choice for people 7.999" in refused
    assert len(registry.entries()) == 1


def test_choices_that_use_up_delta_are_refused(tmp_path: Path) -> None:
    table = people(tmp_path)
    for _ in range(1):
        selection.charge_selection(
            from_table(table), deal_data(from_table(table), 1), selection.affordable(1.0, 2, 9e-4)
        )
    with pytest.raises(ValueError, match=r"choices have used up privacy\.delta = 0\.001"):
        chosen(tmp_path)
    assert len(Registry(tmp_path / "people.csv.spent").entries()) == 1


def test_it_is_charged_before_the_first_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(selection, "transcript_of", killed)
    monkeypatch.setattr(selection, "drawn", lambda *_: 1)
    with pytest.raises(KeyboardInterrupt):
        chosen(tmp_path)
    assert len(Registry(tmp_path / "people.csv.spent").entries()) == 1


def test_the_cost_is_that_of_releases_and_score_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the noise that is added: 1 / multiplier^2 and the releases' mu^2 are what the charge rests on."""
    added = []
    mechanism = selection.mechanism
    monkeypatch.setattr(selection, "mechanism", lambda *given: added.append(mechanism(*given)) or added[-1])
    found = chosen(tmp_path)
    releases = gaussian_mu(1.0, 1e-3)
    trial = np.sqrt(releases**2 + added[0].multiplier ** -2)
    assert found.epsilon == pytest.approx(selection.cheapest(trial, 2, 1e-4).epsilon, rel=1e-6)
    assert added[0].sensitivity == pytest.approx(2.0 * 5.0 / 3.0 / 12, rel=1e-5)  # twice the usual label, of 12 agents


def test_a_record_moves_the_score_by_its_agent_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise; a record that judges has another value, or the finish of one agent fails."""
    monkeypatch.setattr(os, "urandom", lambda count: b"s" * count)

    configuration = from_table(people(tmp_path))
    dealt = validation(deal_data(configuration, 1), 1)
    scale = _Scale.of(configuration, dealt)
    before = scale.score(_prepared(configuration, 1, dealt))
    shards = list(dealt.shards)
    shards[3] = Shard(shards[3].x, shards[3].y, -shards[3].x_test, np.full_like(shards[3].y_test, 5.0))
    moved = scale.score(_prepared(configuration, 1, replace(dealt, shards=tuple(shards)))) - before
    assert 0.01 * scale.sensitivity < abs(moved) <= scale.sensitivity

    finish = GradientDescent.finish

    def fails(self: GradientDescent) -> FloatArray | None:
        if self._setting.agent == 3:
            raise ArithmeticError("of this agent's records")
        return finish(self)

    monkeypatch.setattr(GradientDescent, "finish", fails)
    moved = scale.score(_prepared(configuration, 1, dealt)) - before
    assert 0.01 * scale.sensitivity < moved <= scale.sensitivity


def test_released_nonsense_is_the_worst_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("an average that cannot be")

    configuration = from_table(people(tmp_path))
    dealt = validation(deal_data(configuration, 1), 1)
    scale = _Scale.of(configuration, dealt)
    monkeypatch.setattr(selection, "transcript_of", fails)
    assert scale.score(_prepared(configuration, 1, dealt)) == pytest.approx(scale.largest)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"privacy": {"mechanism": "laplace"}}, "accepted is .gaussian"),
        ({"run": {"simulation": True}}, "noise that the seed shows"),
        ({"topology": {"kind": "private-similarity", "neighbours": 3, "share": 0.5}}, "a graph of the records"),
        (
            {"data": {"bounds": {"age": [0, 100], "size": [0, 1]}, "centring": "none"}},
            "nothing public bounds the labels",
        ),
        ({"privacy": {"epsilon": 8.0}}, "cost .* without any score"),
    ],
)
def test_what_cannot_be_chosen_in_private_is_refused_and_costs_nothing(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(TrialError, match=why):
        chosen(tmp_path, **changes)
    assert not list(tmp_path.rglob("*.spent"))


@pytest.mark.parametrize(
    ("source", "why"),
    [("synthetic", "no records of anybody"), ("movielens-100k", "are made of the records themselves")],
)
def test_so_are_data_whose_scores_have_no_bound_or_cost_nothing(tmp_path: Path, source: str, why: str) -> None:
    table = people(tmp_path) | {"data": {"source": source} | ({} if source == "synthetic" else {"path": str(tmp_path)})}
    with pytest.raises(TrialError, match=why):
        select(from_table(table), epsilon=8.0, trials=2, grids={})


def test_options_that_do_nothing_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = written(people(tmp_path / "data"), tmp_path)
    for options, told in (
        (("--trials", "3"), "--trials 3: only a choice with --private"),
        (("--private", "8", "--on", "data"), "--on data: --private is judged on one validation split"),
        (("--private", "8", "--instances", "2"), "--instances 2"),
        (("--private", "nan"), "--private nan: should be a finite epsilon above 0"),
        (("--private", "8", "--try", "clock.updates=3", "--only", "clock.updates"), "1 candidates; accepted are 2 to"),
    ):
        assert told in command(capsys, "tune", config, *options, code=2)
