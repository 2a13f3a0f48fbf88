"""Datasets, one loader a file, and how they are dealt to agents."""

from __future__ import annotations

from node.configuration.data import DataSection
from node.data import adult, bank, breast_cancer, credit_card, kddcup99, movielens, own, schools, synthetic
from node.data.dealt import Dealt, FeatureLaw, Shard
from node.data.errors import DataError
from node.data.table import Table, deal_table

FEATURES_OF_RECORDS = ("movielens-100k",)
"""Sources whose features are made of all training records: a part that is held out later is in the features."""

__all__ = ["FEATURES_OF_RECORDS", "DataError", "DataSection", "Dealt", "FeatureLaw", "Shard", "deal"]


def deal(
    data: DataSection, *, seed: int, private: bool, norm: str | None, validation: tuple[float, int] | None = None
) -> Dealt:
    """Load the source and deal it among agents: the same for the same arguments and files.

    Parameters
    ----------
    data
        The section ``[data]`` of the configuration.
    seed
        Decides every split and draw, unless ``data.seed`` is set.
    private
        Whether to refuse what would break a privacy claim.
    norm
        The mechanism's, "l1" or "l2" (None: "l2"), for the scaling of records and for ``data.row_bound``.
    validation
        A share and a seed, of a source whose features are made of the records (`FEATURES_OF_RECORDS`): that part of
        the training records is held out instead of the test records, before features are made.

    Raises
    ------
    DataError
        One line that names the setting or the row and column, the value, and what would be accepted.
    """
    seed = seed if data.seed is None else data.seed
    if data.source == "synthetic":
        return synthetic.deal(data, seed)
    if data.source == "movielens-100k":
        return movielens.deal(data, seed, private=private, validation=validation)
    return deal_table(_load(data, private, norm or "l2"), data, seed)


_LOADERS = {
    "breast-cancer": breast_cancer.load,
    "adult": adult.load,
    "bank": bank.load,
    "kddcup99": kddcup99.load,
    "credit-card": credit_card.load,
}


def _load(data: DataSection, private: bool, norm: str) -> Table:
    if data.source == "schools":
        return schools.load(data)
    if data.source in _LOADERS:
        return _LOADERS[data.source](data, norm)
    return own.load(data, private=private, norm=norm)
