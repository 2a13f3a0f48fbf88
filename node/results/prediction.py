"""A final model on new rows, which are encoded and scaled by the public rules that the run's rows were.

Rows come as a CSV file: with the columns of the run's data (label and splitting column may be missing), or with one
column for each feature of the model, taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.special import expit

from coordinator_free.privacy.families import NORMS
from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray
from node.configuration.data import DataSection
from node.configuration.sections import Configuration
from node.data import adult, bank, breast_cancer, credit_card, kddcup99, schools
from node.data.columns import Number, Plan, Words, encode, numbers, scale_rows
from node.data.csv_file import read_columns

PLANS: Mapping[str, tuple[Plan, str]] = {
    "schools": (schools.PLAN, "public"),
    "breast-cancer": (breast_cancer.PLAN, "public"),
    "adult": (adult.PLAN, "record"),
    "bank": (bank.PLAN, "record"),
    "kddcup99": (kddcup99.PLAN, "record"),
    "credit-card": (credit_card.PLAN, "record"),
}
"""Of the sources that come with rules: those, and how rows are scaled by default."""


LABELS: Mapping[str, tuple[str, str]] = {
    "breast-cancer": breast_cancer.LABELS,
    "adult": adult.LABELS,
    "bank": bank.LABELS,
    "kddcup99": kddcup99.LABELS,
    "credit-card": credit_card.LABELS,
}
"""Of the sources whose labels are words: those of 1 and of -1."""


class PredictionError(ValueError):
    """Rows that a model cannot be used on; one line."""


def features_of(configuration: Configuration, features: Sequence[str], path: Path) -> FloatArray:
    """The rows of a CSV file as the model's features, shape (rows, p). Raises a ValueError of one line."""
    if not path.is_file():
        raise PredictionError(f"{path}: there is no such file; give rows as CSV with a header")
    columns = read_columns(path, delimiter=configuration.data.delimiter)
    if all(name in columns for name in features):
        return np.stack([numbers(name, columns[name]) for name in features], axis=1)
    section = configuration.data
    plan, scaling = _plan(section, features)
    missing = [name for name in plan if name not in columns]
    if missing:
        raise PredictionError(
            f"{path} lacks column {missing[0]!r}: rows need the columns {', '.join(plan)}, "
            f"or the model's features {', '.join(features[:8])}{', ...' if len(features) > 8 else ''}"
        )
    encoded = encode(columns, plan, intercept=bool(features) and features[0] == "intercept")
    if tuple(encoded.features) != tuple(features):
        raise PredictionError(f"{path}: its columns make other features than the model's")
    x, _ = scale_rows(encoded, section.row_scaling or scaling, NORMS.get(configuration.privacy.mechanism, "l2"))
    return x


def _plan(section: DataSection, features: Sequence[str]) -> tuple[Plan, str]:
    """Rules by column, in the order of the model's features, and the default scaling of rows."""
    if section.source in PLANS and not section.as_published:
        plan, scaling = PLANS[section.source]
        aside = {*section.drop, section.column}
        return {name: rule for name, rule in plan.items() if name not in aside}, scaling
    if section.source not in {"csv", "parquet"}:
        raise PredictionError(
            f'data.source = "{section.source}": its features are not made from columns by public rules; '
            "give rows with one column for each feature of the model"
        )
    made: dict[str, Number | Words] = {}
    for feature in features:
        name = feature.partition("=")[0]
        if feature == "intercept" or name in made:
            continue
        bounds = section.bounds.get(feature, section.bounds.get("*"))
        if name in section.levels:
            made[name] = Words(section.levels[name])
        elif bounds is not None:
            made[feature] = Number(*bounds, clip=section.outside == "clip")
        else:
            made[feature] = Number(None, None)
    return made, "public"


def words_of(section: DataSection) -> tuple[str, str] | None:
    """What the data call the labels 1 and -1; None where the data hold these numbers."""
    if section.source in LABELS:
        return LABELS[section.source]
    if section.positive is None:
        return None
    alone = section.negative is not None and len(section.negative) == 1
    return section.positive, section.negative[0] if section.negative and alone else f"not {section.positive}"


def predict(
    judge: Loss, model: FloatArray, x: FloatArray, words: tuple[str, str] | None = None, middle: float = 0.0
) -> list[dict[str, float | str]]:
    """Of each row: ``prediction``, and for labels -1 and 1 the ``probability`` of 1 too.

    Such a label is predicted in the ``words`` of the data, where there are some: those of 1 and of -1. ``middle`` was
    taken from every label that is a number, and is given back.
    """
    scores = x @ model
    if judge.metric != "accuracy":
        return [{"prediction": float(score) + middle} for score in scores]
    above, below = words or (1.0, -1.0)
    return [
        {"prediction": above if score >= 0 else below, "probability": float(chance)}
        for score, chance in zip(scores, expit(scores), strict=True)
    ]
