"""The profiles from which a graph is learned: what each costs, and the graph that they make.

Rules that hold here:
- Each agent's profile takes ``topology.share`` of the agent's own budget; what is left is for its releases.
- The graph is a function of the profiles and of public numbers. Every input has one: no failure shows anything.
- A command that only looks at a configuration makes no profile: each look would be one more release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.configuration.sections import Configuration
from node.folder.profiles import Budget, learned_graph, profile_of
from topology.network import Network


@dataclass(frozen=True, eq=False)
class Profiles:
    """``vectors`` (n, p), and what each of them costs; None: an agent without records, or one that opts out."""

    vectors: FloatArray
    charges: tuple[Mechanism | None, ...]

    def graph(self, configuration: Configuration) -> Network:
        """The graph of a run."""
        return learned_graph(self.vectors, configuration)


def drawn(
    configuration: Configuration,
    problems: Sequence[LocalProblem],
    budgets: Sequence[Budget],
    bounds: tuple[float | None, float | None],
    secret_of: Callable[[int], bytes] | None,
) -> Profiles:
    """The profiles of all agents.

    Parameters
    ----------
    configuration, problems, budgets
        Of the run, and of each agent in order.
    bounds
        The clip and the row bound in force.
    secret_of
        An agent's noise secret. None: nothing may be released now, and all vectors are zeros.
    """
    vectors = np.zeros((len(problems), problems[0].dimension))
    charges: list[Mechanism | None] = []
    for agent, (problem, budget) in enumerate(zip(problems, budgets, strict=True)):
        secret = bytes(32) if secret_of is None else secret_of(agent)
        profile = profile_of(configuration, problem, budget, bounds, secret)
        charges.append(None if profile is None else profile.charge)
        if profile is not None and secret_of is not None:
            vectors[agent] = profile.vector()
    return Profiles(vectors, tuple(charges))
