"""UCI Bank Marketing, ``bank-additional-full`` (Moro, Cortez and Rita 2014): which of 41,188 clients subscribed.

A missing value is a level of its own, "unknown". ``duration`` is known only after the call: leave it out
(``data.drop``) if the model is meant to choose clients to call.
"""

from __future__ import annotations

from node.configuration.data import DataSection
from node.data import people
from node.data.columns import Number, Plan, Words
from node.data.csv_file import read_columns
from node.data.paths import existing, one_of
from node.data.table import Table


def _words(levels: str) -> Words:
    return Words(tuple(levels.split()))


def _between(low: float, high: float) -> Number:
    return Number(low, high, start=0.0, clip=True)


PLAN: Plan = {
    "age": _between(0, 100),
    "job": _words(
        "admin. blue-collar entrepreneur housemaid management retired self-employed services student technician "
        "unemployed unknown"
    ),
    "marital": _words("divorced married single unknown"),
    "education": _words(
        "basic.4y basic.6y basic.9y high.school illiterate professional.course university.degree unknown"
    ),
    "default": _words("no yes unknown"),
    "housing": _words("no yes unknown"),
    "loan": _words("no yes unknown"),
    "contact": _words("cellular telephone"),
    "month": _words("jan feb mar apr may jun jul aug sep oct nov dec"),
    "day_of_week": _words("mon tue wed thu fri"),
    "duration": _between(0, 5_000),
    "campaign": _between(0, 60),
    "pdays": _between(0, 999),
    "previous": _between(0, 10),
    "poutcome": _words("failure nonexistent success"),
    "emp.var.rate": _between(-5, 5),
    "cons.price.idx": _between(90, 100),
    "cons.conf.idx": _between(-60, 0),
    "euribor3m": _between(0, 10),
    "nr.employed": _between(4_900, 5_300),
}

LABELS = ("yes", "no")
"""What becomes 1, and what becomes -1."""


def load(section: DataSection, norm: str) -> Table:
    """Load Bank Marketing; ``data.path`` is the file, plain or gzip, or the folder that holds it."""
    names = ("bank-additional-full.csv", "bank-additional-full.csv.gz")
    columns = read_columns(one_of(existing(section.path or ""), names), delimiter=";")
    people.check_columns(columns, (*PLAN, "y"), section.source)
    return people.table(
        columns,
        people.without(PLAN, section),
        people.signs(columns["y"], *LABELS),
        section,
        norm=norm,
        intercept=False,
        scaling="record",
        record="one client",
    )
