"""What is refused of a run on Ray, before anything is dealt and without Ray."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from node.configuration.writing import table_lines
from node.worlds.ray.note import RayNote, read_note, write_note
from tests.helpers.clusters import table
from tests.helpers.command import answered


def configuration(folder: Path, **changes: dict[str, object]) -> Path:
    lines = (line for name, section in table(**changes).items() for line in table_lines(f"[{name}]", section))
    (folder / "run.toml").write_text("\n".join(lines))
    return folder / "run.toml"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--on", "slurm"], "--on slurm: accepted are ray (the cluster of this machine) and ray://HOST:PORT"),
        (["--on", "ray://head"], "--on ray://head: accepted are"),
        (["--on", "ray", "--world", "twin"], "--world has no effect with --on ray"),
        (["--on", "ray", "--force"], "--force has no effect with --on ray"),
        (["--on", "ray", "--set", "network.transport=ipc"], "accepted with --on is 'tcp'"),
    ],
)
def test_what_has_no_meaning_on_ray_is_refused_in_one_line(tmp_path: Path, given: list[str], words: str) -> None:
    answer = answered("run", configuration(tmp_path), "--out", tmp_path / "run", *given)
    assert answer.returncode == 2
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_events_are_refused(tmp_path: Path) -> None:
    path = configuration(tmp_path)
    path.write_text(path.read_text() + '\n[[event]]\nat = 1.0\nfault = "kill"\ntarget = [1]\n')
    answer = answered("run", path, "--out", tmp_path / "run", "--on", "ray")
    assert answer.returncode == 2
    assert "accepted with --on is a configuration without events" in answer.stderr


def test_without_the_extra_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "ray" else found(name, *more))
    answer = answered("run", configuration(tmp_path), "--out", tmp_path / "run", "--on", "ray")
    assert answer.returncode == 2
    assert 'pip install "sottovoce[ray]"' in answer.stderr


def test_collect_needs_the_parts_of_a_run_that_is_not_on_ray(tmp_path: Path) -> None:
    answer = answered("collect", tmp_path)
    assert answer.returncode == 2
    assert "--parts is missing" in answer.stderr


def test_parts_are_not_named_for_a_run_on_ray(tmp_path: Path) -> None:
    write_note(tmp_path, RayNote("ray", {"node-0": "127.0.0.1"}))
    answer = answered("collect", tmp_path, "--parts", tmp_path)
    assert answer.returncode == 2
    assert "--parts" in answer.stderr
    assert "has no effect on a run on Ray" in answer.stderr


def test_a_note_comes_back_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    note = RayNote("ray://head:10001", {"node-0": "10.0.0.1", "node-1": "fd00::2"})
    write_note(tmp_path, note)
    assert read_note(tmp_path) == note
    (tmp_path / "ray.json").write_text(json.dumps({"on": "ray"}))
    with pytest.raises(ValueError, match=r"ray\.json is not whole"):
        read_note(tmp_path)
