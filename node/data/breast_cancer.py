"""Wisconsin breast cancer, original (Wolberg 1992): nine scores from 1 to 10.

Of 699 samples, 683 have no missing value; the others are dropped.
"""

from __future__ import annotations

from node.configuration.data import DataSection
from node.data import people
from node.data.columns import Number, Plan
from node.data.csv_file import read_columns, without_missing
from node.data.paths import bundled, one_of
from node.data.table import Table

_SCORES = (
    "Cl.thickness",
    "Cell.size",
    "Cell.shape",
    "Marg.adhesion",
    "Epith.c.size",
    "Bare.nuclei",
    "Bl.cromatin",
    "Normal.nucleoli",
    "Mitoses",
)
PLAN: Plan = {name: Number(1.0, 10.0) for name in _SCORES}

LABELS = ("malignant", "benign")
"""What becomes 1, and what becomes -1."""


def load(section: DataSection, norm: str) -> Table:
    """Malignant is 1, benign -1. Nine scores in [-1, 1] and an intercept, divided by sqrt(10)."""
    path = one_of(bundled("breast-cancer", section.path), ("breast_cancer_wisconsin_original.csv",))
    columns = without_missing(read_columns(path), "")
    return people.table(
        columns,
        people.without(PLAN, section),
        people.signs(columns["Class"], *LABELS),
        section,
        norm=norm,
        intercept=True,
        scaling="public",
        record="one tissue sample",
    )
