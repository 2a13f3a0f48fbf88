"""Which attacker a run gets: by what its algorithm declares, and by the settings that hide its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.registry import KNOWN, algorithm
from coordinator_free.algorithm import Attack
from coordinator_free.attacks.attacker import Attacker, Observed
from coordinator_free.attacks.charges import Account
from coordinator_free.attacks.families import (
    _FAMILIES,
    CoordinateSteps,
    LocalSteps,
    MaskedSums,
    Minimisers,
    Objectives,
    PerturbedAnchors,
    attacker,
)
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem

CHOSEN: list[tuple[str, dict[str, Any], type[Attacker]]] = [
    ("admm", {}, Minimisers),
    ("m-admm", {}, Minimisers),
    ("pvp", {}, Minimisers),
    ("dvp", {}, Objectives),
    ("pp", {}, Objectives),
    ("coordinate-descent", {}, CoordinateSteps),
    ("warm-start", {}, Attacker),
    ("gossip-admm", {}, Attacker),
    ("graph-smoothing", {}, Attacker),
    ("graph-smoothing-2r", {}, Attacker),
    ("propagation", {}, Attacker),
    ("propagation", {"anchor": "output-perturbation"}, Attacker),
    ("propagation", {"anchor": "objective-perturbation"}, PerturbedAnchors),
    ("gradient-descent", {}, Attacker),
    ("gradient-descent", {"aggregation": "push-sum"}, Attacker),
    ("gradient-descent", {"aggregation": "masked-sum"}, MaskedSums),
    ("averaging", {}, LocalSteps),
    ("averaging", {"local": "output-perturbation"}, LocalSteps),
    ("averaging", {"local": "objective-perturbation"}, PerturbedAnchors),
    ("averaging", {"aggregation": "masked-sum"}, MaskedSums),
]


@pytest.mark.parametrize(("name", "learning", "family"), CHOSEN)
def test_the_attacker_is_the_one_of_the_algorithm_and_its_settings(name, learning, family):
    problem = LocalProblem(np.eye(2), np.ones(2), LOGISTIC, 0.1)
    setting = Setting(0, (1,), np.ones(1), problem, 2, 3, {"step": 1.0, **learning})
    observed = Observed(algorithm(name), setting, [], {}, Account([]))
    assert type(attacker([observed], bytes(32))) is family


def test_every_algorithm_and_every_way_to_attack_is_covered():
    assert {name for name, _, _ in CHOSEN} == set(KNOWN)
    assert set(_FAMILIES) == set(Attack)
