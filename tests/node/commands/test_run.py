"""``sottovoce run``: what it refuses before anything is dealt."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.cli import main
from node.configuration.public import dump
from node.configuration.reading import from_table
from tests.helpers.tables import public


def test_a_sweep_is_told_which_folder_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(dump(from_table(public(run={"name": None}), name="sweep")))
    (tmp_path / "runs" / "sweep").mkdir(parents=True)
    (tmp_path / "runs" / "sweep" / "manifest.json").write_text("{}")
    (tmp_path / "runs" / "sweep-mu-3-updates-5").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["run", "sweep.toml", "--set", "learning.mu=3", "--set", "clock.updates=5"])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "run folder runs/sweep exists" in line
    assert line.endswith("--out runs/sweep-mu-3-updates-5-2")
