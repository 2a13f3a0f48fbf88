"""The examples of docs/privacy.md work as they are written."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanisms import GRID, MechanismError, from_description
from coordinator_free.privacy.noise import Stream

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
CODE = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SECRET = bytes(32)


def test_the_first_example(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"vector": np.linspace(-1.0, 1.0, 10), "secret": SECRET}
    exec(CODE[0], names)
    assert "privacy loss distribution" in capsys.readouterr().out
    assert np.array_equal(names["release"], np.rint(names["release"] / GRID) * GRID)


def test_a_mechanism_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_noise.py").write_text(CODE[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_noise", raising=False)
    made = importlib.import_module("my_noise").MaxNorm(0.5, 2.0)
    assert from_description(json.loads(json.dumps(made.describe()))) == made
    assert total([made] * 4, 0.0).epsilon == pytest.approx(1.0)
    drawn = np.array([made.noise(3, Stream(SECRET, index)) for index in range(4000)])
    assert stats.kstest(np.abs(drawn).max(axis=1) / 2.0, stats.gamma(3).cdf).pvalue > 1e-4
    point = np.array([0.3, -0.1, 0.2])
    assert made.log_density(point) - made.log_density(point + 0.5) <= 0.25 + 1e-12
    for wrong in ({"scale": -1.0, "more": 1}, {"name": "my_noise:Nothing"}, {"name": "no_such_module:X"}):
        with pytest.raises(MechanismError):
            from_description(made.describe() | wrong)
