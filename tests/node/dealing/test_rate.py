"""``privacy.r = "theory"``: the rate of the allocation from the convergence rate, on public numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanisms import Gaussian
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing.preparation import prepare


def table(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "run": {"seed": 2},
        "data": {"source": "synthetic", "agents": 5, "dimension": 3, "records": [5, 20]},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "coordinate-descent", "mu": 2.0, "smoothness": 1.0},
        "clock": {"updates": 40},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    }
    made["privacy"] |= {"allocation": "increasing", "r": "theory"}
    for path, value in changes.items():
        section, _, key = path.partition("__")
        made[section][key] = value
    return made


def test_the_rate_is_what_n_updates_of_the_network_keep() -> None:
    prepared = prepare(from_table(table()))
    records = np.array([len(shard.y) for shard in prepared.dealt.shards])
    confidence = records / records.max()
    # A ring with weights 1: D_ii = 2. The smoothness of a step has 2 lambda_i added, lambda_i = 1 / m_i.
    largest = (2 * (1 + 2.0 * confidence * (1.0 + 2 / records))).max()
    convexity = (2.0 * 2 * confidence * 2 / records).min()
    rate = (1 - convexity / (5 * largest)) ** 5
    assert prepared.configuration.privacy.r == pytest.approx(rate)
    multipliers = prepared.multipliers
    assert multipliers[0] / multipliers[1] == pytest.approx(rate ** (-1 / 4))
    spent = total([Gaussian(1.0, m) for m in multipliers], 1e-3)
    assert 1.0 - 1e-4 < spent.epsilon <= 1.0


def test_the_rate_rests_on_no_record() -> None:
    prepared = prepare(from_table(table()))
    dealt = prepared.dealt
    for shard in dealt.shards:
        shard.x[:] = 0.5 * shard.x[::-1]
    assert prepare(from_table(table()), dealt=dealt).configuration.privacy.r == prepared.configuration.privacy.r


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning__regularisation": 0.0}, "learning.regularisation = 0"),
        ({"privacy__r": "theories"}, "privacy.r"),
        ({"privacy__r": 1.5}, "privacy.r = 1.5"),
        ({"privacy__allocation": "uniform"}, "has no rate"),
        ({"learning__algorithm": "averaging"}, "no theorem gives averaging a rate"),
    ],
)
def test_what_has_no_rate_is_refused(changes: dict[str, Any], words: str) -> None:
    made, lenient = table(**changes), "learning__algorithm" in changes
    if lenient:
        made["learning"] = {"algorithm": "averaging", "step": 0.1}
    with pytest.raises(ConfigurationError, match=words):
        prepare(from_table(made, lenient=lenient))
