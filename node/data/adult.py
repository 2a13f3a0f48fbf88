"""UCI Adult (Becker and Kohavi 1996), prepared as in Zhang, Khalili and Liu 2018, section 5.

Rows with a missing value are dropped. Each column of words becomes one 0/1 feature for each level that the published
description lists: 99 levels, of which 98 occur (no remaining row has Never-worked). Six columns of numbers make it 105
features. Each row is divided by its norm where that is above 1. The paper divides columns by their maxima, which are
statistics of all records. Here public bounds are used, unless ``as_published``. Zhang and Zhu 2017, section 5.2, also
replace the native country by its frequency among all records: with ``as_published``, ``by_frequency`` does so.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from node.configuration.data import DataSection
from node.data import people
from node.data.columns import Number, Plan, Words
from node.data.csv_file import read_columns, without_missing
from node.data.errors import DataError
from node.data.paths import existing
from node.data.table import Table


def _words(levels: str) -> Words:
    return Words(tuple(levels.split()))


def _upto(high: float) -> Number:
    return Number(0.0, high, start=0.0, clip=True)


PLAN: Plan = {
    "age": _upto(100),
    "workclass": _words(
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
    ),
    "fnlwgt": _upto(1_500_000),
    "education": _words(
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
        "Doctorate 5th-6th Preschool"
    ),
    "education-num": _upto(16),
    "marital-status": _words(
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": _words(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
    ),
    "relationship": _words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    "race": _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    "sex": _words("Female Male"),
    "capital-gain": _upto(99_999),
    "capital-loss": _upto(5_000),
    "hours-per-week": _upto(100),
    "native-country": _words(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
        "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
}
_COLUMNS = (*PLAN, "income")

LABELS = (">50K", "<=50K")
"""What becomes 1, and what becomes -1."""


def load(section: DataSection, norm: str) -> Table:
    """Load Adult; ``data.path`` is the folder with adult.data and adult.test, or one such file.

    Held-out rows come from both files together (45,222 people); with test = "published" agents share adult.data
    (30,162) and the rows of adult.test (15,060) are dealt to them as test rows.
    """
    path = existing(section.path or "")
    if section.test == "published":
        if not path.is_dir():
            raise DataError(f'data.path: {path} is a file; data.test = "published" needs the folder with adult.test')
        train, test = _rows(path / "adult.data"), _rows(path / "adult.test")
    else:
        files = [path] if path.is_file() else [path / "adult.data", path / "adult.test"]
        train, test = _rows(files[0]), None
        for more in files[1:]:
            train = {
                name: cells + added for (name, cells), added in zip(train.items(), _rows(more).values(), strict=True)
            }
    plan = people.without(PLAN, section)
    assumptions: tuple[str, ...] = ()
    if section.as_published:
        everyone = train if test is None else {name: train[name] + test[name] for name in train}
        plan = people.by_maxima(plan, everyone)
        assumptions = ("adult: columns are divided by their maxima over all records, as published",)
        if section.by_frequency:
            plan = people.by_frequency(plan, everyone, section.by_frequency)
            rated = ", ".join(section.by_frequency)
            named = f"adult: {rated} by the frequency of its values over all records, as published"
            assumptions = (*assumptions, named)
    dealt, published = (
        None if rows is None else _table(rows, plan, section, norm, assumptions) for rows in (train, test)
    )
    assert dealt is not None
    return dealt if published is None else replace(dealt, x_test=published.x, y_test=published.y)


def _table(rows: dict[str, list[str]], plan: Plan, section: DataSection, norm: str, named: tuple[str, ...]) -> Table:
    return people.table(
        rows,
        plan,
        people.signs(rows["income"], *LABELS),
        section,
        norm=norm,
        intercept=False,
        scaling="record",
        record="one person",
        public_assumptions=named,
    )


def _rows(path: Path) -> dict[str, list[str]]:
    # adult.test opens with a comment, and its labels end in a full stop.
    columns = without_missing(read_columns(path, header=_COLUMNS, skip=int(path.name == "adult.test")), "?")
    columns["income"] = [cell.rstrip(".") for cell in columns["income"]]
    return columns
