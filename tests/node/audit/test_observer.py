"""An audit as one agent of the run: what it receives, what it can attack, and what it is compared with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coordinator_free.attacks.likelihood_ratio import FreshNoise
from coordinator_free.attacks.neighbour_view import NeighbourView, Step
from coordinator_free.privacy.analytic_gaussian import gaussian_epsilon, gaussian_mu
from coordinator_free.privacy.mechanisms import Gaussian
from node.audit.evidence import gather
from node.audit.observer import MASKED, As, received
from node.audit.recording import read_recording
from node.audit.report import Audit, AuditError
from node.worlds.twin import run_twin
from tests.helpers.audited_runs import GAUSSIAN, audited, deal
from tests.helpers.command import run_cli
from tests.helpers.documents import conforms


def quiet(step: Step) -> Step:
    """The same with a third of its noise."""
    made = step.mechanism
    return step if made is None else replace(step, mechanism=Gaussian(made.sensitivity, made.scale / 3.0))


SECRET = bytes(range(32))


def test_a_part_of_the_releases_is_attacked_and_never_compared_with_the_promise(private: Path) -> None:
    found = audited(private, trials=300, secret=SECRET, observer=3)
    assert found.ok, found.findings
    seen = found.observer
    assert seen is not None
    assert seen.hops == (3, 2, 1, 0, 1, 2, 3, 4)
    assert seen.epsilons[3] is None
    assert seen.epsilons[1] < 0.7 < seen.epsilons[2] <= 2.0 * (1 + 1e-6)
    attacked = {a.agent: a for a in found.agents if a.attacked is not None}
    assert set(attacked) == {1, 2, 4, 5}
    for agent, one in attacked.items():
        assert one.accounted == pytest.approx(2.0, rel=1e-3)
        assert one.attacked <= seen.epsilons[agent]
        assert one.trials == 300
    assert found.noise.releases == 0
    assert any("noise" in part for part in seen.not_possible)
    assert max(attacked[2].attacked, attacked[4].attacked) > 0.0


def test_scores_separate_by_what_the_surrogate_says(private: Path) -> None:
    """Real runs of the network: the distance of the two laws of a score, in deviations, is near to mu."""
    evidence = gather(read_recording(private), SECRET)
    looking = As(evidence, evidence, 3, SECRET)
    _, epsilons, _ = looking._epsilons()
    worst = {agent: looking._worst(agent, None) for agent in (2, 1)}
    network = NeighbourView(evidence.agents, 3, evidence.recording.first_ns)
    changes = {agent: found.replacement for agent, found in worst.items()}
    for agent, (first, second) in network.scores(changes, 1500, FreshNoise(SECRET)).items():
        distance = (first.mean() - second.mean()) / np.sqrt((first.var() + second.var()) / 2.0)
        mu = gaussian_mu(epsilons[agent] or 0.0, 1e-3)
        # The surrogate's mu is the larger of two curvatures; two hops away the true one is between them.
        assert (0.5 if agent == 2 else 0.2) * worst[agent].attained * mu < distance < 1.15 * mu


def test_nothing_but_the_neighbours_releases_is_received(private: Path) -> None:
    recording = read_recording(private)
    part = received(recording, 3)
    assert {key[0] for key in part.heard} == {2, 3, 4}
    assert set(part.said) == set(part.headers) == {2, 4}
    assert {key[0] for key in recording.heard} == set(range(8))


def test_half_the_noise_shows_from_afar_too(private: Path) -> None:
    """A control: where the agents add less noise than they charge, the observer's attack shows more than epsilon."""
    evidence = gather(read_recording(private), SECRET)
    looking = As(evidence, evidence, 3, SECRET)
    worst = looking._worst(2, None)
    network = NeighbourView(evidence.agents, 3, evidence.recording.first_ns)
    true = network.scores({2: worst.replacement}, 600, FreshNoise(SECRET))[2]
    network._steps = [quiet(step) for step in network._steps]
    loud = network.scores({2: worst.replacement}, 600, FreshNoise(SECRET))[2]

    def distance(scores):
        return (scores[0].mean() - scores[1].mean()) / np.sqrt((scores[0].var() + scores[1].var()) / 2.0)

    assert distance(loud) > 2.5 * distance(true)


def test_the_command_names_the_observer_and_leaves_the_audit_alone(private: Path, capsys) -> None:
    assert run_cli("audit", str(private), "--as", "agent:3", "--trials", "50", "--agent", "2") == 0
    text = capsys.readouterr().out
    assert "as agent 3" in text
    assert "by a linear surrogate of the run; not the promise" in " ".join(text.split())
    assert not (private / "audit.json").exists()
    assert (private / "audit-as-3.png").read_bytes().startswith(b"\x89PNG")
    details = json.loads((private / "audit-as-3.json").read_text())
    conforms(details, "audit")
    assert Audit.from_details(details).observer.agent == 3
    assert (private / "audit-as-3.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("given", ["3", "agent:9", "agent:x", "school:1"])
def test_an_observer_that_is_no_agent_is_one_line(private: Path, capsys, given: str) -> None:
    assert run_cli("audit", str(private), "--as", given) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_observer_does_not_attack_itself(private: Path) -> None:
    with pytest.raises(AuditError, match="observer"):
        audited(private, trials=20, agents=[3], observer=3)


def test_an_agent_of_a_masked_sum_is_compared_with_what_it_knows_of_the_noise(tmp_path: Path) -> None:
    privacy = GAUSSIAN + '\nobserver = "sum"\ncolluders = 0'
    algorithm = 'algorithm = "gradient-descent"\naggregation = "masked-sum"\nstep = 1.0'
    run = deal(tmp_path / "masked", privacy, algorithm)
    run_twin(run)
    found = audited(run, trials=50, agents=[1], observer=3)
    assert found.ok, found.findings
    seen = found.observer
    assert seen is not None
    assert seen.by == MASKED
    expected = gaussian_epsilon(gaussian_mu(2.0, 1e-3) * np.sqrt(8 / 7), 1e-3)
    assert seen.epsilons[1] == pytest.approx(expected, rel=1e-3)
    assert seen.epsilons[1] > found.agents[1].accounted


def test_without_noise_there_is_nothing_to_judge_from_afar(open_run: Path) -> None:
    found = audited(open_run, trials=20, agents=[1], observer=3)
    assert found.observer.epsilons == ()
    assert any("not attacked" in note for note in found.notes)
