"""What the command ``theory`` says of paper 003: the noise and the models are a run's own, and so are the bounds."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.public_model import PublicModelSensitivity
from node.configuration.public import dump
from node.configuration.reading import from_table
from node.experiments.theory.averaged import Averaged, averaged
from node.experiments.theory.bound import Bound
from node.experiments.theory.paper003 import BOUNDS
from node.experiments.theory.subject import Subject, subject
from tests.helpers.twin_runs import finished

UPDATES = 30
TABLE: dict[str, dict[str, Any]] = {
    "run": {"seed": 1, "simulation": True},
    "data": {"source": "breast-cancer", "agents": 4, "split": "random", "floor": 40},
    "topology": {"kind": "ring"},
    "learning": {"algorithm": "gradient-descent", "loss": "logistic", "regularisation": 5.0, "step": 2.0},
    "clock": {"updates": UPDATES},
    "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
}


def table(**sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    made = deepcopy(TABLE)
    for section, values in sections.items():
        made.setdefault(section, {}).update(values)
    if made["privacy"].get("mechanism") == "none":
        made["privacy"] = {"mechanism": "none"}
        made["run"].pop("simulation", None)
    return made


def seen(of: Subject) -> tuple[Averaged, dict[tuple[str, str], Bound]]:
    """The averaged descent, and every bound by its source and name, and its reading."""
    found = [bound for bounds in BOUNDS for bound in bounds(of)]
    made = averaged(of)
    assert made is not None
    return made, {(f"{bound.source}: {bound.name}", bound.reading): bound for bound in found}


@pytest.mark.parametrize("learning", [{}, {"aggregation": "push-sum", "push_rounds": 40}], ids=["flood", "push-sum"])
def test_the_models_on_the_way_and_their_noise_are_the_runs_own(learning: dict[str, Any], tmp_path: Path) -> None:
    """300 numbers of noise: their variance has 8% of deviation, so 0.4 is five of it; half the scale is 0.75 off.

    The noise follows what a record can do at the public model; the bounds take the largest that it can be.
    """
    of, bounds = seen(subject(finished(tmp_path / "run", table(learning=learning))))
    assert of.iterates is not None
    assert of.final is not None
    assert of.iterates.shape == (UPDATES + 1, 10)
    assert of.iterates[-1] == pytest.approx(of.final, abs=1e-5)
    steps = (of.iterates[:-1] - of.iterates[1:]) / of.settings.step
    noise = steps - np.stack([of.objective.gradient(theta) for theta in of.iterates[:-1]])
    moved = PublicModelSensitivity(LOGISTIC, 1.0, "l2", 1.0)
    parts = [(moved.at(theta) / moved.largest) ** 2 for theta in of.iterates[:-1]]
    assert np.var(noise) == pytest.approx(of.variance * np.mean(parts), rel=0.4)
    assert max(parts) <= 1.0
    for source in ("003, Theorem 2, Eq. (11): excess risk", "003, Theorem 3: excess risk"):
        true = bounds[source, "as true"]
        assert true.held
        assert true.measured is not None
        assert true.measured[-1] == pytest.approx(of.objective.value(of.iterates[-1]) - of.objective.least)
    published, true = (bounds["003, Theorem 1: privacy of a party's releases", r] for r in ("as published", "as true"))
    assert published.held is False
    assert true.held
    assert true.measured == pytest.approx([2.0] * 4, rel=1e-4)
    noises = bounds["003, Table 1: noise of WD-DP", "as true"]
    assert noises.bound[-1] == pytest.approx(of.variance, rel=1e-3), "exact composition buys the noise that is there"
    remark = [bounds["003, Remark 1: improvement over Wang, Ye and Xu (2017)", r] for r in ("as published", "as true")]
    assert [bound.held for bound in remark] == [False, True]


def test_a_masked_sum_shows_its_end_alone(tmp_path: Path) -> None:
    masked = {"aggregation": "masked-sum"}
    made = table(learning=masked, privacy={"observer": "sum", "colluders": 1}, topology={"kind": "complete"})
    of, bounds = seen(subject(finished(tmp_path / "run", made)))
    assert of.iterates is None
    risk = bounds["003, Theorem 2, Eq. (11): excess risk", "as true"]
    assert risk.at.tolist() == [UPDATES]
    assert risk.held
    charge = of.parties[0].charge(1)
    assert charge is not None
    assert of.variance == pytest.approx(charge.scale**2 * 4 / 3), "a part of the noise more, for the colluder"


def test_eq_11_does_not_hold_for_local_models(tmp_path: Path) -> None:
    """Without noise and with skewed labels the average of local models stays away from the minimum."""
    made = table(
        data={"split": "dirichlet", "alpha": 0.3, "floor": 40},
        learning={"algorithm": "averaging", "local_steps": 400, "step": 1.0, "regularisation": 20.0},
        clock={"updates": 1},
        privacy={"mechanism": "none"},
    )
    _, bounds = seen(subject(finished(tmp_path / "run", made)))
    risk = "003, Theorem 2, Eq. (11): excess risk"
    published, true = bounds[risk, "as published"], bounds[risk, "as true"]
    assert published.held is False
    assert true.held
    assert true.measured is not None
    assert true.measured[0] > 100 * published.bound[0]
    assert "003, Theorem 1: privacy of a party's releases" not in {name for name, _ in bounds}


def planned(made: dict[str, dict[str, Any]], folder: Path) -> Subject:
    """The configuration as a subject."""
    path = folder / "config.toml"
    path.write_text(dump(from_table(made)))
    return subject(path)


def test_a_configuration_is_measured_nowhere(tmp_path: Path) -> None:
    made = table(learning={"algorithm": "averaging", "local_steps": 20}, clock={"updates": 1})
    made["privacy"]["observer"] = "as_published"
    of, bounds = seen(planned(made, tmp_path))
    costs = bounds["003, Theorem 1: privacy of a party's releases", "as published"]
    assert costs.held is False
    assert costs.measured is not None
    assert (costs.measured > 2.0).all()
    risk = bounds["003, Theorem 2, Eq. (11): excess risk", "as true"]
    assert risk.measured is None
    assert risk.at.tolist() == list(range(21))
    [descent] = {party.descent() for party in of.parties}  # type: ignore[attr-defined]
    assert of.variance == pytest.approx(
        (descent.deviation / descent.step) ** 2 * sum(w**2 for w in of.objective.shares)
    )


def test_a_loss_that_is_not_convex_has_theorem_3_alone(tmp_path: Path) -> None:
    made = table(learning={"loss": "sigmoid-squared"})
    _, bounds = seen(planned(made, tmp_path))
    sources = {name.partition(":")[0] for name, _ in bounds}
    assert "003, Theorem 3" in sources
    assert "003, Theorem 2, Eq. (11)" not in sources
    made["privacy"]["clip"] = 0.01
    assert all(of(planned(made, tmp_path)) == [] for of in BOUNDS), "clipped, its gradients are those of no function"


def test_other_algorithms_are_not_spoken_of(tmp_path: Path) -> None:
    made = table(learning={"algorithm": "coordinate-descent", "mu": 1.0, "smoothness": "bound"})
    made["learning"].pop("step")
    assert all(of(planned(made, tmp_path)) == [] for of in BOUNDS)
