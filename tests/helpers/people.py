"""A small file of a user's own records, a configuration on it, and commands on that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.cli import main
from node.configuration.public import dump
from node.configuration.reading import from_table


def people(folder: Path, seed: int = 1, **privacy: Any) -> dict[str, Any]:
    """Twelve people with six records each: other cells for another seed, within the same bounds."""
    random = np.random.default_rng(seed)
    lines = ["who,age,size,score"]
    for person in range(12):
        for _ in range(6):
            age, size, score = random.integers(20, 60), random.uniform(0, 1), random.uniform(3, 7)
            lines.append(f"p{person},{age},{size:.3f},{score:.2f}")
    folder.mkdir(exist_ok=True)
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    return {
        "run": {"seed": 1},
        "data": {
            "source": "csv",
            "path": str(folder / "people.csv"),
            "column": "who",
            "label": "score",
            "bounds": {"age": [0, 100], "size": [0, 1], "score": [0, 10]},
            "centring": "bounds",
        },
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "gradient-descent", "loss": "squared", "step": 0.5, "finish": True},
        "clock": {"updates": 3},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0} | privacy,
    }


def written(table: dict[str, Any], folder: Path) -> str:
    path = folder / "people.toml"
    path.write_text(dump(from_table(table, name="people")), encoding="utf-8")
    return str(path)


def command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    told = capsys.readouterr()
    assert ended.value.code == code, told.err
    return told.out if code == 0 else told.err
