"""A study of hosts with data of their own, of which one holds a value that is looked for elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from node.configuration.reading import load_for_host
from node.configuration.sections import Configuration

CANARY = 0.1234567890123
STUDY = """
[run]
seed = 3
[data]
source = "csv"
path = "ours.csv"
label = "label"
positive = "yes"
negative = ["no"]
bounds = {"*" = [-1.0, 1.0]}
[topology]
kind = "complete"
[learning]
loss = "logistic"
mu = 1.0
[clock]
updates = 5
[privacy]
mechanism = "gaussian"
epsilon = 1.0
delta = 1e-5
clip = 1.0
"""


def study(folder: Path, name: str, *overrides: str) -> Configuration:
    """The configuration with data of a host; alpha's hold the canary in every row."""
    random = np.random.default_rng(len(name))
    rows = random.uniform(-1, 1, (20, 2))
    if name == "alpha":
        rows[:, 1] = CANARY
    lines = [f"{a!r},{b!r},{'yes' if a > 0 else 'no'}" for a, b in rows.tolist()]
    (folder / f"{name}.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    (folder / "study.toml").write_text(STUDY)
    return load_for_host(folder / "study.toml", [f"data.path={folder / name}.csv", *overrides])
