"""Results and details: one reader beside one writer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node.folder.endings import Failure
from node.folder.manifest import RunFolderError
from node.folder.watch import Watch, read_watch, write_watch
from node.results.details import read_details, write_details
from node.results.results import Results, read_results, write_results
from tests.helpers.documents import conforms


def test_what_is_read_is_written_again_to_the_last_byte(private_run: Path, open_run: Path, tmp_path: Path) -> None:
    for run in (private_run, open_run):
        results, details = read_results(run), read_details(run)
        write_results(tmp_path, results)
        write_details(tmp_path, details)
        for name in ("results.json", "details.json"):
            assert (tmp_path / name).read_bytes() == (run / name).read_bytes()
        conforms(results.to_json(), "results")
        conforms(details.to_json(), "details")


def test_results_of_before_versions_are_read(open_run: Path) -> None:
    document = json.loads((open_run / "results.json").read_text())
    del document["version"], document["network"], document["staleness"]
    old = Results.from_json(document)
    assert (old.version, old.network, old.staleness) == (0, None, None)
    conforms(old.to_json(), "results")
    assert old.together == read_results(open_run).together


def test_failures_of_before_version_2_are_read(open_run: Path) -> None:
    failure = {"who": "agent-0001", "status": 3, "last_words": ["not ready"]}
    document = json.loads((open_run / "results.json").read_text()) | {"version": 1, "failures": [failure]}
    old = Results.from_json(document)
    assert old.failures == (Failure("agent-0001", 3, ("not ready",)),)
    conforms(old.to_json(), "results")
    assert "who" not in old.to_json()["failures"][0]


def test_links_and_faults_keep_their_keys(open_run: Path) -> None:
    document = json.loads((open_run / "results.json").read_text())
    document["network"] = {
        "links": [{"from": 1, "to": 0, "dropped": 2, "late": 1}],
        "faults": [{"fault": "pause", "agents": [1], "seconds": 0.5}],
    }
    results = Results.from_json(document)
    assert results.network is not None
    assert results.network.links[0].counts == {"dropped": 2, "late": 1}
    assert results.to_json() == document


@pytest.mark.parametrize("name", ["results.json", "details.json"])
def test_a_document_that_is_not_whole_is_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    read = read_results if name == "results.json" else read_details
    with pytest.raises(RunFolderError, match="has no results"):
        read(tmp_path)
    (tmp_path / name).write_text('{"world": "twin"}')
    with pytest.raises(RunFolderError, match=rf"{name} is not whole"):
        read(tmp_path)


def test_what_a_launcher_noted_is_read_again(tmp_path: Path) -> None:
    assert read_watch(tmp_path) is None
    noted = Watch(ready_s=1.5, wall_s=3.0, failures=[Failure("agent-0001", 3, ("not ready",))])
    write_watch(tmp_path, noted)
    assert read_watch(tmp_path) == noted
    written = (tmp_path / "watch.json").read_text()
    (tmp_path / "watch.json").write_text(written.replace('"process"', '"who"'))
    assert read_watch(tmp_path) == noted, "folders of before version 2 are read"
    (tmp_path / "watch.json").write_text('{"wall_s": 2.0}')
    assert read_watch(tmp_path) == Watch(wall_s=2.0)
