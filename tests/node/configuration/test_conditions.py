"""What `[network]` and `[[event]]` accept, and what they say to what they do not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from coordinator_free.faults.targets import bisection, targets
from node.configuration.public import dump
from node.configuration.reading import from_table, load
from node.configuration.refusals import ConfigurationError
from node.dealing.preparation import prepare
from tests.helpers.tables import public


def refused(**tables: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        from_table({**public(), **tables})
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_quantities_are_written_with_units_and_survive_the_resolved_configuration() -> None:
    network = {"delay": "20 ms", "bandwidth": "10 Mbit/s", "bucket": "64 kB", "repeat": "100 ms"}
    event: list[dict[str, Any]] = [{"at": "1 min", "fault": "partition", "groups": [[0, 1], [2]], "lasting": "2 s"}]
    event.append({"at": 0, "fault": "kill", "target": "all", "rate": "30 / min", "lasting": "1 min", "restart": "1 s"})
    found = from_table({**public(), "network": network, "event": event})
    assert found.network.delay is not None
    assert found.network.delay.mean == pytest.approx(0.02)
    assert (found.network.bandwidth, found.network.bucket, found.network.repeat) == (1.25e6, 64e3, 0.1)
    assert found.event[0].at == 60.0
    assert found.event[1].rate == pytest.approx(0.5)
    assert from_table(tomllib.loads(dump(found))).network == found.network
    assert from_table(tomllib.loads(dump(found))).event == found.event


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"loss": 1.0}, "network.loss = 1.0: should be less than 1"),
        ({"delay": "20 mm"}, 'network.delay.mean = "20 mm": should be a number with a unit, such as "20 ms"'),
        ({"delay": {"law": "exponential"}}, 'law "exponential" takes mean'),
        ({"burst": {"every": 1.0}}, "network.burst.lasting is missing"),
        ({"los": 0.1}, "did you mean network.loss?"),
        ({"link": [{"from": 1, "to": 2, "los": 0.1}]}, "did you mean network.link.0.loss?"),
    ],
)
def test_bad_conditions_are_named(network: dict[str, Any], words: str) -> None:
    assert words in refused(network=network)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"at": 1.0, "fault": "flood"}, "event.0.fault"),
        ({"at": 1.0, "fault": "pause", "target": "few", "lasting": 1.0}, "one of one, minority, majority, all"),
        ({"at": 1.0, "fault": "pause", "target": "one"}, "needs lasting"),
        ({"at": 1.0, "fault": "partition", "lasting": 1.0}, "takes groups"),
        ({"at": 1.0, "fault": "kill", "target": "all", "rate": "2 per min"}, 'a number with a unit, such as "2 / min"'),
        ({"at": 1.0, "fault": "kill", "target": "all", "rate": "2 / min"}, "takes lasting and rate and target"),
        (
            {"at": 1.0, "fault": "pause", "target": "all", "rate": 1.0, "lasting": 1.0},
            "takes target, and maybe lasting",
        ),
        (
            {"at": 1.0, "fault": "kill", "target": "all", "rate": 1.0, "lasting": 9.0, "restart": 2.0},
            "network.linger = 10: an event lasts 10 s",
        ),
        ({"at": 1.0, "fault": "pause", "target": "one", "lasting": 30.0}, "network.linger = 10"),
    ],
)
def test_bad_events_are_named(event: dict[str, Any], words: str) -> None:
    assert words in refused(event=[event])


def test_links_and_targets_have_to_be_in_the_graph() -> None:
    far = from_table({**public(), "network": {"link": [{"from": 0, "to": 5}]}})
    with pytest.raises(ConfigurationError, match=r"network\.link\.0\.to = 5: should be a neighbour of agent 0"):
        prepare(far)
    nobody = from_table({**public(), "event": [{"at": 1.0, "fault": "kill", "target": [10], "restart": 1.0}]})
    with pytest.raises(ValueError, match=r"event\.0\.target: 10 is no agent: accepted are 0 to 9"):
        prepare(nobody)


def test_a_scenario_is_laid_over_the_configuration(tmp_path: Path) -> None:
    own, scenario = tmp_path / "own.toml", tmp_path / "scenario.toml"
    own.write_text(dump(from_table({**public(), "network": {"loss": 0.1, "repeat": 0.2}})))
    scenario.write_text('[network]\nloss = 0.3\n[[event]]\nat = 1\nfault = "heal"\n')
    found = load(own, ["network.loss=0.4"], scenario)
    assert (found.network.loss, found.network.repeat, len(found.event)) == (0.4, 0.2, 1)
    scenario.write_text("[clock]\nrate = 3.0\n")
    with pytest.raises(ConfigurationError, match=r"has a section \[clock\]; accepted are network and event"):
        load(own, [], scenario)


def test_who_is_hit_follows_from_the_seed() -> None:
    assert [len(targets(kind, 10, 1, 0)) for kind in ("one", "minority", "majority", "all")] == [1, 4, 6, 10]
    assert targets("minority", 10, 1, 0) == targets("minority", 10, 1, 0)
    assert len({targets("minority", 10, seed, 0) for seed in range(9)}) > 1
    assert sum(bisection(10, 1, 0)) == 5
