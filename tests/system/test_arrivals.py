"""Records that arrive during a run over processes: executed again bit for bit, each within its budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_free.privacy.accounting import total
from node.audit.verify import verify
from node.folder.ledger import LedgerFile
from node.folder.spending import spent
from node.places import agent_folder
from tests.helpers.clusters import ran, table

pytestmark = pytest.mark.processes


def test_records_arrive_in_processes_as_anywhere(tmp_path: Path) -> None:
    sections = table()
    sections["data"] = sections["data"] | {"arriving": 0.5}
    sections["privacy"] = sections["privacy"] | {"uses": 10}
    assert ran(tmp_path / "run", sections).failures == []
    assert verify(tmp_path / "run").ok
    assert spent(tmp_path / "run").epsilons == pytest.approx(1.0, rel=1e-3)
    with LedgerFile.read(agent_folder(tmp_path / "run", 0) / "ledger.jsonl", None) as ledger:
        everything = [charge.mechanism for charge in ledger.charges() for _ in range(charge.count)]
    assert total(everything, 1e-5).epsilon > 1.5
