"""Runs with a regulariser other than the square: they are verified and audited as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.audit.verify import verify
from node.worlds.twin import run_twin
from tests.helpers.audited_runs import audited, deal

SECRET = bytes(range(32))
LEARNING = 'algorithm = "{}"\ncapacity = 5.0\nrho = 1.0\npenalty = 2.0\n{}regulariser_form = "smooth-l1"'
PRIVATE = 'mechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-3\nclip = 2.0'


@pytest.mark.parametrize("algorithm", ["pvp", "dvp", "pp"])
def test_a_private_run_is_verified_and_has_no_finding(algorithm: str, tmp_path: Path) -> None:
    run = deal(tmp_path / "private", PRIVATE, LEARNING.format(algorithm, "theta = 2.0\n"))
    run_twin(run)
    assert verify(run).ok
    found = audited(run, trials=50, agents=[0, 1], secret=SECRET)
    assert found.ok, found.findings
    assert found.noise.releases == 80
    for agent in found.agents[:2]:
        assert 0.0 < agent.attained <= 1.0
        assert agent.accounted <= 2.0


def test_without_noise_a_record_is_rebuilt_exactly(tmp_path: Path) -> None:
    run = deal(tmp_path / "open", "", LEARNING.format("m-admm", "penalty_growth = 1.05\ntheta = 2.0\n"))
    run_twin(run)
    assert verify(run).ok
    rebuilt = audited(run, trials=20, secret=SECRET).reconstruction
    assert rebuilt is not None
    assert rebuilt.principal > 1.0 - 1e-6
    assert all((one.without_penalties or 0.0) > 1.0 - 1e-6 for _, one in rebuilt.agents)
