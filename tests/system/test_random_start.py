"""A random start over real processes, and in the twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.audit.verify import verify
from tests.helpers.clusters import ran
from tests.helpers.misbehaving_networks import admm, in_twin, releases

pytestmark = pytest.mark.processes


def table(start: str) -> dict[str, object]:
    found = admm()
    found["data"]["agents"], found["clock"]["updates"] = 5, 4
    return {**found, "topology": {"kind": "ring"}, "learning": {**found["learning"], "start": start}}


def test_processes_start_where_the_twin_starts(tmp_path: Path) -> None:
    watch = ran(tmp_path / "run", table("random"))
    assert watch.failures == []
    here, there = releases(tmp_path / "run"), releases(in_twin(tmp_path / "twin", table("random")))
    assert here.keys() == there.keys()
    assert all(here[key].same_as(there[key]) for key in there)
    assert verify(tmp_path / "run").ok
    zero = releases(in_twin(tmp_path / "zero", table("zero")))
    assert not any(here[agent, 0].same_as(zero[agent, 0]) for agent in range(5)), "the start enters the first release"
