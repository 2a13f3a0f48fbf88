"""Cards of hosts: public, checked, and enough to deal each host's agents in place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from node.configuration.refusals import ConfigurationError
from node.dealing.card import Assembly, Card, check_together, dealt_of, hosts_of, read_assembly, read_card
from node.dealing.in_place import CARD, HELD, deal_in_place, make_card
from node.folder.hosts import read_hosts
from node.folder.ledger import LedgerFile
from node.folder.manifest import read_json, read_manifest
from node.folder.shard import read_rows
from node.places import agent_folder, shard_path
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.studies import CANARY, study


@pytest.fixture
def cards(tmp_path: Path) -> dict[str, Card]:
    """The cards of two hosts, whose folders are ``tmp_path / name``; beta has two agents."""
    alpha = make_card(study(tmp_path, "alpha"), tmp_path / "alpha", "alpha", eavesdropper=True)
    two = study(tmp_path, "beta", "data.agents=2")
    return {"alpha": alpha, "beta": make_card(two, tmp_path / "beta", "beta", eavesdropper=False)}


def assembled(cards: dict[str, Card]) -> Assembly:
    return Assembly(run="ab" * 16, seed=3, cards=tuple(cards.values()))


def test_each_host_deals_its_own_agents_and_all_agree(tmp_path: Path, cards: dict[str, Card]) -> None:
    assembly = assembled(cards)
    parts = {name: deal_in_place(tmp_path / name, assembly) for name in cards}
    manifests = [read_manifest(part) for part in parts.values()]
    for name in ("run", "names", "records", "releases", "topology_digest", "configuration_digest"):
        assert getattr(manifests[0], name) == getattr(manifests[1], name)
    assert manifests[0].names[0] == "alpha/agent 0"
    held = {name: sorted(path.name for path in (part / "shards").iterdir()) for name, part in parts.items()}
    assert held == {"alpha": ["agent-0000.npz"], "beta": ["agent-0001.npz", "agent-0002.npz"]}
    assert read_hosts(parts["beta"]) == hosts_of(assembly)
    conforms(read_json(parts["beta"] / "hosts.json"), "hosts")
    rows, public = read_rows(shard_path(parts["beta"], 2))
    assert public.confidence == len(rows.y) / 14
    LedgerFile.read(agent_folder(parts["beta"], 2) / "ledger.jsonl", rows.digest()).close()
    assert (parts["alpha"] / "eavesdropper.key").exists()
    assert not (parts["beta"] / "eavesdropper.key").exists()
    assert deal_in_place(tmp_path / "beta", assembly) == parts["beta"]  # again: nothing changes


def test_no_row_of_a_host_is_in_its_card_or_in_another_hosts_files(tmp_path: Path, cards: dict[str, Card]) -> None:
    for name in cards:
        deal_in_place(tmp_path / name, assembled(cards))
    rows, _ = read_rows(shard_path(next((tmp_path / "alpha").glob("run-*")), 0))
    wanted = (rows.x[0, 2].tobytes(), repr(CANARY)[:10].encode())  # as scaled, and as written
    held = [path for path in (tmp_path / "alpha").rglob("*") if path.is_file()]
    assert any(wanted[0] in path.read_bytes() for path in held)  # the search finds it where it is
    told = [tmp_path / "alpha" / CARD, *(path for path in (tmp_path / "beta").rglob("*") if path.is_file())]
    assert not [path for path in told for one in wanted if one in path.read_bytes()]


@pytest.mark.parametrize("name", ["private", "secret", "seed", "digest"])
def test_a_card_tells_nothing_that_stays_with_its_host(tmp_path: Path, cards: dict[str, Card], name: str) -> None:
    held, text = json.loads((tmp_path / "alpha" / HELD).read_text()), (tmp_path / "alpha" / CARD).read_text()
    assert (tmp_path / "alpha" / HELD).stat().st_mode & 0o777 == 0o600
    assert name not in text
    assert not any(key in text for key in (*held["keys"], held["eavesdropper"], held["digest"]))


Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda card: card.update(host="alpha"), "host 'alpha' comes twice"),
        (lambda card: card.update(host="../alpha"), "host: "),
        (lambda card: card.update(more=1), "more: "),
        (lambda card: card.update(agents=[]), "agents: "),
        (lambda card: card["agents"][0].update(records=10**9), "agents.0.records: "),
        (lambda card: card["agents"][0].update(records=-1), "agents.0.records: "),
        (lambda card: card["agents"][0].update(records="7"), "agents.0.records: "),
        (lambda card: card["agents"][0].update(name="a\nb"), "agents.0.name: "),
        (lambda card: card["agents"][0].update(key="x"), "agents.0.key: "),
        (lambda card: card["agents"][1].update(key=card["agents"][0]["key"]), "comes twice"),
        (lambda card: card["agents"][1].update(name=card["agents"][0]["name"]), "agent 'agent 0' comes twice"),
        (lambda card: card["row_bounds"].update(l2=0.5), "another row bounds"),
        (lambda card: card.update(settings="0" * 64), "other settings"),
        (lambda card: card.update(eavesdropper=True), "each runs an eavesdropper"),
        (lambda card: card.update(features=["a"]), "another features"),
    ],
)
def test_a_card_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, cards: dict[str, Card], change: Change, words: str
) -> None:
    path = tmp_path / "beta" / CARD
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError) as refused:
        check_together([cards["alpha"], read_card(path)])
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card.update(host="../alpha"),
        lambda card: card.update(more=1),
        lambda card: card.update(agents=[]),
        lambda card: card["agents"][0].update(records="7"),
        lambda card: card["agents"][0].update(key="x"),
        lambda card: card.pop("settings"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(tmp_path: Path, cards: dict[str, Card], change: Change) -> None:
    path = tmp_path / "beta" / CARD
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError):
        read_card(path)
    with pytest.raises(AssertionError):
        conforms(document, "card")


def test_a_host_refuses_a_run_that_changed_its_card_or_its_settings(tmp_path: Path, cards: dict[str, Card]) -> None:
    lying = cards["beta"].agents[0].model_copy(update={"records": 5000})
    changed = cards["beta"].model_copy(update={"agents": (lying, cards["beta"].agents[1])})
    with pytest.raises(ConfigurationError, match="as it was made"):
        deal_in_place(tmp_path / "beta", assembled(cards | {"beta": changed}))
    held = tmp_path / "beta" / HELD
    document = json.loads(held.read_text())
    document["configuration"] = document["configuration"].replace("epsilon = 1.0", "epsilon = 0.5")
    held.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match="other settings"):
        deal_in_place(tmp_path / "beta", assembled(cards))


def test_data_that_changed_after_the_card_are_refused(tmp_path: Path, cards: dict[str, Card]) -> None:
    path = tmp_path / "beta.csv"
    path.write_text(path.read_text().replace("yes", "no", 1))
    with pytest.raises(ConfigurationError, match="changed since the card was made"):
        deal_in_place(tmp_path / "beta", assembled(cards))
    assert not list((tmp_path / "beta").glob("run-*"))


@pytest.mark.parametrize(
    "override",
    [
        "topology.kind=file",
        "learning.smoothness=data",
        "network.encryption=false",
        "audit.canaries=4",
    ],
)
def test_what_needs_the_rows_of_all_is_refused(tmp_path: Path, override: str) -> None:
    study(tmp_path, "alpha")
    given = ["--host", "alpha", "--set", f"data.path={tmp_path}/alpha.csv", "--set", override]
    answer = answered("card", tmp_path / "study.toml", *given, "--out", tmp_path / "new")
    assert answer.returncode == 2
    assert not (tmp_path / "new").exists()


def test_the_commands_make_and_check_an_assembled_run(tmp_path: Path, cards: dict[str, Card]) -> None:
    paths = [tmp_path / name / CARD for name in cards]
    answer = answered("assemble", tmp_path / "study.toml", *paths, "--out", tmp_path / "run.json")
    assert answer.returncode == 0, answer.stderr
    assert "alpha: 1 agents, 14 training records, and the eavesdropper" in answer.stdout
    assembly = read_assembly(tmp_path / "run.json")
    conforms(read_json(tmp_path / "run.json"), "assembled-run")
    for path in paths:
        conforms(read_json(path), "card")
    assert assembly.cards == tuple(cards.values())
    assert dealt_of(assembly).dimension == 3
    other = answered("assemble", tmp_path / "study.toml", *paths, "--out", tmp_path / "b", "--set", "privacy.epsilon=2")
    assert other.returncode == 2
    assert "other settings" in other.stderr
