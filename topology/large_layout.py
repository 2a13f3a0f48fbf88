"""Where pictures of a network draw each agent: a few seconds for thousands of agents.

`topology.layout` makes better pictures of small graphs, and takes minutes for what is drawn here in a second: here
forces act between near agents only, which a tree of places finds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh
from scipy.spatial import cKDTree

from topology.network import FloatArray

Edges = npt.NDArray[np.int64]
_STEPS = 70
_DENSE = 400
"""Up to so many agents all modes are computed: that always gives the same ones, also where several are equal."""
_STRETCH = 1.8
"""A graph is made wider up to so many times, to fill the picture."""
_REACH = 3.0
"""Agents push each other up to so many times their usual distance."""


def laid_out(agents: int, edges: Edges) -> FloatArray:
    """Places of ``agents`` agents with these ``edges`` (m, 2), shape (n, 2), within [-1, 1]."""
    if agents < 3 or not len(edges):
        return _circle(agents)
    degrees = np.bincount(edges.ravel(), minlength=agents)
    if degrees.max() == 2 == degrees.min() and len(edges) == agents:
        ring = _ring(agents, edges)
        if ring is not None:
            return ring
    if 2 * degrees.mean() > agents - 1:
        return _circle(agents)
    at = _settled(_start(agents, edges, degrees), edges)
    # Along the longest axis, and a long graph a little wider than it is.
    _, axes = np.linalg.eigh(np.cov(at.T))
    at = at @ axes[:, ::-1]
    at -= (at.min(axis=0) + at.max(axis=0)) / 2.0
    reach = np.maximum(np.abs(at).max(axis=0), 1e-9)
    return np.asarray(at / np.maximum(reach, reach.max() / _STRETCH))


def _circle(agents: int) -> FloatArray:
    angles = np.pi / 2 - 2 * np.pi * np.arange(agents) / max(1, agents)
    return np.column_stack([np.cos(angles), np.sin(angles)]) if agents > 1 else np.zeros((agents, 2))


def _ring(agents: int, edges: Edges) -> FloatArray | None:
    """The circle in walking order, so that no two edges cross; None where the edges are several rings."""
    neighbours: list[list[int]] = [[] for _ in range(agents)]
    for i, j in edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    order, before = [0], -1
    while len(order) < agents:
        one, other = neighbours[order[-1]]
        following = other if one == before else one
        before = order[-1]
        if following == 0:
            return None
        order.append(following)
    at = np.empty((agents, 2))
    at[order] = _circle(agents)
    return at


def _start(agents: int, edges: Edges, degrees: npt.NDArray[np.int64]) -> FloatArray:
    """Places from the slowest modes of the graph, spread evenly, or by chance where they are not found."""
    rng = np.random.default_rng(0)
    chance = rng.normal(size=(agents, 2))
    if agents > 10:
        ones = np.ones(len(edges))
        half = sparse.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(agents, agents))
        root = 1.0 / np.sqrt(np.maximum(degrees, 1))
        walk = sparse.diags_array(root) @ (half + half.T) @ sparse.diags_array(root)
        modes = _slowest(walk.tocsr(), chance[:, 0])
        if modes is not None:
            # Modes of real graphs crowd most agents into one point: the order along each is kept, the crowd is not.
            ranks = [np.argsort(np.argsort(mode.round(9), kind="stable")) for mode in modes]
            chance = 2.0 * np.column_stack(ranks) / agents - 1.0 + 0.02 * rng.normal(size=(agents, 2))
    return np.asarray(chance * np.sqrt(agents))


def _slowest(walk: sparse.csr_array, start: FloatArray) -> list[FloatArray] | None:
    """The two slowest modes of a random walk; None where they are not found."""
    if walk.shape[0] <= _DENSE:
        _, modes = np.linalg.eigh(walk.toarray())
        return [modes[:, -2], modes[:, -3]]
    try:
        _, modes = eigsh(walk, k=3, which="LA", v0=start, tol=1e-3, maxiter=400)
    except ArpackError:
        return None
    return [modes[:, 1], modes[:, 0]]


def _settled(at: FloatArray, edges: Edges) -> FloatArray:
    """Places after springs along the edges pulled and near agents pushed; the usual distance is 1."""
    agents = len(at)
    i, j = edges[:, 0], edges[:, 1]
    pull = np.sqrt(np.bincount(edges.ravel(), minlength=agents).clip(1))
    for step in range(_STEPS):
        near = cKDTree(at).query_pairs(_REACH, output_type="ndarray")
        force = np.zeros_like(at)
        away = at[near[:, 0]] - at[near[:, 1]]
        square = np.maximum((away**2).sum(axis=1), 1e-3)
        push = away * (1.0 / square - 1.0 / _REACH**2)[:, None] * 3.0
        spring = at[j] - at[i]
        spring *= (0.25 * np.sqrt((spring**2).sum(axis=1)) / np.minimum(pull[i], pull[j]))[:, None]
        for axis in (0, 1):
            force[:, axis] += np.bincount(near[:, 0], push[:, axis], agents)
            force[:, axis] -= np.bincount(near[:, 1], push[:, axis], agents)
            force[:, axis] += np.bincount(i, spring[:, axis], agents) - np.bincount(j, spring[:, axis], agents)
        force -= 0.02 * at  # loose parts stay in the picture
        length = np.sqrt((force**2).sum(axis=1))
        most = 2.0 * (1.0 - step / _STEPS) + 0.05
        at = at + force * (np.minimum(length, most) / np.maximum(length, 1e-9))[:, None]
    return at
