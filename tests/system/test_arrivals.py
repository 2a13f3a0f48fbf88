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
    """A column of the data says when; one agent has no record before update 3."""
    sections = table(learning={"mu": 1.0}, privacy={"uses": 10})
    rows = [
        f"{i % 6},{i / 60},{'yes' if i % 7 < 3 else 'no'},{3 + i // 2 if i % 6 == 5 else i // 2}" for i in range(60)
    ]
    (tmp_path / "timed.csv").write_text("\n".join(["who,age,ill,update", *rows, ""]))
    sections["data"] = {"source": "csv", "path": str(tmp_path / "timed.csv"), "column": "who", "label": "ill"}
    sections["data"] |= {"positive": "yes", "negative": "no", "bounds": {"age": [0, 1]}, "arriving_column": "update"}
    assert ran(tmp_path / "run", sections).failures == []
    assert verify(tmp_path / "run").ok
    assert spent(tmp_path / "run").epsilons == pytest.approx(1.0, rel=1e-3)
    with LedgerFile.read(agent_folder(tmp_path / "run", 0) / "ledger.jsonl", None) as ledger:
        everything = [charge.mechanism for charge in ledger.charges() for _ in range(charge.count)]
    assert total(everything, 1e-5).epsilon > 1.5
