"""Reference numbers: local steps, averages, push-sum, calibration, amplification."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.averages.averaging import Averaging
from coordinator_free.aggregation.push_sum import PushSum
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.privacy.observer import composition, contraction, noise_deviation
from tests.helpers.averages_networks import GOLDEN, complete, problem, run, settings
from topology import families
from topology.network import Network

# The vectors are printed with twelve digits.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


@pytest.mark.parametrize("case", [c for c in GOLDEN["cases"] if not np.any(c["theta0"])])
@pytest.mark.parametrize("weighting", ["size", "equal"])
def test_local_steps_and_their_average(case: dict[str, Any], weighting: str) -> None:
    local = [problem(party, case["lam"]) for party in GOLDEN["parties"]]
    given = {"step": case["eta"], "local_steps": case["T"], "weighting": weighting}
    graph = complete(3)
    agents = [Averaging(s) for s in settings(Averaging, graph, local, 1, **given)]
    said = run(agents, graph)
    for release in said.releases:
        np.testing.assert_allclose(release.vector, case["theta_T"][release.sender], **CLOSE)
    for agent in agents:
        np.testing.assert_allclose(agent.model, case["weighted" if weighting == "size" else "simple"], **CLOSE)


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_each_local_step(case: dict[str, Any]) -> None:
    for party, name in enumerate(GOLDEN["parties"]):
        own, theta = problem(name, case["lam"]), np.array(case["theta0"])
        for expected in case["theta_per_round"][party]:
            theta = theta - case["eta"] * own.gradient(theta)
            np.testing.assert_allclose(theta, expected, **CLOSE)


@pytest.mark.parametrize("example", GOLDEN["path4"]["runs"])
def test_push_sum_on_a_path_of_four(example: dict[str, Any]) -> None:
    graph = families.build("path", 4, 0)
    parts = [PushSum(graph.neighbours(i), 1) for i in range(4)]
    for part, value, weight in zip(parts, example["value"], example["weight"], strict=True):
        part.begin(np.array([float(value * weight)]), float(weight))
    for expected in example["rounds"]:
        _exchange(parts, graph)
        held = np.stack([part.held for part in parts])
        np.testing.assert_allclose(held[:, 0], [float(Fraction(v)) for v in expected["s"]], **CLOSE)
        np.testing.assert_allclose(held[:, 1], [float(Fraction(v)) for v in expected["w"]], **CLOSE)
        np.testing.assert_allclose([part.ratio[0] for part in parts], expected["ratio_float"], **CLOSE)
    for _ in range(300):
        _exchange(parts, graph)
    np.testing.assert_allclose([part.ratio[0] for part in parts], float(Fraction(example["target"])), **CLOSE)


def _exchange(parts: list[PushSum], graph: Network) -> None:
    said = [part.send() for part in parts]
    for i, part in enumerate(parts):
        for j in graph.neighbours(i):
            part.receive(j, said[j])
        part.absorb()


@pytest.mark.parametrize("case", GOLDEN["calibration"])
def test_calibration(case: dict[str, Any]) -> None:
    mu = gaussian_mu(case["eps"], case["delta"])
    assert mu == pytest.approx(case["mu"], rel=1e-9)  # ten digits are printed
    deviation = noise_deviation(case["eps"], case["delta"], 1.0, case["n"], case["T"])
    assert deviation == pytest.approx(case["sigma"], rel=1e-9)


@pytest.mark.parametrize("case", GOLDEN["last_iterate"])
def test_amplification_of_the_last_iterate(case: dict[str, Any]) -> None:
    kept = contraction(case["eta"], case["lam"], 0.25)
    assert kept == pytest.approx(case["c"], rel=1e-11)
    assert composition(case["T"], kept) == pytest.approx(case["factor"], rel=1e-11)
    assert composition(case["T"], kept) < composition(case["T"])
