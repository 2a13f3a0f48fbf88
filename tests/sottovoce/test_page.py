"""The examples of docs/python.md work as they are written."""

from __future__ import annotations

import re

import pytest

from tests.helpers.places import ROOT


@pytest.mark.processes
def test_the_examples_run_in_their_order(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["bought"].epsilon <= 1.0
