"""The public numbers of an agent survive being written, and a shard without what protects its data is refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from coordinator_free.faults.conditions import conditions
from node.configuration.reading import from_table
from node.dealing.preparation import prepare
from node.folder.public import MembershipNumbers, NetworkNumbers, PublicNumbers


def table() -> dict[str, Any]:
    return {
        "run": {"seed": 3},
        "data": {"source": "synthetic", "agents": 6},
        "topology": {"kind": "ring"},
        "learning": {"loss": "logistic", "mu": 1.0, "smoothness": "bound"},
        "clock": {"updates": 5},
        "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 0.5},
        "network": {"loss": 0.1, "delay": "20 ms", "link": [{"from": 0, "to": 1, "loss": 0.5}]},
        "event": [{"fault": "join", "at": 1.0, "target": [1]}, {"fault": "leave", "at": 2.0, "target": [5]}],
    }


@pytest.fixture(scope="module")
def numbers() -> PublicNumbers:
    return replace(prepare(from_table(table())).public(0), run=bytes(range(16)), digest=bytes(range(32)))


def test_they_are_read_as_they_were_written(numbers: PublicNumbers) -> None:
    document = json.dumps(numbers.to_json(), allow_nan=False)
    assert PublicNumbers.from_json(json.loads(document)) == numbers
    assert numbers.membership == MembershipNumbers(joining=(1,), leaving=(5,))
    assert numbers.budget == (2.0, 1e-3)
    assert len(numbers.multipliers) == 5


def test_conditions_of_links_stand_beside_the_other_settings(numbers: PublicNumbers) -> None:
    document = numbers.to_json()["network"]
    assert document["loss"] == 0.1
    assert document["repeat"] == numbers.network.repeat == 0.5
    read = NetworkNumbers.from_json(document)
    weather = conditions(read.conditions, numbers.seed)
    assert not weather.calm
    assert read.conditions["link"][0]["loss"] == 0.5


@pytest.mark.parametrize("key", ["mechanism", "multipliers", "clip", "budget", "releases", "network", "run", "digest"])
def test_what_protects_the_data_has_no_default(numbers: PublicNumbers, key: str) -> None:
    document = {name: value for name, value in numbers.to_json().items() if name != key}
    with pytest.raises((KeyError, TypeError)):
        PublicNumbers.from_json(document)


def test_a_shard_of_an_earlier_version_may_lack_what_came_later(numbers: PublicNumbers) -> None:
    document = {name: value for name, value in numbers.to_json().items() if name not in {"membership", "skew"}}
    read = PublicNumbers.from_json(document)
    assert (read.membership, read.skew) == (MembershipNumbers(), 0.0)


def test_every_number_is_written(numbers: PublicNumbers) -> None:
    assert set(numbers.to_json()) == {own.name for own in fields(PublicNumbers)}
    assert np.all(np.isfinite(numbers.weights))
