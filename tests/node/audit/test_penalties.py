"""The audit of runs whose penalties an observer does not know, with and without noise."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from node.commands.audit import show
from node.worlds.twin import run_twin
from tests.helpers.audited_runs import audited, deal

SECRET = bytes(range(32))
LEARNING = 'algorithm = "{}"\ncapacity = 1.0\nrho = 0.01\npenalty = {}\npenalty_growth = 1.05\ntheta = {}'


def shown(run: Path, **options: object) -> tuple[object, str]:
    found = audited(run, secret=SECRET, **options)
    text = io.StringIO()
    show(found, run, Console(file=text, width=200))
    return found, " ".join(text.getvalue().split())


def test_without_noise_a_record_is_found_with_no_penalty_known(tmp_path: Path) -> None:
    run = deal(tmp_path / "open", "", LEARNING.format("m-admm", 0.1, 0.1))
    run_twin(run)
    found, text = shown(run, trials=20)
    assert found.reconstruction is not None
    cosines = [one.without_penalties for _, one in found.reconstruction.agents]
    assert len(cosines) == 8
    assert min(cosine or 0.0 for cosine in cosines) > 1.0 - 1e-6
    assert "penalties unknown cosine 1.000000" in text


def test_with_noise_both_attacks_stand_side_by_side_and_below_what_is_accounted(tmp_path: Path) -> None:
    privacy = 'mechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-3\nclip = 2.0'
    run = deal(tmp_path / "private", privacy, LEARNING.format("pp", 2.0, 2.0))
    run_twin(run)
    found, text = shown(run, trials=100, agents=[0, 1])
    assert found.ok
    for agent in found.agents[:2]:
        assert agent.attacked_without_penalties is not None
        assert agent.attacked_without_penalties <= (agent.accounted or 0.0)
    assert all(agent.attacked_without_penalties is None for agent in found.agents[2:])
    assert "where the penalties are fitted" in text


def test_a_constant_penalty_is_no_secret(tmp_path: Path) -> None:
    run = deal(tmp_path / "plain", "", LEARNING.replace("penalty_growth = 1.05\n", "").format("admm", 0.1, 0.1))
    run_twin(run)
    found, text = shown(run, trials=20)
    assert found.reconstruction is not None
    assert all(one.without_penalties is None for _, one in found.reconstruction.agents)
    assert "penalties unknown" not in text
