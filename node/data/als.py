"""Features of items by alternating least squares (Zhou et al. 2008).

    min  sum over ratings (r_ui - a_u . v_i)^2  +  regularisation ( sum_u n_u |a_u|^2 + sum_i n_i |v_i|^2 )

with n_u, n_i the numbers of ratings. Each half step solves all users, or all items, exactly.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from coordinator_free.release import FloatArray


def item_features(
    ratings: scipy.sparse.csr_array,
    known: scipy.sparse.csr_array,
    dimension: int,
    regularisation: float,
    random: np.random.Generator,
    sweeps: int = 15,
) -> FloatArray:
    """Item features, shape (items, dimension).

    ``ratings`` (users, items) holds the centred ratings, ``known`` has a 1 where there is one (a centred rating may be
    0). An item without ratings has features 0.
    """
    items = 0.1 * random.standard_normal((ratings.shape[1], dimension))
    by_item, known_by_item = ratings.T.tocsr(), known.T.tocsr()
    for _ in range(sweeps):
        users = _solve(ratings, known, items, regularisation)
        items = _solve(by_item, known_by_item, users, regularisation)
    return items


def _solve(
    ratings: scipy.sparse.csr_array, known: scipy.sparse.csr_array, others: FloatArray, regularisation: float
) -> FloatArray:
    """Ridge regression of every row on the other side's features."""
    dimension = others.shape[1]
    products = (others[:, :, None] * others[:, None, :]).reshape(len(others), -1)
    gram = (known @ products).reshape(-1, dimension, dimension)
    counts = np.asarray(known.sum(axis=1)).ravel()
    # A row without ratings has right-hand side 0; a weight of 1 keeps its system regular.
    weights = np.where(counts > 0, regularisation * counts, 1.0)
    gram += weights[:, None, None] * np.eye(dimension)
    solved = np.linalg.solve(gram, (ratings @ others)[:, :, None])
    return np.asarray(solved[:, :, 0], dtype=np.float64)
