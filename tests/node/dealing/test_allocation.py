"""The allocation acts: by round, the noise of releases and the ledger's charges follow what ``budget`` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.registry import KNOWN, algorithm, make
from coordinator_free.attacks.perturbed_objectives import observe
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.allocation import weights
from coordinator_free.privacy.mechanism import Mechanism
from node.audit.recording import read_recording
from node.configuration.reading import from_table
from node.dealing import bought
from node.dealing.folder import deal_run
from node.dealing.preparation import Preparation, prepare
from node.folder.ledger import LedgerFile
from node.folder.run import read_run
from node.folder.shard import setting
from node.places import agent_folder
from node.worlds.twin import run_twin
from tests.helpers.known_noise import with_known_noise

UPDATES, R, EPSILON, DELTA = 3, 0.1, 2.0, 1e-3
OBJECTIVES = [("dvp", "gamma-norm"), ("pp", "gamma-norm")]
ADMM = {"capacity": 20.0, "rho": 0.5, "penalty": 10.0}
OWN: dict[str, dict[str, Any]] = {
    "coordinate-descent": {"mu": 1.0, "smoothness": "bound"},
    "gradient-descent": {"step": 0.5},
    "graph-smoothing-2r": {"loss": "squared", "parameters": {"clip_2": 0.5}},
    "pvp": ADMM,
    "dvp": ADMM,
    "pp": ADMM,
}
"""Learning settings of every private algorithm that allocates."""


def table(name: str, mechanism: str, **learning: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 1},
        "data": {"source": "synthetic", "agents": 4, "dimension": 40, "feature_scale": 0.15, "records": [15, 15]},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": name, "loss": "logistic", **OWN[name], **learning},
        "clock": {"updates": UPDATES},
        "privacy": {
            "mechanism": mechanism,
            "epsilon": EPSILON,
            "delta": DELTA,
            "clip": 1.0,
            "allocation": "increasing",
            "r": R,
        },
    }


def charges_of(made: Preparation, agent: int = 0) -> list[Mechanism]:
    numbers = made.public(agent)
    code = make(numbers.algorithm, setting(made.rows(agent), numbers, bytes(32)))
    return [charge for index in range(numbers.releases) if (charge := code.charge(index)) is not None]


def test_every_private_algorithm_that_allocates_is_tested_here() -> None:
    assert {name for name in KNOWN if algorithm(name).allocates and algorithm(name).mechanisms != ()} == set(OWN)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "mechanism"),
    [*OBJECTIVES, *((name, "gaussian") for name in OWN if name != "pp")],
)
def test_each_release_has_its_share_of_the_budget(name: str, mechanism: str) -> None:
    charges = charges_of(prepare(from_table(table(name, mechanism))))
    shares = weights("increasing", len(charges), mechanism, R)
    assert shares[0] < shares[-1] == 1.0
    rates = np.array([charge.sensitivity / charge.scale for charge in charges])
    assert rates / rates[-1] == pytest.approx(shares, rel=1e-6)
    assert 0.99 * EPSILON <= total(charges, DELTA).epsilon <= EPSILON


def test_the_rounds_before_a_last_one_of_another_kind_have_their_shares() -> None:
    charges = charges_of(prepare(from_table(table("pvp", "gaussian", last_round="dvp"))))
    rates = np.array([charge.sensitivity / charge.scale for charge in charges])[:-1]
    shares = weights("increasing", UPDATES, "gaussian", R)[:-1]
    assert rates / rates[-1] == pytest.approx(shares / shares[-1], rel=1e-6)
    assert 0.99 * EPSILON <= total(charges, DELTA).epsilon <= EPSILON


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "mechanism"), OBJECTIVES)
def test_releases_ledgers_and_budget_agree_by_round(
    name: str, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lengths of 4 noise vectors of 40 numbers deviate by 8% at most (gamma law): half or double is 6 away."""
    configuration = from_table(table(name, mechanism))
    folder = tmp_path / "run"
    deal_run(configuration, folder)
    run_twin(with_known_noise(folder))
    monkeypatch.setattr(bought, "COUNTS", ())
    recording, run = read_recording(folder), read_run(folder)
    shown = bought.bought(configuration).release
    shares = weights("increasing", UPDATES, mechanism, R)
    lengths = np.zeros((run.agents, UPDATES))
    for agent in range(run.agents):
        public = setting(run.rows[agent], run.public[agent], bytes(32))
        rounds = observe(algorithm(name), public, recording.of(agent), recording.heard)
        with LedgerFile.read(agent_folder(folder, agent) / "ledger.jsonl", run.rows[agent].digest()) as ledger:
            charged = {
                index: charge.mechanism for charge in ledger.charges() for index in range(charge.first, charge.last + 1)
            }
        for index, seen in enumerate(rounds):
            assert charged[index] == seen.mechanism
            rate, last = (charged[k].sensitivity / charged[k].scale for k in (index, UPDATES - 1))
            assert rate / last == pytest.approx(shares[index])
            lengths[agent, index] = np.linalg.norm(seen.remainder(run.problems[agent], ADMM["capacity"]))
            lengths[agent, index] /= seen.mechanism.scale * 40
    assert lengths.mean(axis=0) == pytest.approx(np.ones(UPDATES), rel=0.35)
    for place, index in (("first", 0), ("last", UPDATES - 1)):
        assert shown[place].multiplier == charged[index].multiplier
