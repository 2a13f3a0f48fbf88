"""A loss with a regulariser of its own is refused where exact minimisers take the square: it would be ignored."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_free.agent import Setting
from coordinator_free.agents.registry import KNOWN, make
from coordinator_free.problem.losses import Logistic
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from coordinator_free.settings import SettingError


class Steeper(Logistic):
    """Logistic, with twice the square as regulariser."""

    name = "steeper"

    def penalty_gradient(self, theta: FloatArray) -> FloatArray:
        return 4.0 * theta


def setting(**learning: object) -> Setting:
    problem = LocalProblem(np.eye(2), np.array([1.0, -1.0]), Steeper(), 0.1)
    return Setting(0, (1,), np.ones(1), problem, 2, 3, {"agents": 2, "smoothness": 1.0, **learning})


@pytest.mark.parametrize("name", ["admm", "m-admm", "pvp", "dvp", "pp"])
def test_the_admm_family_refuses_it(name: str) -> None:
    assert name in KNOWN
    with pytest.raises(ValueError, match=r'learning\.loss = "steeper": its own regulariser would change nothing'):
        make(name, setting(rho=1.0, penalty=1.0, capacity=1.0))


@pytest.mark.parametrize("anchor", ["output-perturbation", "objective-perturbation"])
def test_anchors_that_are_minimisers_refuse_it(anchor: str) -> None:
    with pytest.raises(SettingError, match=r'learning\.loss = "steeper": .* takes the square'):
        make("propagation", setting(mu=1.0, anchor=anchor))


def test_others_use_it() -> None:
    problem = setting().problem
    model = np.array([1.0, 2.0])
    plain = LocalProblem(problem.x, problem.y, Logistic(), 0.1)
    assert problem.gradient(model) - plain.gradient(model) == pytest.approx(0.1 * 2.0 * model)
