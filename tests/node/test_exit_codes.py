"""The table of exit codes, and that the page about it agrees."""

from __future__ import annotations

import re

from node.exit_codes import ExitCode
from tests.helpers.places import ROOT


def test_the_page_prints_the_table() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([a-z ]+) \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(str(int(code)), code.name.lower().replace("_", " "), code.meaning) for code in ExitCode]
