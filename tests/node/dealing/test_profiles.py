"""A graph learned in private: charged before it is there, within each agent's budget, known to verify and audit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.personal.profile import Profile
from coordinator_free.privacy.accounting import calibrate, total
from coordinator_free.privacy.ledger import Budget, Charge, Ledger, LedgerError
from coordinator_free.privacy.mechanisms import Gaussian
from node.audit.auditor import audit
from node.audit.verify import verify
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing import folder as dealing
from node.dealing.folder import deal_run
from node.dealing.graph import network
from node.dealing.preparation import prepare
from node.folder.ledger import LedgerFile
from node.folder.profiles import FILE, charged_as, read_profiles, write_profiles
from node.folder.run import read_run
from node.folder.spending import spent
from node.places import agent_folder
from node.worlds.twin import run_twin
from tests.helpers.known_noise import with_known_noise

AGENTS, P = 12, 6


def table(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "run": {"seed": 4},
        "data": {"source": "synthetic", "agents": AGENTS, "dimension": P, "records": [20, 40]},
        "topology": {"kind": "private-similarity", "neighbours": 3, "share": 0.3},
        "learning": {"algorithm": "coordinate-descent", "mu": 2.0, "smoothness": 1.0},
        "clock": {"updates": 5},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    }
    for path, value in changes.items():
        section, _, key = path.partition("__")
        made[section][key] = value
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dealt run, finished in the twin. Its noise is a function of the seed alone."""
    folder = tmp_path_factory.mktemp("learned") / "run"
    with pytest.MonkeyPatch.context() as patch:
        known = {agent: bytes([agent]) * 32 for agent in range(AGENTS)}
        patch.setattr(dealing, "noise_secret", lambda _, agent: known[agent])
        deal_run(from_table(table()), folder)
    run_twin(folder)
    return folder


def test_every_agent_is_charged_for_its_profile_and_the_whole_is_within_its_budget(run: Path) -> None:
    read = read_run(run)
    own = charged_as(read.run.hex())
    for agent in range(AGENTS):
        with LedgerFile.read(agent_folder(run, agent) / "ledger.jsonl", None) as ledger:
            charges = ledger.charges()
        assert [charge.count for charge in charges if charge.run == own] == [1]
        assert charges[0].run == own  # before any release
        mechanisms = [charge.mechanism for charge in charges for _ in range(charge.count)]
        assert len(mechanisms) == 6
        assert 1.0 - 1e-3 < total(mechanisms, 1e-3).epsilon <= 1.0 + 1e-9
    assert spent(run).as_results().charged_max == pytest.approx(1.0, abs=1e-3)


def test_verify_and_audit_find_nothing_wrong(run: Path) -> None:
    assert verify(run).ok
    found = audit(run, trials=50, agents=[0])
    assert found.findings == ()
    assert found.ok
    assert found.agents[0].accounted == pytest.approx(1.0, abs=1e-3)


def test_the_graph_holds_nothing_but_the_profiles(run: Path) -> None:
    read = read_run(run)
    vectors = read_profiles(run, AGENTS, P)
    made = prepare(from_table(table()), profiles=vectors).network
    assert made.digest() == read.network.digest() == read.manifest.topology_digest
    assert read.manifest.public_assumptions == ()


def test_a_changed_profile_is_found(run: Path) -> None:
    vectors = read_profiles(run, AGENTS, P)
    try:
        changed = np.array(vectors)
        changed[3] += 1.0
        write_profiles(run, changed)
        assert any("agent 3: its profile differs" in line for line in verify(run).findings)
        (run / FILE).write_bytes(b"not arrays")
        assert any(FILE in line for line in audit(run, trials=2, agents=[0]).findings)
    finally:
        write_profiles(run, vectors)


def test_an_audit_finds_halved_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents add half of the noise that they are charged for; every number is fixed by the secrets."""
    whole = Profile.vector

    def halved(self: Profile) -> np.ndarray[Any, np.dtype[np.float64]]:
        return self.exact() + np.rint((whole(self) - self.exact()) * 2**19) / 2**20

    with monkeypatch.context() as patch:
        patch.setattr(Profile, "vector", halved)
        patch.setattr(dealing, "noise_secret", lambda _, agent: bytes([agent]) * 32)
        deal_run(from_table(table()), tmp_path / "run")
    run_twin(tmp_path / "run")
    findings = audit(tmp_path / "run", trials=2, agents=[0]).findings
    assert any(line.startswith("profiles: noise") for line in findings)


def test_an_audit_finds_a_profile_that_was_not_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = LedgerFile.create
    monkeypatch.setattr(LedgerFile, "create", lambda *given: create(*given[:5]))
    deal_run(from_table(table()), tmp_path / "run")
    run_twin(with_known_noise(tmp_path / "run"))
    findings = audit(tmp_path / "run", trials=2, agents=[0]).findings
    assert "agent 3: its profile was not charged" in findings


def test_an_agent_is_admitted_without_its_plan_being_accounted_again(run: Path) -> None:
    """An agent's process would load the accountant for that, and its libraries."""
    read = read_run(run)
    with LedgerFile.read(agent_folder(run, 0) / "ledger.jsonl", None) as ledger:
        plan = ledger.planned(read.run.hex()).mechanisms()
        made = Ledger(ledger.budget, ledger.ledger.plan, ledger.charges()[:1], ledger.ledger.earlier)
    asked: list[list[object]] = []

    def account(mechanisms: Iterable[object], _: float) -> float:
        asked.append(list(mechanisms))
        return 0.5

    made.admit(read.run.hex(), plan, account)
    assert asked == []
    made.admit("another", plan, account)
    made.add(Charge("another", 0, 0, plan[0]))
    made.admit(read.run.hex(), plan, account)
    made.admit(read.run.hex(), [*plan, plan[0]], account)
    assert [len(mechanisms) for mechanisms in asked] == [7, 8]  # the profile is counted wherever something is


def test_a_plan_that_leaves_no_room_for_what_was_released_before_is_refused(tmp_path: Path) -> None:
    half = Gaussian(1.0, float(calibrate("gaussian", 1, 0.5, 1e-3)[0]))
    budget = Budget(0.5, 1e-3)
    LedgerFile.create(tmp_path / "one", "shard", "one point", budget, [half])
    with pytest.raises(LedgerError, match="would cost epsilon"):
        LedgerFile.create(tmp_path / "two", "shard", "one point", budget, [half], Charge("before", 0, 0, half))
    assert not (tmp_path / "two").exists()


def test_each_agent_spends_its_share_of_its_own_budget(tmp_path: Path) -> None:
    made = table(privacy__levels=[[0.5, 2.0], [0.25, 0.5], [0.25, 0.0]])
    folder = tmp_path / "run"
    deal_run(from_table(made), folder)
    run_twin(folder)
    epsilons = spent(folder).epsilons
    due = [budget[0] for public in read_run(folder).public if (budget := public.budget) is not None]
    assert epsilons == pytest.approx(due, rel=1e-3)
    silent = [agent for agent, epsilon in enumerate(due) if epsilon == 0.0]
    assert not read_profiles(folder, AGENTS, P)[silent].any()


def test_another_run_in_the_same_folder_has_no_room(tmp_path: Path) -> None:
    deal_run(from_table(table()), tmp_path / "run")
    with pytest.raises(ConfigurationError, match="would cost epsilon"):
        deal_run(from_table(table()), tmp_path / "run", force=True)


def test_a_run_on_a_ledger_with_room_is_charged_for_its_own_profile(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(table()), folder)
    deal_run(from_table(table(privacy__epsilon=0.4, topology__share=0.5)), folder, force=True)
    run_twin(folder)
    own = charged_as(read_run(folder).run.hex())
    with LedgerFile.read(agent_folder(folder, 0) / "ledger.jsonl", None) as ledger:
        runs = [charge.run for charge in ledger.charges()]
    assert len({run for run in runs if run.endswith("-profile")}) == 2
    assert runs[1] == own  # the second run's profile, before its releases
    mechanisms = [charge.mechanism for charge in ledger.charges() for _ in range(charge.count)]
    assert 0.4 < total(mechanisms, 1e-3).epsilon <= 1.0
    assert verify(folder).ok


def test_nothing_is_drawn_by_a_look() -> None:
    looked = prepare(from_table(table()))
    assert looked.profiles is not None
    assert not looked.profiles.vectors.any()
    assert looked.profile_charges(0)[0] is not None
    with pytest.raises(ConfigurationError, match="one more release"):
        network(from_table(table()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topology__share": None}, r"topology\.share is missing"),
        ({"topology__share": 1.0}, r"topology\.share"),
        ({"topology__gamma": 0.1}, r"topology\.gamma"),
        ({"privacy": {}}, "accepted in a private run"),
        ({"topology": {"kind": "ring", "share": 0.2}}, "share"),
        ({"topology__neighbours": AGENTS}, r"topology\.neighbours = 12"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    made = table(**{path: value for path, value in changes.items() if "__" in path})
    made |= {section: value for section, value in changes.items() if "__" not in section}
    made["topology"] = {key: value for key, value in made["topology"].items() if value is not None}
    with pytest.raises(ValueError, match=words):
        prepare(from_table(json.loads(json.dumps(made))))
