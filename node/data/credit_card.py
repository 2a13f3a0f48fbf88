"""Credit card fraud (Worldline and the machine learning group of ULB): 284,807 payments, 492 of them frauds.

The file is ``creditcard.csv`` as published: Time, V1 to V28, Amount, Class. V1 to V28 are principal components that the
publisher computed from all payments, which every run names as an assumption. Nothing public bounds them: values beyond
10 are cut.
"""

from __future__ import annotations

from node.configuration.data import DataSection
from node.data import people
from node.data.columns import Number, Plan
from node.data.csv_file import read_columns
from node.data.paths import existing, one_of
from node.data.table import Table

_TWO_DAYS, _COMPONENTS = 172_800.0, 28

PLAN: Plan = {
    "Time": Number(0.0, _TWO_DAYS, start=0.0, clip=True),
    **{f"V{k}": Number(-10.0, 10.0, clip=True) for k in range(1, _COMPONENTS + 1)},
    "Amount": Number(0.0, 5_000.0, start=0.0, clip=True),
}

LABELS = ("1", "0")
"""What becomes 1, a fraud, and what becomes -1."""
ASSUMED = "credit-card: columns V1 to V28 are principal components of all payments, computed by the publisher"


def load(section: DataSection, norm: str) -> Table:
    """Load the payments; ``data.path`` is the file, plain or gzip, or the folder that holds it."""
    columns = read_columns(one_of(existing(section.path or ""), ("creditcard.csv", "creditcard.csv.gz")))
    people.check_columns(columns, (*PLAN, "Class"), section.source)
    return people.table(
        columns,
        people.without(PLAN, section),
        people.signs(columns["Class"], *LABELS),
        section,
        norm=norm,
        intercept=True,
        scaling="record",
        record="one payment",
        public_assumptions=(ASSUMED,),
    )
