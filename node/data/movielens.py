"""MovieLens-100K: each of 943 people is an agent, each rating a record (Bellet et al. 2018, section 5.2, appendix E).

Ratings are taken minus the public constant 3.5; subtracting a user's own mean, as published, puts every rating of the
user into every record, so a private run refuses it unless ``as_published``. The films' features come from alternating
least squares on the training ratings: what the paper does "for convenience", and named as a public assumption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse

from node.configuration.data import DataSection
from node.data import als, split
from node.data.columns import Cells, numbers, row_norms
from node.data.csv_file import read_columns
from node.data.dealt import Dealt, Shard
from node.data.errors import DataError
from node.data.labels import check_groups
from node.data.paths import existing, one_of
from node.data.records import Sources

CENTRE = 3.5
"""Public: a rating above it is a recommendation. Ratings are 1 to 5."""
_FEATURES = 20
_QUANTILE = 0.9


@dataclass(frozen=True)
class ItemLaw:
    """For the largest eigenvalue of a user's mean x x^T: the 0.9 quantile of the items' squared norms, public."""

    value: float

    def __call__(self, records: int) -> float:
        """The bound for ``records`` rows."""
        return self.value if records else 0.0


def deal(section: DataSection, seed: int, *, private: bool, validation: tuple[float, int] | None = None) -> Dealt:
    """Load MovieLens-100K; ``data.path`` is ml-100k.inter (user, item, rating, time; tabs), u.data, or their folder.

    ``validation``, a share and a seed: so large a part of each user's training ratings is held out instead of the test
    ratings, which no one sees. Features, graph and means are made of the ratings that are left.
    """
    user_mean = section.centring == "user-mean"
    if user_mean and private and not section.as_published:
        raise DataError(
            'data.centring is "user-mean": in a private run each rating would be in every record of its user; '
            'accepted: "none", or data.as_published = true'
        )
    try:
        path = one_of(existing(section.path or ""), ("ml-100k.inter", "u.data"))
    except DataError as error:
        raise DataError(f"{error}; examples/get-movielens fetches it") from None
    user, item, rating, values, columns = _ratings(path, section.agents)
    users, items = len(values), int(item.max()) + 1
    random = np.random.default_rng([seed, 4])
    parts = [split.hold_out(np.flatnonzero(user == u), section.held_out_in_force, random) for u in range(users)]
    if validation is not None:
        share, own = validation
        again = np.random.default_rng([own, 7])
        parts = [split.hold_out(rows, share, again) for rows, _ in parts]
    train = np.concatenate([rows for rows, _ in parts])

    centre = np.full(users, CENTRE)
    if user_mean:
        centre = np.array([rating[rows].mean() for rows, _ in parts])
    centred = rating - centre[user]

    shape, where = (users, items), (user[train], item[train])
    known = scipy.sparse.csr_array((np.ones(len(train)), where), shape=shape)
    features = als.item_features(
        scipy.sparse.csr_array((centred[train], where), shape=shape),
        known,
        section.dimension or _FEATURES,
        section.als_regularisation,
        np.random.default_rng([seed, 5]),
    )
    names = [f"film feature {k}" for k in range(features.shape[1])]
    rated = np.asarray(known.sum(axis=0)).ravel() > 0
    if not user_mean:
        size = float(row_norms(features[rated], "l2").mean())  # a smaller one would leave users' biases unlearned
        features = np.hstack([np.full((items, 1), size), features])
        names.insert(0, "intercept")
    norms = {norm: float(row_norms(features, norm).max()) for norm in ("l1", "l2")}
    squared = row_norms(features[rated], "l2") ** 2

    assumptions = [
        "movielens: the films' features come from alternating least squares on all users' training ratings",
    ]
    if user_mean:
        assumptions.append("movielens: each rating is taken minus its user's mean training rating, as published")
    return Dealt(
        shards=tuple(
            Shard(features[item[rows]], centred[rows], features[item[test]], centred[test]) for rows, test in parts
        ),
        names=tuple(f"user {value}" for value in values),
        features=tuple(names),
        metric="rmse",
        record="one rating",
        row_bounds=norms,
        label_bound=4.0 if user_mean else 2.5,
        public_assumptions=tuple(assumptions),
        similarity=scipy.sparse.csr_array((rating[train], where), shape=shape),
        similarity_assumption="movielens: the graph of nearest neighbours comes from all users' training ratings",
        feature_law=ItemLaw(float(np.quantile(squared, _QUANTILE))),
        second_moment=features[rated].T @ features[rated] / int(rated.sum()),
        sources=Sources(columns, tuple(rows for rows, _ in parts)),
    )


def _ratings(
    path: Path, agents: int | None
) -> tuple[split.Rows, split.Rows, np.ndarray, list[str], Mapping[str, Cells]]:
    """(user index, item index, rating) of each row, the users' names in order, and the file's columns.

    The columns are in the same order of rows; everything is of the first ``agents`` users.
    """
    header = ("user", "item", "rating", "time")
    columns = read_columns(path, delimiter="\t", header=header, skip=int(path.suffix == ".inter"))
    rating = numbers("rating", columns["rating"])
    for name in ("user", "item"):
        check_groups(columns[name], name)
    if not np.all((rating >= 1) & (rating <= 5)):
        raise DataError(f"{path.name}: ratings are 1 to 5, found {rating.min():g} to {rating.max():g}")
    groups, values = split.by_groups(columns["user"], agents)
    films, _ = split.by_groups(columns["item"], None)
    item = np.empty(len(rating), dtype=np.intp)
    for k, rows in enumerate(films):
        item[rows] = k
    rows = np.concatenate(groups)
    user = np.repeat(np.arange(len(groups)), [len(part) for part in groups])
    return user, item[rows], rating[rows], values, {name: np.array(cells)[rows] for name, cells in columns.items()}
