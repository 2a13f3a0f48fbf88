"""The manifest survives being written, and one that is not whole names what it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.folder.manifest import Manifest, Metric, RunFolderError, read_manifest
from tests.helpers.tables import public


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = deal_run(from_table(public()), tmp_path / "run")
    assert read_manifest(tmp_path / "run") == manifest
    document = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert Manifest.from_json(document).to_json() == document
    assert manifest.metric == Metric("accuracy", larger_is_better=True)
    assert len(manifest.names) == len(manifest.records) == len(manifest.releases) == manifest.agents == 10


def test_a_manifest_that_is_not_whole_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"agents": 4}')
    with pytest.raises(RunFolderError, match=r"manifest.json is not whole: '\w+'; deal the run again"):
        read_manifest(tmp_path)
