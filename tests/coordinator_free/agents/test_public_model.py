"""Agents whose noise follows the model that they released."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.algorithm import Algorithm
from coordinator_free.attacks.charges import Account, Charge, check_charges
from coordinator_free.attacks.inversion import in_force, invert
from coordinator_free.attacks.likelihood_ratio import Replacement
from coordinator_free.attacks.noise_tests import NoiseRow, examine
from coordinator_free.attacks.recorded_states import shifts
from coordinator_free.privacy import noise
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.privacy.mechanisms import Gaussian
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.problem.public_model import PublicModelSensitivity
from coordinator_free.release import Release
from coordinator_free.twin.reexecution import reexecute
from coordinator_free.twin.run import run_asynchronous, run_rounds
from coordinator_free.twin.vectorised import Crowd, Noise, run_coordinate_descent
from tests.helpers import averages_networks
from topology.families import build

UPDATES = 12
NETWORK = build("ring", 4, 0)
LEARNING = {"mu": 4.0, "smoothness": 0.3}


def settings(mechanism: str = "gaussian", multiplier: float = 0.3, **others: object) -> list[Setting]:
    random = np.random.default_rng(3)
    made = []
    for agent in range(4):
        x = random.normal(size=(8, 3))
        x /= np.abs(x).sum(axis=1, keepdims=True)
        problem = LocalProblem(x, np.sign(random.normal(size=8)), LOGISTIC, 0.01)
        given = {"clip": 1.0, "row_bound": 1.0, "secret": bytes([agent + 1]) * 32} | others
        made.append(
            Setting(
                agent=agent,
                neighbours=NETWORK.neighbours(agent),
                weights=NETWORK.weights_of(agent),
                problem=problem,
                dimension=3,
                updates=UPDATES,
                learning=LEARNING,
                mechanism=mechanism,
                multipliers=np.full(UPDATES, multiplier),
                **given,  # type: ignore[arg-type]
            )
        )
    return made


def recorded(made: list[Setting]) -> dict[tuple[int, int], Release]:
    transcript = run_asynchronous([CoordinateDescent(one) for one in made], NETWORK, rate=1.0, seed=1)
    return {(release.sender, release.index): release for release in transcript.releases}


def of(heard: dict[tuple[int, int], Release], agent: int) -> list[Release]:
    return [heard[key] for key in sorted(heard) if key[0] == agent]


@pytest.mark.parametrize("family", ["gaussian", "laplace", "gamma-norm"])
def test_the_scale_is_a_function_of_the_own_last_release_alone(family: str) -> None:
    made = settings(family)
    heard = recorded(made)
    norm = "l1" if family == "laplace" else "l2"
    step = 1.0 / (1.0 + 4.0 * 0.3)
    sensitivities = set()
    for agent, one in enumerate(made):
        code = CoordinateDescent(one)
        before = np.zeros(3)
        moved = PublicModelSensitivity(LOGISTIC, 1.0, norm, 1.0)
        for row in invert(CoordinateDescent(one), of(heard, agent), heard):
            assert row.mechanism == mechanism(family, step * 4.0 * moved.at(before) / 8, 0.3, 3)
            planned = code.charge(row.release.index)
            assert planned is not None
            assert row.mechanism.multiplier == pytest.approx(planned.multiplier, rel=1e-12)
            assert row.mechanism.sensitivity <= planned.sensitivity
            sensitivities.add(row.mechanism.sensitivity)
            before = row.release.vector
        assert reexecute(CoordinateDescent(one), heard, of(heard, agent)) is None
    assert len(sensitivities) > 5
    assert max(sensitivities) > 1.1 * min(sensitivities)


def test_what_neighbours_send_does_not_matter_to_the_scale() -> None:
    """Vectors beyond what a receiver uses, of any size: before the first own release and after it."""
    quiet, loud = (CoordinateDescent(settings()[0]) for _ in range(2))
    for agent, size in ((quiet, 0.0), (loud, 1e9)):
        for j in NETWORK.neighbours(0):
            agent.receive(Release(j, 0, np.full(3, size), ()))
    assert quiet.made_with(0) == loud.made_with(0)
    first = loud.wake()
    assert first is not None
    assert loud.made_with(1) == loud.charge(1)  # its own release is long now, and so is the bound
    loud.restore({"model": np.zeros(3), "index": np.array([0.0])}, 1)
    assert loud.made_with(1) == quiet.made_with(0)


def test_no_replaced_record_moves_a_release_further_than_its_sensitivity() -> None:
    random = np.random.default_rng(5)
    made = settings()
    heard = recorded(made)
    planned = [CoordinateDescent(made[0]).charge(index) for index in range(UPDATES)]
    attained = 0.0
    for _ in range(30):
        x = random.normal(size=3) * 10.0  # the agent shortens it to the public bound
        change = Replacement(int(random.integers(8)), x, float(random.choice([-1.0, 1.0])))
        found = shifts(CoordinateDescent, made[0], change, of(heard, 0), heard, planned)
        for shift, used in zip(found.shifts, found.mechanisms, strict=True):
            assert used is not None
            assert float(np.sqrt(shift @ shift)) <= used.sensitivity
            attained = max(attained, float(np.sqrt(shift @ shift)) / used.sensitivity)
    assert attained > 0.7


def noise_rows(made: list[Setting], heard: dict[tuple[int, int], Release], scale: float) -> list[NoiseRow]:
    rows = []
    for agent, one in enumerate(made):
        for row in invert(CoordinateDescent(one), of(heard, agent), heard):
            assert row.mechanism is not None
            noise = np.rint(row.noise * scale / GRID) * GRID
            rows.append(NoiseRow(agent, row.release.index, noise, row.mechanism, drift=row.exact))
    return rows


def test_a_halved_scale_is_caught_whatever_the_ledger_says() -> None:
    made = settings()
    heard = recorded(made)
    assert examine(noise_rows(made, heard, 1.0)).ok
    halved = examine(noise_rows(made, heard, 0.5))
    assert not halved.ok
    assert halved.p_value < 1e-6
    # A ledger that names half the sensitivity, at the same multiplier, does not excuse the half noise.
    planned = CoordinateDescent(made[0]).charge(0)
    assert planned is not None
    asked = next(iter(invert(CoordinateDescent(made[0]), of(heard, 0), heard))).mechanism
    half = replace(planned, sensitivity=planned.sensitivity / 4, scale=planned.scale / 4)  # type: ignore[type-var]
    assert in_force(half, asked) == asked
    other = replace(planned, scale=planned.scale / 2)  # type: ignore[type-var]
    assert in_force(other, asked) == other


def test_the_audit_of_a_ledger_accepts_a_smaller_sensitivity_where_the_agent_follows_its_model() -> None:
    made = settings()
    heard = recorded(made)
    code = CoordinateDescent(made[0])
    expected = {index: code.charge(index) for index in range(UPDATES)}
    rows = invert(CoordinateDescent(made[0]), of(heard, 0), heard)
    spent = total([code.charge(0)] * UPDATES, 1e-5).epsilon
    exact = Account([Charge(k, k, row.mechanism) for k, row in enumerate(rows)], budget=(spent * 1.001, 1e-5))
    assert code.follows_its_model
    assert check_charges(0, of(heard, 0), exact, expected, follows=True) == []
    assert check_charges(0, of(heard, 0), exact, expected, follows=False) != []
    planned = code.charge(0)
    assert planned is not None
    weak = replace(planned, scale=planned.scale / 2)  # type: ignore[type-var]
    wrong = Account([Charge(0, UPDATES - 1, weak)], budget=(100.0, 1e-5))
    findings = check_charges(0, of(heard, 0), wrong, expected, follows=True)
    assert sum("configured is" in finding for finding in findings) == UPDATES


def test_without_a_public_bound_of_rows_nothing_changes() -> None:
    old = CoordinateDescent(settings(row_bound=None)[0])
    assert not old.follows_its_model
    assert old.made_with(0) == old.charge(0) == mechanism("gaussian", 4.0 / 2.2 * 2.0 / 8, 0.3, 3)


def test_the_vectorised_twin_makes_the_same_noise() -> None:
    made = settings()
    agents = [CoordinateDescent(one) for one in made]
    run_asynchronous(agents, NETWORK, rate=1.0, seed=1)
    crowd = run_coordinate_descent(
        NETWORK,
        Crowd.of([one.problem for one in made]),
        confidences=np.ones(4),
        smoothness=np.full(4, 0.3),
        mu=4.0,
        updates=UPDATES,
        rate=1.0,
        seed=1,
        noise=Noise("gaussian", np.full(UPDATES, 0.3), 1.0, [one.secret for one in made], 1.0),
    )
    np.testing.assert_allclose(crowd, np.stack([agent.model for agent in agents]), atol=1e-12)


def gradient_agents(**given: object) -> list[Algorithm]:
    local = averages_networks.problems(3, [6, 8, 10])
    made = averages_networks.settings(
        GradientDescent,
        averages_networks.complete(3),
        local,
        4,
        mechanism="gaussian",
        multipliers=np.full(4, 0.5),
        clip=1.0,
        **given,
    )
    return [GradientDescent(replace(one, row_bound=1.0)) for one in made]


def test_gradient_descent_follows_the_common_model() -> None:
    made = gradient_agents()
    charged = []
    run_rounds(
        made,
        averages_networks.complete(3),
        ledger=lambda release, _: charged.append((release.sender, made[release.sender].made_with(release.index))),
    )
    assert len({m.sensitivity for agent, m in charged if agent == 0 and m is not None}) == 4
    largest = made[0].charge(0)
    assert largest is not None
    for agent, m in charged:
        assert m is not None
        assert m.multiplier == pytest.approx(0.5, rel=1e-12)
        if agent == 0:
            assert 0.49 * largest.sensitivity < m.sensitivity < largest.sensitivity


def test_a_masked_sum_keeps_the_bound_for_all_models() -> None:
    assert not gradient_agents(aggregation="masked-sum", observer="sum", colluders=0)[0].follows_its_model


def test_an_anchor_at_zero_has_half_the_noise() -> None:
    one, own = settings()[0], AnchorSettings(anchor="gradient")
    follows, old = Anchor(one, own).charge(), Anchor(replace(one, row_bound=None), own).charge()
    assert follows is not None
    assert old is not None
    assert follows.sensitivity == pytest.approx(old.sensitivity / 2.0, rel=1e-4)


def test_noise_that_is_drawn_ahead_is_used_whatever_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []
    original = noise._exponential
    monkeypatch.setattr(noise, "_exponential", lambda *given: draws.append(1) or original(*given))
    streams = noise.Streams(bytes(32))
    made = [Gaussian(1.0, 1.0 + k).noise(5, streams[k]) for k in range(16)]
    assert len(draws) == 1
    for k, one in enumerate(made):
        assert (one == Gaussian(1.0, 1.0 + k).noise(5, noise.Stream(bytes(32), k))).all()
