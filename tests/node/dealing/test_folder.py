"""Dealing: what a run's folder holds, who may read it, and what is refused."""

from __future__ import annotations

import io
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.personal.signatures import verification_key
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.problem.losses import SQUARED
from coordinator_free.problem.objective import LocalProblem
from node.configuration.public import dump
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.dealing import __main__ as command
from node.dealing import folder as deal
from node.dealing import preparation
from node.dealing.folder import deal_run
from node.dealing.preparation import confidences, prepare
from node.dealing.warnings import SMALLEST_CONFIDENCE
from node.folder.ledger import LedgerFile
from node.folder.registry import settle
from node.folder.shard import ShardError, read_rows, read_secret, read_shard, write_shard
from node.places import agent_folder, shard_path
from tests.helpers.tables import private, public
from topology import files


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "schools"
    deal_run(from_table(private(run={"seed": 918273645})), folder)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_laid_out_and_private_parts_are_private(dealt: Path) -> None:
    manifest = json.loads((dealt / "manifest.json").read_text())
    assert manifest["agents"] == 65
    assert manifest["record"] == "one pupil"
    assert manifest["public_assumptions"]
    assert manifest["metric"] == {"name": "rmse", "larger_is_better": False}
    assert files.parse((dealt / "topology.graphml").read_bytes(), "graphml").digest() == manifest["topology_digest"]
    assert from_table_text(dealt).privacy.epsilon == 2.0
    for agent in (0, 64):
        for path in (shard_path(dealt, agent), agent_folder(dealt, agent) / "ledger.jsonl"):
            assert mode(path) == 0o600
        assert mode(agent_folder(dealt, agent) / "secret") == 0o600
        assert mode(agent_folder(dealt, agent)) == 0o700
    assert mode(dealt / "dealt.json") == 0o600
    assert not list(dealt.parent.glob(".*"))


def from_table_text(folder: Path) -> Configuration:
    import tomllib

    return from_table(tomllib.loads((folder / "config.toml").read_text()))


def test_nothing_public_holds_a_secret_or_a_digest_of_the_data(dealt: Path) -> None:
    data_digest = json.loads((dealt / "dealt.json").read_text())["data_digest"]
    public_files = [dealt / name for name in ("config.toml", "manifest.json", "topology.graphml")]
    text = b"".join(path.read_bytes() for path in public_files)
    rows, numbers = read_rows(shard_path(dealt, 3))
    secret = read_secret(agent_folder(dealt, 3) / "secret")
    assert data_digest.encode() not in text
    assert rows.digest().encode() not in text
    assert secret not in text
    assert secret.hex().encode() not in text
    assert secret.hex() not in json.dumps(numbers.to_json())


def test_every_agent_has_a_secret_of_its_own_and_two_runs_share_none(dealt: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    deal_run(from_table(private(run={"seed": 918273645})), again)
    secrets = {read_secret(agent_folder(folder, agent) / "secret") for folder in (dealt, again) for agent in range(65)}
    assert len(secrets) == 130
    assert simulation_secret(918273645, 0) not in secrets


def test_only_a_simulation_takes_noise_from_the_seed(tmp_path: Path) -> None:
    folder = tmp_path / "simulated"
    manifest = deal_run(from_table(private(run={"simulation": True})), folder)
    assert read_secret(agent_folder(folder, 5) / "secret") == simulation_secret(7, 5)
    assert manifest.simulation
    assert any("can compute the noise" in warning for warning in manifest.warnings)


def test_a_shard_says_all_that_an_agent_needs(dealt: Path) -> None:
    setting, numbers, digest = read_shard(shard_path(dealt, 3), agent_folder(dealt, 3) / "secret")
    graph = files.parse((dealt / "topology.graphml").read_bytes(), "graphml")
    assert setting.agent == 3
    assert setting.neighbours == graph.neighbours(3)
    assert setting.weights.tolist() == graph.weights_of(3).tolist()
    assert setting.updates == len(setting.multipliers) == 20
    assert numbers.releases == 20
    assert setting.problem.regularisation == pytest.approx(0.1 / setting.problem.records, rel=1e-15)
    assert setting.learning["smoothness"] == 2.0 + 2 * setting.problem.regularisation
    assert len(setting.secret) == 32
    assert digest == read_rows(shard_path(dealt, 3))[0].digest()
    assert np.linalg.norm(setting.problem.x, axis=1).max() <= 1.0


def test_the_noise_spends_the_budget_and_no_more(dealt: Path) -> None:
    setting, _, _ = read_shard(shard_path(dealt, 3))
    charged = [mechanism("gaussian", 0.01, float(m), setting.dimension) for m in setting.multipliers]
    spent = total(charged, 1e-3).epsilon
    assert 2.0 * (1 - 1e-3) <= spent <= 2.0
    halved = [mechanism("gaussian", 0.01, float(m) / 2, setting.dimension) for m in setting.multipliers]
    assert total(halved, 1e-3).epsilon > 2.0


def test_a_ledger_belongs_to_its_rows(dealt: Path) -> None:
    digests = [read_shard(shard_path(dealt, agent)).digest for agent in (1, 2)]
    LedgerFile.open(agent_folder(dealt, 1) / "ledger.jsonl", digests[0]).close()
    with pytest.raises(ValueError, match="ledger"):
        LedgerFile.open(agent_folder(dealt, 1) / "ledger.jsonl", digests[1])


def test_dealing_again_with_the_seed_deals_the_same_rows(dealt: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    deal_run(from_table(private(run={"seed": 918273645})), again)
    for name in ("topology.graphml", "config.toml"):
        assert (again / name).read_bytes() == (dealt / name).read_bytes()
    for agent in (0, 30):
        assert read_rows(shard_path(again, agent))[0].digest() == read_rows(shard_path(dealt, agent))[0].digest()
    runs = {json.loads((folder / "manifest.json").read_text())["run"] for folder in (dealt, again)}
    assert len(runs) == 2


def test_without_a_seed_one_is_drawn_for_the_dealing_and_never_filled_in(tmp_path: Path) -> None:
    manifests = [deal_run(from_table(public(run={"seed": None})), tmp_path / name) for name in ("a", "b")]
    assert all(manifest.seeds.drawn for manifest in manifests)
    assert manifests[0].seeds.seed != manifests[1].seeds.seed
    assert from_table_text(tmp_path / "a").run.seed is None


# --- an existing folder ----------------------------------------------------------------------------------------------


def test_an_existing_folder_is_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(public()), folder)
    before = contents(folder)
    with pytest.raises(ConfigurationError, match="--force"):
        deal_run(from_table(public()), folder)
    assert contents(folder) == before


def charge_one(folder: Path, agent: int) -> bytes:
    """Charge the first planned release of an agent as its process would; returns the ledger as it then is."""
    setting, numbers, digest = read_shard(shard_path(folder, agent), agent_folder(folder, agent) / "secret")
    path = agent_folder(folder, agent) / "ledger.jsonl"
    with LedgerFile.open(path, digest) as ledger:
        ledger.reserve(0, 0, CoordinateDescent(setting).charge(0), extra={"run": numbers.run.hex()})
    return path.read_bytes()


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_force_goes_on_with_ledgers_that_have_room(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = deal_run(from_table(private()), folder)
    held = charge_one(folder, 3)
    left_over = agent_folder(folder, 4) / "final.npz"
    left_over.write_bytes(b"old")
    frugal = private(privacy={"epsilon": 1.0}, learning={"mu": 10.0})
    second = deal_run(from_table(frugal), folder, force=True)
    assert (agent_folder(folder, 3) / "ledger.jsonl").read_bytes() == held
    assert not left_over.exists()
    assert second.run != first.run
    assert from_table_text(folder).learning.mu == 10.0
    named = json.loads((folder / "dealt.json").read_text())["earlier_runs"]
    assert [run["run"] for run in named] == ["run"]
    assert 0 < named[0]["epsilon_max"] < 2.0


def test_force_refuses_what_a_ledger_has_no_room_for(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(private()), folder)
    charge_one(folder, 3)
    before = contents(folder)
    with pytest.raises(ConfigurationError, match=r"agent-0003/ledger\.jsonl is spent: .* the budget is 2"):
        deal_run(from_table(private()), folder, force=True)
    free = private(privacy={"mechanism": "none", "epsilon": None, "delta": None, "clip": None})
    with pytest.raises(ConfigurationError, match="of a run with a budget"):
        deal_run(from_table(free), folder, force=True)
    assert contents(folder) == before
    assert not list(tmp_path.glob(".*"))


def test_force_refuses_a_budget_after_releases_without_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(private(privacy={"mechanism": "none", "epsilon": None, "delta": None, "clip": None})), folder)
    with pytest.raises(ConfigurationError, match="of a run without a budget"):
        deal_run(from_table(private()), folder, force=True)


def test_force_refuses_while_an_agent_speaks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(private()), folder)
    with (
        LedgerFile.open(agent_folder(folder, 0) / "ledger.jsonl", read_shard(shard_path(folder, 0), None).digest),
        pytest.raises(ConfigurationError, match="held by another process"),
    ):
        deal_run(from_table(private()), folder, force=True)


def test_force_refuses_other_rows_and_leaves_everything(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(private()), folder)
    before = contents(folder)
    with pytest.raises(ConfigurationError, match=r"belongs to other data.*never deleted"):
        deal_run(from_table(private(run={"seed": 8})), folder, force=True)
    assert contents(folder) == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.thorough
def test_a_run_on_the_same_rows_names_what_the_earlier_one_spent(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    deal_run(from_table(private()), first)
    deal_run(from_table(private()), second)
    [reserved] = json.loads((second / "dealt.json").read_text())["earlier_runs"]
    assert (reserved["run"], reserved["reserved"]) == ("first", True)
    assert reserved["epsilon_max"] == pytest.approx(2.0, rel=1e-3)
    charge_one(first, 3)
    settle(first)
    settle(second)
    third = tmp_path / "third"
    deal_run(from_table(private()), third)
    named = json.loads((third / "dealt.json").read_text())["earlier_runs"]
    assert [run["run"] for run in named] == ["first"]
    setting = read_shard(shard_path(first, 3), agent_folder(first, 3) / "secret").setting
    expected = total([CoordinateDescent(setting).charge(0)], 1e-3).epsilon
    assert named[0]["epsilon_max"] == pytest.approx(expected, rel=1e-9)


def test_a_failed_dealing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(deal, "write_shard", full)
    with pytest.raises(OSError, match="No space"):
        deal_run(from_table(public()), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_confidences_are_relative_sizes_and_never_zero() -> None:
    assert confidences([10, 0, 40]).tolist() == [0.25, 1e-3, 1.0]
    assert confidences([0, 0]).tolist() == [1e-3, 1e-3]


def problem() -> LocalProblem:
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (7, 3))
    return LocalProblem(x, x.sum(axis=1), SQUARED, 0.25)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [(3.0, 3.5), ("bound", 2.0 + 0.5), ("data", problem().smoothness_of_data())],
)
def test_two_lambda_is_always_added_to_the_smoothness(setting: Any, expected: float) -> None:
    configuration = from_table(private(privacy={"mechanism": "none", "epsilon": None, "delta": None, "clip": None}))
    learning = configuration.learning.model_copy(update={"smoothness": setting})
    chosen = configuration.model_copy(update={"learning": learning})
    dealt = prepare(configuration).dealt
    assert preparation.smoothness(chosen, dealt, problem()) == pytest.approx(expected, rel=1e-12)


def test_the_feature_law_of_the_synthetic_task() -> None:
    prepared = prepare(from_table(public(learning={"smoothness": "feature-law"})))
    sizes = np.array([len(shard.y) for shard in prepared.dealt.shards])
    expected = (1 + np.sqrt(5 / sizes)) ** 2 / 12 + 2.0 / sizes
    assert prepared.smoothness == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ConfigurationError, match="feature-law"):
        prepare(from_table(private(learning={"smoothness": "feature-law"})))


def test_warnings_name_the_agents() -> None:
    prepared = prepare(from_table(private(privacy={"delta": 0.01})))
    exposed = [i for i, shard in enumerate(prepared.dealt.shards) if len(shard.y) >= 100]
    assert 0 < len(exposed) < 5
    (warning,) = prepared.warnings
    assert "privacy.delta = 0.01" in warning
    for agent in exposed:
        assert str(agent) in warning
    empty = prepare(
        from_table(
            public(
                data={
                    "source": "breast-cancer",
                    "dimension": None,
                    "agents": 3,
                    "split": "sizes",
                    "sizes": [300, 383, 0],
                }
            )
        )
    )
    assert any("agent 2 without data" in warning for warning in empty.warnings)
    assert empty.confidences[2] == SMALLEST_CONFIDENCE


def test_labels_that_the_loss_cannot_take_are_one_line() -> None:
    with pytest.raises(ConfigurationError, match=r'learning\.loss = "logistic": label .* -1 and 1'):
        prepare(from_table(private(learning={"loss": "logistic"})))


def test_a_graph_needs_as_many_agents_as_the_data(tmp_path: Path) -> None:
    path = tmp_path / "three.edges"
    path.write_text("0 1\n1 2\n")
    with pytest.raises(ConfigurationError, match="3 agents, the data 10"):
        prepare(from_table(public(topology={"kind": "file", "path": str(path)})))
    with pytest.raises(ConfigurationError, match="graph file"):
        prepare(from_table(public(topology={"kind": "file", "path": str(tmp_path / "none.gml")})))
    with pytest.raises(ConfigurationError, match="nothing to compare"):
        prepare(from_table(private(topology={"kind": "angle-similarity", "degree": None})))


# --- shards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learning", [{}, {"algorithm": "averaging", "mu": None, "step": 0.1, "local_steps": 1}])
def test_a_run_of_one_agent_is_refused(learning: dict[str, Any]) -> None:
    table = public(data={"agents": 1}, topology={"kind": "complete"}, learning=learning)
    with pytest.raises(ConfigurationError, match="one agent, which has no neighbour to learn with; accepted are 2 or"):
        prepare(from_table(table))


def test_a_damaged_shard_is_refused(dealt: Path, tmp_path: Path) -> None:
    data = shard_path(dealt, 0).read_bytes()
    rows, numbers = read_rows(shard_path(dealt, 0))
    path = tmp_path / "shard.npz"
    whole = 0
    for cut in range(0, len(data), 97):
        path.write_bytes(data[:cut])
        try:
            read, said = read_rows(path)
        except ShardError:
            continue
        # Nothing but the archive's own table of contents is gone.
        assert (read.digest(), said) == (rows.digest(), numbers)
        whole += 1
    assert whole < 6
    changed = np.array(rows.x)
    changed[0, 0] += 1.0
    write_shard(tmp_path / "changed.npz", replace(rows, x=changed), numbers)
    with pytest.raises(ShardError, match="damaged"):
        read_rows(tmp_path / "changed.npz")


def test_a_missing_or_short_secret_is_refused(dealt: Path, tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="secret"):
        read_shard(shard_path(dealt, 0), tmp_path / "none")
    (tmp_path / "short").write_bytes(b"short")
    with pytest.raises(ShardError, match="5 bytes"):
        read_shard(shard_path(dealt, 0), tmp_path / "short")


# --- the process -----------------------------------------------------------------------------------------------------


def test_the_process_reads_a_configuration_and_says_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dump(from_table(public()))
    folder = tmp_path / "run"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert command.main([str(folder)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads((folder / "manifest.json").read_text())
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert command.main([str(folder)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "exists" in told.err


def test_agents_that_pass_releases_on_are_dealt_the_keys_that_check_them(tmp_path: Path) -> None:
    table = private(learning={"algorithm": "graph-smoothing", "loss": "logistic"})
    table["learning"] = {"algorithm": "graph-smoothing"}
    table["data"] = {"source": "breast-cancer", "agents": 4}
    table["privacy"] = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": 1.0}
    table["topology"] = {"kind": "ring"}
    manifest = deal_run(from_table(table), tmp_path / "run")
    for agent in range(4):
        found = read_rows(shard_path(tmp_path / "run", agent))[1]
        secret = read_secret(agent_folder(tmp_path / "run", agent) / "secret")
        assert found.learning["signers"][agent] == verification_key(secret, manifest.run).hex()
        assert found.release_dimension == found.dimension + 2 + 16
