"""The place of a run: what is in it is never lost, whoever asks for it, and one process at a time deals there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from node.configuration.public import dump
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing import place
from node.dealing.folder import deal_run
from node.dealing.place import claimed, fill
from node.places import agent_folder
from node.worlds.steps import environment
from tests.helpers.tables import private, public


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def finished(building: Path, words: str) -> None:
    """A stand-in for a dealt run."""
    (building / "manifest.json").write_text(words)
    agent_folder(building, 0).mkdir(parents=True)
    (agent_folder(building, 0) / "ledger.jsonl").write_text(words)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_holds_no_run_is_left_as_it_is(tmp_path: Path, force: bool) -> None:
    home = tmp_path / "home"
    (home / ".git").mkdir(parents=True)
    (home / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (home / "thesis.tex").write_text("years of work")
    before = contents(home)
    with pytest.raises(ConfigurationError, match=r"exists and holds no run.*choose another --out"):
        deal_run(from_table(public(data={"agents": 4})), home, force=force)
    assert contents(home) == before
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_force_replaces_only_what_a_run_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = deal_run(from_table(public()), folder)
    notes = folder / "notes" / "results.json"
    notes.parent.mkdir()
    notes.write_text("mine")
    (folder / ".git").mkdir()
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "results.json").write_text("of the first run")
    second = deal_run(from_table(public()), folder, force=True)
    assert second.run != first.run
    assert notes.read_text() == "mine"
    assert (folder / ".git").is_dir()
    assert (folder / "elsewhere").is_symlink()
    assert not (folder / "results.json").exists()
    assert not list(folder.glob(".manifest*"))


def test_a_run_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with claimed(folder, force=False) as building:
        finished(building, "slow")
        finished(folder, "fast")  # as a program would that knows nothing of claims
        before = contents(folder)
        with pytest.raises(ConfigurationError, match="written meanwhile"):
            fill(folder, building)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_empty_folder_that_was_filled_meanwhile_stays(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with claimed(folder, force=False) as building:
        finished(building, "slow")
        (folder / "mine.txt").write_text("mine")
        with pytest.raises(ConfigurationError, match="could not be put in its place"):
            fill(folder, building)
    assert contents(folder) == {"mine.txt": b"mine"}


def test_two_may_not_deal_in_one_place_and_the_place_is_free_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with claimed(folder, force=False):
        for force in (False, True):
            with pytest.raises(ConfigurationError, match="another process deals there"), claimed(folder, force=force):
                pass
    assert list(tmp_path.iterdir()) == []
    with claimed(folder, force=False) as building:
        finished(building, "second")
        fill(folder, building)
    assert contents(folder)["manifest.json"] == b"second"


def test_what_a_killed_dealing_left_is_no_obstacle_and_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    left = tmp_path / ".run.0123abcd.partial"
    (left / "shards").mkdir(parents=True)
    other = tmp_path / ".run.other.0123abcd.partial"
    other.mkdir()
    with claimed(folder, force=False) as building:
        assert not left.exists()
        finished(building, "new")
        fill(folder, building)
    assert other.exists()
    assert contents(folder)["manifest.json"] == b"new"


def test_a_broken_off_replacement_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(private()), folder)
    ledgers = {path: path.read_bytes() for path in folder.glob("agents/*/ledger.jsonl")}
    with monkeypatch.context() as broken:
        broken.setattr(place, "_remove", lambda path, _: (path / "broken off").rmdir())
        with pytest.raises(OSError, match="broken off"):
            deal_run(from_table(private()), folder, force=True)
    assert not (folder / "manifest.json").exists()
    deal_run(from_table(private()), folder, force=True)
    assert {path: path.read_bytes() for path in ledgers} == ledgers


@pytest.mark.processes
def test_of_three_dealings_at_once_one_wins(tmp_path: Path) -> None:
    text = dump(from_table(public()))
    command = [sys.executable, "-m", "node.dealing", str(tmp_path / "run")]
    pipe = subprocess.PIPE
    three = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment()) for _ in range(3)
    ]
    for one in three:
        assert one.stdin is not None
        one.stdin.write(text)
        one.stdin.close()
        one.stdin = None
    ended = [(*one.communicate(timeout=600), one.returncode) for one in three]
    assert sorted(status for _, _, status in ended) == [0, 2, 2]
    for _, words, status in ended:
        assert (status == 0) == (words == "")
        assert status == 0 or "choose another --out or run.name" in words
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
