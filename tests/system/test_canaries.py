"""Canaries over real processes: an outsider with the log and the coins, and with nothing else, verifies the run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from node.audit.outsider import audit_log
from tests.helpers.clusters import ran, table

pytestmark = pytest.mark.processes


def test_an_outsider_verifies_a_run_over_processes(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    watch = ran(run, table(audit={"canaries": 60}))
    assert watch.failures == []
    outside.mkdir()
    for name in ("traffic.mcap", "coins.json"):
        shutil.copy(run / name, outside / name)
    shutil.rmtree(run)
    found = audit_log([outside / "traffic.mcap"], outside / "coins.json", confidence=0.999)
    assert found.capture.complete
    assert found.canaries == 60
    assert found.accounted == pytest.approx(1.0, abs=1e-6)
    assert found.attacked_if_charged is not None
    assert found.attacked_if_charged <= 1.0
    assert found.noise.releases == 6 * 40
    # Secrets are drawn by the agents' machine, so chance has a part: each kind of finding has 1 in 1,000.
    assert len(found.findings) <= 1
