"""What ``--json`` prints is strict JSON with a version."""

from __future__ import annotations

import json
import math

import pytest

from node.cli import main
from node.commands.documents import document_text
from tests.helpers.documents import conforms


def test_what_json_has_no_number_for_is_null() -> None:
    text = document_text({"a": math.nan, "b": [1.0, math.inf, {"c": (-math.inf, 2)}], "d": "x"})
    assert json.loads(text) == {"version": 1, "a": None, "b": [1.0, None, {"c": [None, 2]}], "d": "x"}


def test_a_document_keeps_its_own_version() -> None:
    assert json.loads(document_text({"version": 7}))["version"] == 7


def test_the_list_of_figures_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "--json"])
    assert ended.value.code in (0, None)
    conforms(json.loads(capsys.readouterr().out), "figures")
