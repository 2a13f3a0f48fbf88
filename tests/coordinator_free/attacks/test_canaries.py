"""An outsider's stand-in for a shard gives what the real shard gives, in the coordinates of canaries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agents.registry import algorithm
from coordinator_free.attacks.canaries import judge, refusal, stand_in
from coordinator_free.attacks.inversion import invert
from node.audit.evidence import gather
from node.audit.recording import read_recording
from node.folder.canaries import Planted, read_coins
from node.folder.manifest import read_json
from tests.helpers.canary_runs import DESCENT, run_with_canaries

ADMM = {"capacity": 20.0, "rho": 1.0, "penalty": 2.0, "regularisation": 0.1}
SQUARED = {"loss": "squared"}
KINDS = [
    (DESCENT, "gaussian"),
    (DESCENT, "laplace"),
    ({"algorithm": "gradient-descent", "step": 1.0, "smoothness": 1.0}, "gaussian"),
    ({"algorithm": "gradient-descent", "step": 1.0, "smoothness": 1.0} | SQUARED, "gaussian"),
    ({"algorithm": "pvp"} | ADMM, "gaussian"),
    ({"algorithm": "propagation", "mu": 2.5, "anchor": "output-perturbation"}, "gaussian"),
    ({"algorithm": "graph-smoothing"}, "gaussian"),
    ({"algorithm": "graph-smoothing-2r"} | SQUARED, "gaussian"),
    ({"algorithm": "warm-start", "mu": 2.5, "parameters": {"warm_epsilon": 0.5, "warm_updates": 2}}, "gaussian"),
    ({"algorithm": "propagation", "mu": 2.5}, "laplace"),
]


@pytest.mark.parametrize(("learning", "mechanism"), KINDS, ids=lambda value: str(value)[14:34])
def test_the_exact_values_of_a_stand_in_are_those_of_the_shard(tmp_path, learning, mechanism):
    folder = run_with_canaries(tmp_path / "run", learning, mechanism=mechanism, clip=3.0)
    evidence = gather(read_recording(folder), b"sixteen bytes or more")
    planted = Planted.from_json(read_json(folder / "canaries.json"))
    sides = read_coins(folder / "coins.json").sides
    columns = sorted({c.column for c in planted.canaries})
    for observed in evidence.agents[:3]:
        setting = observed.setting
        own = [(c, side) for c, side in zip(planted.canaries, sides, strict=True) if c.agent == setting.agent]
        known = stand_in(setting, setting.problem.records, [c for c, _ in own], [side for _, side in own])
        real = invert(observed.code(), observed.recorded, observed.heard)
        outside = replace(observed, setting=known)
        for one, other in zip(real, invert(outside.code(), observed.recorded, observed.heard), strict=True):
            if one.mechanism is not None:
                np.testing.assert_allclose(other.exact[columns], one.exact[columns], atol=1e-7)
        found = judge(outside, [c for c, _ in own], columns)
        assert found.noise
        assert all(row.noise.size == len(columns) for row in found.noise)
        assert (found.shares > 0.3).all()
        assert (found.shares < 1.0 + 1e-6).all()


@pytest.mark.parametrize(
    ("name", "learning", "mechanism", "why"),
    [
        ("dvp", {}, "gaussian", "noise in objectives"),
        ("pvp", {"last_round": "dvp"}, "gaussian", "noise in objectives"),
        ("averaging", {"step": 0.1}, "gaussian", "noisy local steps"),
        ("gradient-descent", {"step": 0.1, "aggregation": "masked-sum"}, "gaussian", "masked sums"),
        ("pvp", {}, "gamma-norm", "independent in each coordinate"),
        ("warm-start", {"warm_mechanism": "gamma-norm"}, "gaussian", "independent in each coordinate"),
        ("coordinate-descent", {}, "none", "independent in each coordinate"),
    ],
)
def test_kinds_of_runs_whose_canaries_cannot_be_judged_exactly_are_refused(name, learning, mechanism, why):
    refused = refusal(algorithm(name), learning, mechanism)
    assert refused is not None
    assert why in refused
