"""The free finish around an average: what an agent knows of its noise, and what becomes of it after a restart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.averages.averaging import Averaging
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.problem.losses import SQUARED
from coordinator_free.problem.objective import LocalProblem
from tests.helpers.averages_networks import complete, run, settings

SIZES = [20, 40, 30, 60]
STAGES = 200
WAYS = [
    ("gaussian", "flood", {}),
    ("gaussian", "flood", {"weighting": "equal"}),
    ("laplace", "flood", {}),
    ("gamma-norm", "flood", {}),
    ("gaussian", "flood", {"observer": "as_published"}),
    ("gaussian", "masked-sum", {"observer": "sum", "colluders": 1}),
    ("gaussian", "masked-sum", {"observer": "sum", "weighting": "equal"}),
]


def _silent(dimension: int = 3) -> list[LocalProblem]:
    """Agents whose every gradient is zero: an average is its noise."""
    return [LocalProblem(np.zeros((m, dimension)), np.zeros(m), SQUARED, 0.0) for m in SIZES]


@pytest.mark.thorough
@pytest.mark.parametrize(("mechanism", "way", "more"), WAYS)
def test_the_known_deviation_is_that_of_the_noise_in_averages(mechanism: str, way: str, more: dict[str, Any]) -> None:
    """600 numbers: a deviation that is wrong by 15% is five standard errors away."""
    graph = complete(4)
    noise = {"mechanism": mechanism, "multipliers": np.full(STAGES, 2.0), "clip": 0.5}
    made = settings(GradientDescent, graph, _silent(), STAGES, aggregation=way, step=1e-3, **noise, **more)
    agents = [GradientDescent(setting) for setting in made]
    steps = [np.zeros(3)]
    apply = agents[0]._apply

    def watched(stage: int, average: np.ndarray) -> None:
        steps.append(average)
        apply(stage, average)

    agents[0]._apply = watched  # type: ignore[method-assign]
    run(agents, graph)
    known = agents[0]._deviations
    assert np.ptp(known) == 0.0
    assert known[0] == pytest.approx(np.std(steps[1:]), rel=0.15)
    assert all((agent._deviations == known).all() for agent in agents)


@pytest.mark.parametrize("iterate", ["last", "tail"])
def test_what_was_heard_is_as_uncertain_as_it_says(iterate: str) -> None:
    """Models of 100 runs with zero gradients, in 3 numbers: their variance is what the finish reckons with."""
    graph, found, known = complete(4), [], 0.0
    for trial in range(100):
        noise = {"mechanism": "gaussian", "multipliers": np.full(7, 2.0), "clip": 0.5}
        made = settings(GradientDescent, graph, _silent(), 7, iterate=iterate, step=0.5, **noise)
        secrets = [trial.to_bytes(4, "big") + bytes([i]) * 28 for i in range(4)]
        agents = [
            GradientDescent(type(s)(**{**vars(s), "secret": secret})) for s, secret in zip(made, secrets, strict=True)
        ]
        run(agents, graph)
        heard = agents[0]._heard()
        known = float(np.mean(heard.variance))  # type: ignore[arg-type]
        found.append(agents[0].model)
    assert known == pytest.approx(np.var(found), rel=0.3)


@pytest.mark.parametrize("kind", [Averaging, GradientDescent])
def test_a_finish_by_evidence_is_the_same_after_a_restart(kind: type[Any]) -> None:
    random = np.random.default_rng(1)
    local = []
    for m in SIZES:
        x = random.normal(size=(m, 3)) / 3.0
        local.append(LocalProblem(x, x @ np.array([1.0, 0.5, 0.0]) + 0.1 * random.normal(size=m), SQUARED, 0.01))
    graph = complete(4)
    noise = {"mechanism": "gaussian", "multipliers": np.full(kind.charged(5), 2.0), "clip": 0.5}
    made = settings(kind, graph, local, 5, local_steps=5, finish=True, **noise)
    agents = [kind(setting) for setting in made]
    said = run(agents, graph)
    finishes = [agent.finish() for agent in agents]
    assert all(not np.array_equal(agent.model, finish) for agent, finish in zip(agents, finishes, strict=True))
    last = max(release.index for release in said.releases)
    again = kind(made[0])
    again.start()
    for index in range(last + 1):
        state = again.snapshot()
        again = kind(made[0])
        again.restore(state, index + 1)
        for release in said.releases:
            if release.index == index and release.sender != 0:
                again.receive(release)
        if index < last:
            again.wake()
    assert again.finished
    np.testing.assert_array_equal(again.finish(), finishes[0])
