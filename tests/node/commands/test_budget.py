"""``sottovoce budget``: figures that a person can check, and nothing written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from coordinator_free.privacy.accounting import kairouz
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon
from node.cli import main
from node.commands.documents import document_text
from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.dealing.bought import bought
from node.folder.plain import plain
from tests.helpers.documents import conforms


def facts(configuration: Configuration, *, observers: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = plain(bought(configuration, observers=observers))
    return found


def table(**privacy: Any) -> dict[str, Any]:
    return {
        "run": {"name": "small", "seed": 7},
        "data": {"source": "breast-cancer", "agents": 6},
        "topology": {"kind": "ring"},
        "learning": {"loss": "logistic", "mu": 1.0, "smoothness": "bound"},
        "clock": {"updates": 40},
        "privacy": {"mechanism": "laplace", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0} | privacy,
    }


def test_a_laplace_budget() -> None:
    found = facts(from_table(table()))
    total = found["total"]
    assert 1.0 - 1e-4 <= total["epsilon"] <= 1.0
    assert total["epsilon"] == min(total["plain_sum"], total["kairouz_theorem_3_5"], total["exact"])
    assert found["charged_releases"] == 40
    each = found["release"]["last"]["epsilon"]
    assert total["plain_sum"] == pytest.approx(40 * each)
    alone = found["theorem_alone"]
    ones = total_of_theorem(alone["epsilon_of_last_release"], 40, 1e-3)
    assert ones == pytest.approx(total["epsilon"], rel=1e-9)
    assert alone["noise_factor"] == pytest.approx(each / alone["epsilon_of_last_release"])
    assert alone["noise_factor"] > 1.1
    for agent in found["agents"]:
        assert agent["scale"] == pytest.approx(agent["sensitivity"] / each)
        assert agent["gradient_noise_per_clip"] == pytest.approx(2.0 / each / agent["records"])
    sizes = [agent["records"] for agent in found["agents"]]
    assert sizes == sorted(sizes)


def total_of_theorem(epsilon: float, releases: int, delta: float) -> float:
    import numpy as np

    return kairouz(np.array([epsilon]), np.array([float(releases)]), delta)


def test_a_budget_is_told_in_the_parameters_of_other_accountings_too() -> None:
    gaussian = facts(from_table(table(mechanism="gaussian")))["total"]
    assert gaussian_epsilon(gaussian["gdp_mu"], 1e-3) == pytest.approx(gaussian["epsilon"], rel=1e-6)
    assert gaussian["zcdp_rho"] == pytest.approx(gaussian["gdp_mu"] ** 2 / 2.0)
    assert gaussian["conversion"].startswith("exact")
    laplace = facts(from_table(table()))
    each = laplace["release"]["last"]["epsilon"]
    assert laplace["total"]["zcdp_rho"] == pytest.approx(40 * each**2 / 2.0)
    assert "laplace" in laplace["total"]["conversion"]


def test_more_updates_need_more_noise_each() -> None:
    compared = facts(from_table(table(mechanism="gaussian")))["updates_compared"]
    assert [row["updates"] for row in compared] == [1, 10, 40, 100, 1000]
    noise = [row["multiplier"] for row in compared]
    assert noise == pytest.approx([noise[0] * math.sqrt(row["updates"]) for row in compared], rel=1e-6)
    assert all(row["epsilon"] is None for row in compared)


@pytest.mark.thorough
def test_an_allocation_that_cannot_be_for_many_updates_is_named_not_fatal() -> None:
    found = facts(from_table(table(allocation="increasing", r=0.8)))
    assert found["release"]["first"]["multiplier"] > found["release"]["last"]["multiplier"]
    refused = {row["updates"]: row["refused"] is not None for row in found["updates_compared"]}
    assert refused == {1: False, 10: False, 40: False, 100: False, 1000: True}


def test_a_delta_that_permits_publishing_a_record_is_warned_of() -> None:
    assert any("privacy.delta" in warning for warning in facts(from_table(table(delta=0.1)))["warnings"])


def test_the_budget_of_a_masked_sum_says_what_each_observer_learns() -> None:
    masked = table(mechanism="gaussian", delta=1e-5, observer="sum")
    masked["learning"] = {"algorithm": "gradient-descent", "aggregation": "masked-sum", "loss": "logistic", "step": 1.0}
    promised = facts(from_table(masked))
    conforms(json.loads(document_text(promised)), "budget")
    assert promised["observers"]["participant"] == pytest.approx(1.0, rel=1e-3)
    assert not any("privacy.colluders" in warning for warning in promised["warnings"])
    masked["privacy"]["colluders"] = 0
    broken = facts(from_table(masked))
    assert broken["observers"]["outside"] == pytest.approx(1.0, rel=1e-3)
    assert broken["observers"]["participant"] == pytest.approx(1.11, abs=0.01)
    assert any("privacy.colluders = 0: epsilon 1 holds only" in warning for warning in broken["warnings"])
    assert facts(from_table(table()))["observers"] is None


def test_single_agents_are_shown_beside_the_promise_where_it_is_asked_for() -> None:
    seen = facts(from_table(table(mechanism="gaussian")), observers=True)
    conforms(json.loads(document_text(seen)), "budget")
    near, *_, far = seen["other_observers"]["distances"]
    assert (near["hops"], far["hops"], seen["other_observers"]["links_have_keys"]) == (1, 3, False)
    assert far["epsilon"] < near["flat"][1] < near["epsilon"] <= seen["total"]["epsilon"] * (1 + 1e-9)
    assert facts(from_table(table(mechanism="gaussian")))["other_observers"] is None
    laplace = facts(from_table(table()), observers=True)
    conforms(json.loads(document_text(laplace)), "budget")
    assert "Gaussian noise only" in laplace["other_observers"]["not_given"]


def test_the_command_prints_one_document_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "small.toml"
    lines = [f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in s.items()) for name, s in table().items()]
    config.write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        main(["budget", str(config), "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    conforms(document, "budget")
    assert document["budget"] == {"epsilon": 1.0, "delta": 1e-3}
    with pytest.raises(SystemExit) as ended:
        main(["budget", str(config)])
    assert ended.value.code == 0
    assert "Kairouz Theorem 3.5" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["budget", str(config), "--observers", "--set", "privacy.mechanism=gaussian"])
    assert ended.value.code == 0
    assert "not the promise" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["budget", str(config), "--set", "privacy.epsilon=-1"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_mechanism_there_is_no_budget() -> None:
    sections = table()
    sections["privacy"] = {"mechanism": "none"}
    with pytest.raises(ValueError, match=r"privacy\.mechanism"):
        facts(from_table(sections))
