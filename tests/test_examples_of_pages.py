"""The examples of the pages work as they are printed: Python beside a run in ``runs/schools``, and the page of data."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.dealing.rows import deal_data
from tests.helpers.places import ROOT
from tests.helpers.twin_runs import finished

PAGES = ("algorithms", "audit", "privacy", "topology", "traffic-log")

CLINICS = ("north", "south")


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    finished(
        folder / "runs" / "schools",
        {
            "run": {"seed": 1},
            "data": {"source": "synthetic", "agents": 4, "dimension": 3, "records": [8, 12]},
            "topology": {"kind": "ring"},
            "learning": {"mu": 1.0, "loss": "squared", "smoothness": "bound"},
            "clock": {"updates": 4},
            "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
        },
    )
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: str, beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(beside)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, f"docs/{page}.md", "exec"), {})


def test_the_example_of_a_file_of_your_own_is_dealt(tmp_path: Path) -> None:
    [text] = re.findall(
        r"```toml\n(\[data\].*?)```", (ROOT / "docs" / "data.md").read_text(encoding="utf-8"), re.DOTALL
    )
    rows = [
        f"{k},{clinic},{30 + k},{90 + k},{'ABC'[k % 3]},{('yes', 'no')[k % 2]}" for k in range(6) for clinic in CLINICS
    ]
    (tmp_path / "patients.csv").write_text("\n".join(["id,clinic,age,pressure,ward,readmitted", *rows]) + "\n")
    table = {
        "run": {"seed": 1},
        "topology": {"kind": "path"},
        "learning": {"mu": 1.0, "smoothness": "bound"},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    }
    dealt = deal_data(from_table({**table, **tomllib.loads(text)}, folder=tmp_path), 1)
    assert len(dealt.shards) == len(CLINICS)
    assert dealt.record == "one visit"
    assert dealt.public_assumptions == (), "the example states all that must be public"
