"""The examples of docs/privacy.md work as they are written."""

from __future__ import annotations

import re

import numpy as np
import pytest

from coordinator_free.privacy.mechanism import GRID
from tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "privacy.md"
CODE = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SECRET = bytes(32)


def test_the_first_example(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"vector": np.linspace(-1.0, 1.0, 10), "secret": SECRET}
    exec(CODE[0], names)
    assert "privacy loss distribution" in capsys.readouterr().out
    assert np.array_equal(names["release"], np.rint(names["release"] / GRID) * GRID)
