"""Small networks and problems for the tests of the mathematics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from coordinator_free.agent import Agent, Setting
from coordinator_free.agents.registry import make
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.problem.losses import Loss
from coordinator_free.problem.objective import LocalProblem
from tests.helpers.places import GOLDEN
from topology.network import Network


@pytest.fixture
def golden() -> Callable[[str], Any]:
    return lambda name: json.loads((GOLDEN / name).read_text())


@pytest.fixture
def regular() -> Callable[..., Network]:
    """A random regular network with weights between 0.5 and 1.5."""

    def build(agents: int, degree: int, seed: int = 0) -> Network:
        graph = nx.random_regular_graph(degree, agents, seed=seed)
        random = np.random.default_rng(seed)
        upper = sparse.triu(nx.to_scipy_sparse_array(graph, nodelist=range(agents), dtype=np.float64), k=1).tocsr()
        upper.data = random.uniform(0.5, 1.5, upper.nnz)
        return Network(sparse.csr_array(upper + upper.T))

    return build


@pytest.fixture
def problems() -> Callable[..., list[LocalProblem]]:
    """Problems whose agents' true models are alike; sizes between 1 and 12 records, lambda_i = 1 / m_i."""

    def build(agents: int, dimension: int, loss: Loss, seed: int = 0, *, empty: bool = False) -> list[LocalProblem]:
        random = np.random.default_rng(seed)
        common = random.normal(size=dimension)
        made = []
        for i in range(agents):
            records = 0 if empty and i == 0 else int(random.integers(1, 13))
            x = random.uniform(-1, 1, (records, dimension))
            y = x @ (common + 0.3 * random.normal(size=dimension)) + 0.1 * random.normal(size=records)
            if loss.metric == "accuracy":
                y = np.where(y > 0, 1.0, -1.0)
            made.append(LocalProblem(x, y, loss, 1.0 / max(records, 1)))
        return made

    return build


@pytest.fixture
def team() -> Callable[..., list[Agent]]:
    """One agent of an algorithm for each problem, with confidences m_i / max m (at least 0.01)."""

    def build(
        algorithm: str,
        network: Network,
        problems: list[LocalProblem],
        *,
        updates: int,
        learning: dict[str, Any],
        **others: Any,
    ) -> list[Agent]:
        largest = max(problem.records for problem in problems)
        return [
            make(
                algorithm,
                Setting(
                    agent=i,
                    neighbours=network.neighbours(i),
                    weights=network.weights_of(i),
                    problem=problem,
                    dimension=problem.dimension,
                    updates=updates,
                    learning={"smoothness": problem.smoothness_of_data(), **learning},
                    confidence=max(problem.records / largest, 0.01),
                    secret=simulation_secret(0, i),
                    **others,
                ),
            )
            for i, problem in enumerate(problems)
        ]

    return build
