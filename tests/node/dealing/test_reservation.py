"""Budgets of several runs on one file add up, whatever else differs between the runs."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import Mechanism
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing import folder as dealing
from node.dealing.bought import bought
from node.dealing.folder import deal_run
from node.dealing.reservation import note_figures, reserve_again
from node.folder.ledger import LedgerFile
from node.folder.registry import Registry, settle
from node.folder.run import read_run
from node.places import agent_folder

ROWS = 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "people.csv"
    rows = [f"{i},clinic {i % 4},{(7 * i % ROWS) / ROWS:.4f},{'yes' if i % 3 else 'no'}" for i in range(ROWS)]
    path.write_text("\n".join(["id,clinic,age,ill", *rows, ""]))
    return path


def table(file: Path, **changes: dict[str, Any]) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = {
        "run": {"name": "clinics"},
        "data": {
            "source": "csv",
            "path": str(file),
            "label": "ill",
            "positive": "yes",
            "column": "clinic",
            "drop": ["id"],
            "bounds": {"age": [0.0, 1.0]},
        },
        "topology": {"kind": "path"},
        "learning": {"mu": 1.0},
        "clock": {"updates": 5},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-4, "clip": 1.0},
    }
    return {name: {**section, **changes.get(name, {})} for name, section in sections.items()}


def dealt(folder: Path, sections: dict[str, Any], *, force: bool = False) -> dict[str, Any]:
    deal_run(from_table(sections), folder, force=force)
    document: dict[str, Any] = json.loads((folder / "dealt.json").read_text())
    return document


def planned(folder: Path) -> list[Mechanism]:
    [[count, described], *_] = ledger_plan(folder)
    return [mechanism("gaussian", 1.0, described["scale"] / described["sensitivity"], 1)] * count


def ledger_plan(folder: Path) -> list[Any]:
    line = (agent_folder(folder, 0) / "ledger.jsonl").read_text().splitlines()[0]
    plan: list[Any] = json.loads(line[:-9])["plan"]
    return plan


def charge(folder: Path, releases: int) -> None:
    """Charge releases of every agent, as their processes would."""
    run = read_run(folder)
    for agent, rows in enumerate(run.rows):
        with LedgerFile.open(agent_folder(folder, agent) / "ledger.jsonl", rows.digest()) as ledger:
            for index in range(releases):
                mechanism = ledger.ledger.plan.alike(index)[1]
                ledger.reserve(index, index, mechanism, extra={"run": run.run.hex()})


def registry_of(file: Path) -> Registry:
    return Registry(file.with_name("people.csv.spent"))


# --- what is added up ------------------------------------------------------------------------------------------------


def test_runs_without_a_seed_add_up(file: Path, tmp_path: Path) -> None:
    first = dealt(tmp_path / "a", table(file))
    assert (first["earlier_runs"], first["together"]["runs"]) == ([], 1)
    dealt(tmp_path / "b", table(file))
    third = dealt(tmp_path / "elsewhere" / "c", table(file))
    assert [run["run"] for run in third["earlier_runs"]] == ["a", "b"]
    most = total([m for name in ("a", "b", "elsewhere/c") for m in planned(tmp_path / name)], 1e-4).epsilon
    assert third["together"]["epsilon"] == pytest.approx(most, rel=1e-6)
    assert 1.5 < most < 3.0
    assert third["together"]["records"] < third["together"]["of"]  # some were held out before


@pytest.mark.parametrize(
    "changes",
    [
        {"run": {"seed": 5}},
        {"data": {"held_out": 0.1}},
        {"data": {"bounds": {"age": [0.0, 2.0]}}},
        {"data": {"drop": []} | {"bounds": {"age": [0.0, 1.0], "id": [0.0, 100.0]}}},
        {"privacy": {"mechanism": "laplace", "clip": 2.0}},
        {"data": {"row_scaling": "record"}},
        {"data": {"column": None, "agents": 3, "drop": ["id", "clinic"]}},
    ],
)
def test_other_settings_are_the_same_records(file: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    dealt(tmp_path / "a", table(file))
    sections = table(file, **changes)
    sections["data"] = {key: value for key, value in sections["data"].items() if value is not None}
    found = dealt(tmp_path / "b", sections)
    assert [run["run"] for run in found["earlier_runs"]] == ["a"]
    assert found["together"]["unknown"] == 0


def test_numbers_that_are_written_otherwise_are_the_same_records(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    lines = [line.split(",") for line in file.read_text().splitlines()]
    changed = [[id_, clinic, age if age == "age" else str(float(age)), ill] for id_, clinic, age, ill in lines]
    file.write_text("\n".join(",".join(reversed(line)) for line in reversed(changed[1:])) + "\n")
    file.write_text("ill,age,clinic,id\n" + file.read_text())
    found = dealt(tmp_path / "b", table(file))
    assert found["together"]["unknown"] == 0
    assert found["together"]["epsilon"] > 1.3


def test_a_run_on_some_of_the_groups_touches_only_their_records(file: Path, tmp_path: Path) -> None:
    whole = file.read_text().splitlines(keepends=True)
    other = file.with_name("others.csv")
    other.write_text("".join([whole[0], *(line for line in whole[1:] if "clinic 0" in line or "clinic 1" in line)]))
    shared = {"registry": str(tmp_path / "shared")}
    dealt(tmp_path / "a", table(other, data=shared))
    found = dealt(tmp_path / "b", table(file, data=shared))
    assert 0 < found["together"]["records"] <= 14
    assert found["together"]["of"] == 28
    rest = file.with_name("rest.csv")
    rest.write_text("".join([whole[0], *(line for line in whole[1:] if "clinic 2" in line or "clinic 3" in line)]))
    assert [run["run"] for run in dealt(tmp_path / "c", table(rest, data=shared))["earlier_runs"]] == ["b"]


def test_changed_records_are_counted_as_unknown(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    file.write_text(file.read_text().replace("clinic", "praxis"))
    sections = table(file)
    sections["data"]["column"] = "praxis"
    assert dealt(tmp_path / "b", sections)["together"]["unknown"] == 28


def test_a_run_without_noise_exposes_its_records(file: Path, tmp_path: Path) -> None:
    sections = table(file)
    sections["privacy"] = {}
    dealt(tmp_path / "a", sections)
    found = dealt(tmp_path / "b", table(file))
    assert found["together"]["epsilon"] is None
    assert found["earlier_runs"][0]["epsilon_max"] is None
    simulated = dealt(
        tmp_path / "c", table(file, run={"seed": 1, "simulation": True}, data={"registry": str(tmp_path / "r")})
    )
    assert simulated["together"]["epsilon"] is None


def test_a_run_is_settled_to_what_its_ledgers_hold(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    charge(tmp_path / "a", 2)
    with LedgerFile.read(agent_folder(tmp_path / "a", 0) / "ledger.jsonl", None) as held:
        import fcntl

        fcntl.flock(held.fileno(), fcntl.LOCK_EX)
        settle(tmp_path / "a")  # an agent still speaks: its reservation stays
        [run] = dealt(tmp_path / "b", table(file))["earlier_runs"]
        assert run["reserved"]
        assert run["epsilon_max"] == pytest.approx(1.0, rel=1e-3)
    settle(tmp_path / "a")
    settle(tmp_path / "b")
    [run] = dealt(tmp_path / "c", table(file))["earlier_runs"]
    two = total(planned(tmp_path / "a")[:2], 1e-4).epsilon
    assert run == {"run": "a", "delta": 1e-4, "reserved": False} | {
        "epsilon_max": pytest.approx(two, rel=1e-6),
        "epsilon_mean": pytest.approx(two, rel=1e-6),
    }


def test_a_copy_of_a_ledger_settles_nothing_before_its_agent_has_finished(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    charge(tmp_path / "a", 2)
    (tmp_path / "a" / "handed-over").touch()  # the ledgers here are copies of those in the parts
    settle(tmp_path / "a")
    entry = registry_of(file).entry(read_run(tmp_path / "a").run.hex())
    assert entry is not None
    assert not entry.settled
    assert [sum((part.costs or {}).values()) for part in entry.parts] == [5, 5, 5, 5]


def test_a_torn_charge_is_not_forgotten(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    charge(tmp_path / "a", 1)
    path = agent_folder(tmp_path / "a", 0) / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    settle(tmp_path / "a")
    entry = registry_of(file).entry(read_run(tmp_path / "a").run.hex())
    assert entry is not None
    assert entry.settled
    assert [sum((part.costs or {}).values()) for part in entry.parts] == [1, 1, 1, 1]


def test_force_goes_on_from_what_the_first_run_charged(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file, run={"seed": 3}))
    found = dealt(tmp_path / "a", table(file, run={"seed": 3}), force=True)
    assert found["earlier_runs"] == []
    assert found["together"]["epsilon"] == pytest.approx(1.0, rel=1e-3)


# --- a total ---------------------------------------------------------------------------------------------------------


def test_a_stated_total_is_kept_and_remembered(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file, privacy={"total_epsilon": 1.0}))  # a run may spend all of it
    with pytest.raises(ConfigurationError) as refused:
        dealt(tmp_path / "b", table(file))
    assert not (tmp_path / "b").exists()
    message = str(refused.value)
    for words in ("privacy.total_epsilon = 1", "a 1 (reserved)", "epsilon 1.4", "or more", "people.csv.spent"):
        assert words in message
    allowed = float(message.split("total_epsilon = ")[2].split()[0])
    assert len(registry_of(file).entries()) == 1
    dealt(tmp_path / "b", table(file, privacy={"total_epsilon": allowed}))
    with pytest.raises(ConfigurationError, match="total_epsilon"):
        dealt(tmp_path / "c", table(file))


def test_a_total_refuses_runs_without_noise(file: Path, tmp_path: Path) -> None:
    sections = table(file)
    sections["privacy"] = {"total_epsilon": 3.0}
    with pytest.raises(ConfigurationError, match="without noise"):
        dealt(tmp_path / "a", sections)
    with pytest.raises(ConfigurationError, match="holder of the seed"):
        dealt(tmp_path / "a", table(file, run={"seed": 1, "simulation": True}, privacy={"total_epsilon": 3.0}))


def test_figures_that_no_budget_covers_are_noted_or_refused(file: Path, tmp_path: Path) -> None:
    configuration = from_table(table(file))
    note_figures(configuration, "tune")
    found = dealt(tmp_path / "a", table(file, privacy={"total_epsilon": 3.0}))
    assert found["together"]["figures"] == 1
    with pytest.raises(ConfigurationError, match="compare shows scores of these records"):
        note_figures(configuration, "compare")


def test_budget_shows_what_a_run_would_add_and_writes_nothing(file: Path, tmp_path: Path) -> None:
    configuration = from_table(table(file))
    assert bought(configuration).on_these_data is None
    dealt(tmp_path / "a", table(file))
    before = sorted(tmp_path.rglob("*"))
    found = bought(configuration).on_these_data
    assert found is not None
    assert sorted(tmp_path.rglob("*")) == before
    assert [run.run for run in found.earlier_runs] == ["a"]
    assert 1.0 < found.together.epsilon < 2.0


def test_of_two_runs_at_once_only_one_gets_the_budget(file: Path, tmp_path: Path) -> None:
    sections = table(file, privacy={"total_epsilon": 1.2})
    refused: list[str] = []

    def deal(name: str) -> None:
        try:
            dealt(tmp_path / name, sections)
        except ConfigurationError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=deal, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    assert len(registry_of(file).entries()) == 1


def test_a_dealing_that_fails_reserves_nothing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        assert len(registry_of(file).entries()) == 1  # reserved before the folder is there
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(dealing, "fill", full)
    with pytest.raises(OSError, match="No space"):
        dealt(tmp_path / "a", table(file))
    assert registry_of(file).entries() == []


# --- the folder ------------------------------------------------------------------------------------------------------


def test_a_registry_is_private_and_confirms_no_guess(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    dealt(tmp_path / "b", table(file, data={"registry": str(tmp_path / "other")}))
    folder = registry_of(file).folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    one, other = registry_of(file).entries()[0], Registry(tmp_path / "other").entries()[0]
    assert not set(one.parts[0].records.tolist()) & set(other.parts[0].records.tolist())
    manifest = (tmp_path / "b" / "manifest.json").read_text()
    assert "other" not in json.loads(manifest)["privacy"]
    assert str(tmp_path) not in manifest


def test_a_damaged_entry_is_an_error(file: Path, tmp_path: Path) -> None:
    dealt(tmp_path / "a", table(file))
    [path] = registry_of(file).folder.glob("*.json")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ConfigurationError, match="what that run spent is not known"):
        dealt(tmp_path / "b", table(file))


def test_where_the_data_cannot_be_written_the_registry_lies_beside_the_runs(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = dealt(tmp_path / "a", table(file))
    assert found["registry"] == str(tmp_path / "data.spent")
    assert any("data.registry" in warning for warning in read_run(tmp_path / "a").manifest.warnings)


def test_a_profile_is_among_what_a_run_reserves_and_what_it_has_spent(file: Path, tmp_path: Path) -> None:
    learned = {"topology": {"kind": "private-similarity", "neighbours": 2, "share": 0.3}}
    folder = tmp_path / "learned"
    dealt(folder, table(file, **learned))
    run = read_run(folder).run.hex()
    reserved = registry_of(file).entry(run)
    assert reserved is not None
    assert [sum(part.costs.values()) for part in reserved.parts if part.costs is not None] == [6] * 4
    charge(folder, 2)
    settle(folder)
    spent = registry_of(file).entry(run)
    assert spent is not None
    assert spent.settled
    assert [sum(part.costs.values()) for part in spent.parts if part.costs is not None] == [3] * 4
    more = dealt(tmp_path / "more", table(file))
    assert [run["run"] for run in more["earlier_runs"]] == ["learned"]
    reserve_again(folder, from_table(table(file, **learned)))
    again = registry_of(file).entry(run)
    assert again is not None
    assert [part.costs for part in again.parts] == [part.costs for part in reserved.parts]
