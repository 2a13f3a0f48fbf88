"""Averaging of local models with Gaussian noise in their objective: charge, budget, noise, attack, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.averages.averaging import Averaging
from coordinator_free.agents.personal.anchors import Anchor, AnchorSettings
from coordinator_free.agents.personal.warm_start import WarmStart
from coordinator_free.attacks import perturbed_objectives as objective
from coordinator_free.attacks.bounds import attacked
from coordinator_free.attacks.inversion import noised_part
from coordinator_free.attacks.likelihood_ratio import FreshNoise
from coordinator_free.attacks.noise_tests import NoiseRow, examine
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.gaussian_objective_perturbation import (
    GaussianObjectivePerturbation,
    gaussian_objective_epsilon,
)
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import SQUARED
from coordinator_free.problem.regularisers import SQUARE
from coordinator_free.settings import SettingError
from node.cli import main
from tests.helpers.averages_networks import complete, problems, run, settings

EPSILON, DELTA, REGULARISATION = 1.0, 1e-3, 2.0
SHAPE = {"loss": "logistic", "clip": 1.0, "step": 1.0}
OWN = {"local": "objective-perturbation", "anchor_regularisation": REGULARISATION}


def bought(epsilon: float = EPSILON, **more: Any) -> np.ndarray:
    found = Averaging.calibrate("gaussian", 1, epsilon, DELTA, {**SHAPE, **OWN, **more}, 3)
    assert found is not None
    return found


def made(agents: int, records: int = 12, epsilon: float = EPSILON, **more: Any) -> list[Setting]:
    local = problems(agents, [records] * agents)
    given = {"mechanism": "gaussian", "clip": 1.0, "multipliers": bought(epsilon), **more}
    return [
        replace(s, learning={**s.learning, **OWN}) for s in settings(Averaging, complete(agents), local, 1, **given)
    ]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_charge_spends_the_budget_by_the_bound_and_is_never_more_generous(epsilon: float) -> None:
    for setting in made(3, epsilon=epsilon):
        charge = Averaging(setting).charge(0)
        assert isinstance(charge, GaussianObjectivePerturbation)
        assert charge.sensitivity == 2.0 / 12
        assert charge.jacobian == pytest.approx(np.log1p(0.25 / (2.0 * REGULARISATION)), rel=1e-12)
        bound = gaussian_objective_epsilon(DELTA, charge.sensitivity, charge.scale, charge.jacobian)
        assert bound * (1.0 - 1e-10) <= total([charge], DELTA).epsilon <= epsilon
        assert bound == pytest.approx(epsilon, rel=1e-6)


def rounds_of(setting: Setting, agent: Averaging, release: Any) -> list[objective.Round]:
    curvature, mechanism = Anchor(setting, AnchorSettings.of(setting.learning)).perturbation()
    first = replace(release, vector=noised_part(agent, release))
    return [objective.Round(first, curvature, np.zeros(3), SQUARE, mechanism)]


@pytest.mark.parametrize("way", [{}, {"aggregation": "push-sum", "push_rounds": 9}])
def test_the_noise_in_the_objective_is_the_charged_one_and_half_of_it_is_flagged(way: dict[str, Any]) -> None:
    settled = made(24, **way)
    agents = [Averaging(s) for s in settled]
    said = {r.sender: r for r in run(agents, complete(24)).releases if r.index == 0}
    rows: list[NoiseRow] = []
    for i, (setting, agent) in enumerate(zip(settled, agents, strict=True)):
        observed = rounds_of(setting, agent, said[i])
        drawn = observed[0].mechanism.noise(3, Stream(setting.secret, 0))
        assert observed[0].remainder(setting.problem, 1.0) == pytest.approx(drawn, abs=2.0**-20)
        rows += objective.noise_rows(i, setting.problem, 1.0, observed)
    assert examine(rows).ok
    assert examine([replace(row, noise=row.noise / 2.0) for row in rows]).p_value < 1e-6


def test_an_agent_that_draws_half_the_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GaussianObjectivePerturbation.noise
    settled = made(24)
    agents = [Averaging(s) for s in settled]
    with monkeypatch.context() as patch:
        patch.setattr(GaussianObjectivePerturbation, "noise", lambda m, d, s: honest(m, d, s) / 2.0)
        said = {r.sender: r for r in run(agents, complete(24)).releases if r.index == 0}
    rows: list[NoiseRow] = []
    for i, (setting, agent) in enumerate(zip(settled, agents, strict=True)):
        rows += objective.noise_rows(i, setting.problem, 1.0, rounds_of(setting, agent, said[i]))
    verdict = examine(rows)
    assert verdict.p_value < 1e-6
    assert any("scale" in line for line in verdict.findings)


def test_attacked_stays_below_accounted() -> None:
    """4,000 trials at confidence 0.999; the same attack on a tenth of the noise shows more than the claim."""
    setting = made(3, records=4)[0]
    agent = Averaging(setting)
    said = agent.start()
    assert said is not None
    observed = rounds_of(setting, agent, said)
    change, attained = objective.worst_replacement(setting, 1.0, observed, row_bound=1.0)
    assert 0.0 < attained <= 1.0
    shown = []
    for share in (1.0, 0.1):
        mechanism = replace(observed[0].mechanism, scale=share * observed[0].mechanism.scale)
        scores = objective.objective_scores(
            setting, 1.0, [replace(observed[0], mechanism=mechanism)], change, 4000, FreshNoise(bytes(range(32)))
        )
        shown.append(attacked(*scores, DELTA, 0.999).epsilon)
    assert shown[0] <= EPSILON < shown[1]


def test_what_the_bound_does_not_cover_is_refused_in_one_line() -> None:
    with pytest.raises(SettingError, match=r"anchor_regularisation = 2: .* accepted: above 2.*") as caught:
        bought(epsilon=0.06)
    assert "\n" not in str(caught.value)
    bought(epsilon=0.06, anchor_regularisation=2.1)
    setting = made(3)[0]
    with pytest.raises(SettingError, match="a row is longer"):
        Averaging(replace(setting, clip=0.5))
    with pytest.raises(SettingError, match="unbounded"):
        Averaging(replace(setting, problem=replace(setting.problem, loss=SQUARED)))
    with pytest.raises(SettingError, match="gaussian, gamma-norm"):
        Averaging(replace(setting, mechanism="laplace"))
    with pytest.raises(SettingError, match='observer = "releases" only'):
        Averaging(replace(setting, learning={**setting.learning, "observer": "as_published"}))
    learning = {**setting.learning, "anchor": "objective-perturbation", "mu": 1.0, "warm_epsilon": 0.5}
    with pytest.raises(SettingError, match="single release"):
        WarmStart(replace(setting, learning=learning, updates=12, multipliers=np.ones(12)))


CONFIGURATION = """
[data]
source = "synthetic"
agents = 4
dimension = 3
records = [9, 9]
[topology]
kind = "complete"
[learning]
algorithm = "averaging"
local = "objective-perturbation"
step = 1.0
smoothness = 1.0
[privacy]
mechanism = "gaussian"
epsilon = 0.1
delta = 1e-3
clip = 2.0
"""


def test_a_budget_below_what_the_jacobian_loses_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.toml").write_text(CONFIGURATION)
    with pytest.raises(SystemExit) as stop:
        main(["run", str(tmp_path / "c.toml"), "--world", "twin", "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "learning.anchor_regularisation = 1: " in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()
