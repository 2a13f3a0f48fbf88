"""Model propagation and its anchors: fixed point, sensitivities, charges, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.agents.personal.propagation import Propagation, propagated
from coordinator_free.privacy.accounting import calibrate, total
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.settings import SettingError
from coordinator_free.twin.reexecution import reexecute
from coordinator_free.twin.run import run_asynchronous

BOUND = 2.0  # rows in [-1, 1]^3 have an L2 norm below 1.74


def test_it_reaches_the_solution_of_its_linear_system(regular, problems, team) -> None:
    network = regular(12, 4)
    made = problems(12, 3, LOGISTIC, empty=True)
    agents = team("propagation", network, made, updates=400, learning={"mu": 0.5})
    said = run_asynchronous(agents, network, rate=1.0, seed=1).releases
    anchors = np.stack([release.vector for release in said if release.index == 0])
    order = [release.sender for release in said if release.index == 0]
    anchors = anchors[np.argsort(order)]
    assert anchors == pytest.approx(np.stack([problem.minimiser() for problem in made]))
    confidences = np.maximum([p.records / max(q.records for q in made) for p in made], 0.01)
    degrees, weights = np.diag(network.degrees), network.weights.toarray()
    pulls = 0.5 * degrees @ np.diag(confidences)
    exact = np.linalg.solve(degrees - weights + pulls, pulls @ anchors)
    reached = np.stack([agent.model for agent in agents])
    assert np.abs(reached - exact).max() < 1e-10
    assert np.abs(propagated(network, anchors, confidences, 0.5) - exact).max() < 1e-12


def private(team, network, made, anchor: str, mechanism: str = "gaussian", multiplier: float = 2.0, **learning):
    return team(
        "propagation",
        network,
        made,
        updates=20,
        learning={"mu": 0.5, "anchor": anchor, **learning},
        mechanism=mechanism,
        multipliers=np.array([multiplier]),
        clip=BOUND,
    )


@pytest.mark.parametrize(
    ("anchor", "mechanism"),
    [
        ("gradient", "gaussian"),
        ("gradient", "laplace"),
        ("output-perturbation", "gaussian"),
        ("output-perturbation", "gamma-norm"),
        ("objective-perturbation", "gamma-norm"),
    ],
)
def test_only_the_anchor_is_charged_and_a_restart_never_draws_it_again(
    anchor: str, mechanism: str, regular, problems, team
) -> None:
    network = regular(6, 3)
    made = problems(6, 3, LOGISTIC, empty=True)
    agents = private(team, network, made, anchor, mechanism)
    assert [agents[0].charge(k) for k in range(3)] == [None] * 3  # no records
    for agent in agents[1:]:
        assert agent.charge(0) is not None
        assert agent.charge(0).multiplier == pytest.approx(2.0)
        assert [agent.charge(k) for k in range(1, 20)] == [None] * 19
    said = run_asynchronous(agents, network, rate=1.0, seed=0).releases
    first = {release.sender: release.vector for release in said if release.index == 0}
    for vector in first.values():
        assert (vector / GRID == np.rint(vector / GRID)).all()
    again = private(team, network, made, anchor, mechanism)[2]
    again.restore({}, 1)
    alone = again.wake().vector
    pull = again._pull
    assert alone.tobytes() == ((np.zeros(3) + pull * first[2]) / (1 + pull)).tobytes()


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    ("anchor", "mechanism"), [("output-perturbation", "gamma-norm"), ("objective-perturbation", "gamma-norm")]
)
def test_a_calibrated_anchor_costs_the_budget_and_not_more(
    anchor: str, mechanism: str, delta: float, regular, problems, team
) -> None:
    bought = Propagation.calibrate(mechanism, 20, 1.0, delta, {"anchor": anchor}, 3)
    if bought is None:
        bought = calibrate(mechanism, 1, 1.0, delta, dimension=3)
    made = problems(6, 3, LOGISTIC)
    agents = private(team, regular(6, 3), made, anchor, mechanism, multiplier=float(bought[0]))
    for agent in agents:
        assert 0.999 < total([agent.charge(0)], delta).epsilon <= 1.0


def test_it_is_executed_again_bit_for_bit(regular, problems, team) -> None:
    network = regular(6, 3)
    made = problems(6, 3, LOGISTIC)
    said = run_asynchronous(private(team, network, made, "gradient"), network, rate=1.0, seed=0).releases
    everything = {(release.sender, release.index): release for release in said}
    fresh = private(team, network, made, "gradient")
    for i, agent in enumerate(fresh):
        assert reexecute(agent, everything, [release for release in said if release.sender == i]) is None


@pytest.mark.parametrize(("anchor", "mechanism"), [("gradient", "laplace"), ("output-perturbation", "gaussian")])
@pytest.mark.parametrize("seed", range(20))
def test_a_replaced_record_moves_the_anchor_by_its_sensitivity_at_most(
    anchor: str, mechanism: str, seed: int, regular, problems, team
) -> None:
    network = regular(6, 3)
    made = problems(6, 3, LOGISTIC, seed=seed)
    setting = private(team, network, made, anchor, mechanism, anchor_regularisation=0.5)[0]._setting
    random = np.random.default_rng(seed)
    x, y = made[0].x.copy(), made[0].y.copy()
    x[0] = random.normal(size=3)
    x[0] *= BOUND / np.linalg.norm(x[0])
    y[0] = -y[0]
    other = replace(setting, problem=LocalProblem(x, y, LOGISTIC, made[0].regularisation))
    own = AnchorSettings.of(setting.learning)
    one, two = (Anchor(replace(s, multipliers=np.array([1e-9])), own) for s in (setting, other))
    moved = np.linalg.norm(one.vector(one.charge()) - two.vector(two.charge()), ord=1 if mechanism == "laplace" else 2)
    assert 0 < moved <= one.charge().sensitivity


def test_the_sensitivity_of_a_local_model_is_nearly_attained() -> None:
    """One record of the largest norm in each direction: the bound clip / (lambda m) is not a loose one."""
    from coordinator_free.agent import Setting

    def anchor(sign: float) -> Anchor:
        problem = LocalProblem(np.array([[BOUND]]), np.array([sign]), LOGISTIC, 1.0)
        return Anchor(
            Setting(
                agent=0,
                neighbours=(1,),
                weights=np.ones(1),
                problem=problem,
                dimension=1,
                updates=1,
                learning={},
                mechanism="gaussian",
                multipliers=np.array([1e-6]),
                clip=BOUND,
                secret=bytes(32),
            ),
            AnchorSettings(anchor="output-perturbation", anchor_regularisation=100.0),
        )

    one, two = anchor(1.0), anchor(-1.0)
    # |theta| is about slope(0) R / (2 lambda) = 1/2 R / (2 lambda); the bound takes slope 1, twice as much.
    assert abs(one.vector(one.charge()) - two.vector(two.charge()))[0] == pytest.approx(
        one.charge().sensitivity / 2, rel=0.03
    )


@pytest.mark.parametrize(
    ("anchor", "mechanism", "judge", "message"),
    [
        ("local", "gaussian", LOGISTIC, "unprotected local models"),
        ("output-perturbation", "laplace", LOGISTIC, "accepts gaussian, gamma-norm"),
        ("objective-perturbation", "laplace", LOGISTIC, "accepts gaussian, gamma-norm"),
        ("output-perturbation", "gaussian", SQUARED, "unbounded"),
        ("anything", "gaussian", LOGISTIC, "accepted: .*gradient"),
    ],
)
def test_what_would_not_be_private_is_refused(
    anchor: str, mechanism: str, judge, message: str, regular, problems, team
) -> None:
    with pytest.raises(SettingError, match=message):
        private(team, regular(6, 3), problems(6, 3, judge), anchor, mechanism)


def test_rows_longer_than_the_public_bound_are_refused_without_their_length(regular, problems, team) -> None:
    made = problems(6, 3, LOGISTIC)
    longest = np.linalg.norm(made[0].x, axis=1).max()
    setting = private(team, regular(6, 3), made, "output-perturbation")[0]._setting
    with pytest.raises(SettingError, match="a row is longer than") as caught:
        Propagation(replace(setting, clip=0.9 * longest))
    assert f"{longest:.3g}" not in str(caught.value)


def test_a_local_start_of_coordinate_descent(regular, problems, team) -> None:
    network = regular(6, 3)
    made = problems(6, 3, LOGISTIC)
    agents = team("coordinate-descent", network, made, updates=3, learning={"mu": 1.0, "start": "local"})
    said = run_asynchronous(agents, network, rate=1.0, seed=0).releases
    assert [release.sender for release in said[:6]] == list(range(6))
    for release in said[:6]:
        assert release.vector.tobytes() == made[release.sender].minimiser().tobytes()
    assert len(said) == 18
    with pytest.raises(SettingError, match="unprotected local models"):
        team(
            "coordinate-descent",
            network,
            made,
            updates=3,
            learning={"mu": 1.0, "start": "local"},
            mechanism="gaussian",
            multipliers=np.ones(3),
            clip=1.0,
        )
