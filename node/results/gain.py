"""Whether a run gained its agents anything over learning alone, and what to change where it did not."""

from __future__ import annotations

from coordinator_free.agents.registry import algorithm
from node.results.details import Details
from node.results.results import Results


def without_gain(results: Results, details: Details) -> list[str]:
    """Notes for the table of a run whose models are no better than the agents alone; empty where they are better."""
    alone, best = results.alone, results.finish or results.together
    if alone is None or best is None or alone.mean is None or best.mean is None:
        return []
    gained = (best.mean - alone.mean) * (1.0 if results.metric.larger_is_better else -1.0)
    if gained > 0.0:
        return []
    model = "together" if results.finish is None else "the free finish"
    changes = []
    if results.finish is None:
        changes.append("learning.finish = true, so that each agent has a model of its own around the common one")
    if details.private:
        rule = algorithm(results.algorithm).descends
        other = "" if rule else 'learning.algorithm = "gradient-descent", for which '
        changes += [
            f"{other}`sottovoce budget` on this run's config.toml proposes updates, clip and step for its budget",
            "a larger privacy.epsilon, or masked sums, whose noise is smaller "
            '(learning.aggregation = "masked-sum", privacy.observer = "sum")',
        ]
    else:
        changes.append("more updates, or agents that are more alike")
    told = f"no gain: {model} is no better than agents alone ({best.mean:.4g}, alone {alone.mean:.4g}). To change:"
    return [told, *(f"- {change}" for change in changes)]
