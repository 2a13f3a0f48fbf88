"""What an average costs without a server: rounds and messages of push-sum, flooding and a tree, on graphs of 32 agents.

    python benchmarks/aggregation.py [--seeds 5] [--loss 0.1] [--json]

Push-sum runs until every agent's ratio is within 1e-6 of the weighted average (values standard normal, weights 1 to
100), in absolute value; once without loss and once with each message lost on each link with the given probability.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

import numpy as np

from coordinator_free.aggregation import flood, tree
from coordinator_free.aggregation.push_sum import PushSum
from topology import families
from topology.network import Network

AGENTS, CLOSE, MOST = 32, 1e-6, 20_000
GRAPHS: dict[str, dict[str, Any]] = {
    "ring": {},
    "random-regular": {"degree": 4},
    "erdos-renyi": {"probability": 0.2},
    "complete": {},
}


def push_sum_rounds(graph: Network, seed: int, loss: float) -> int:
    """Rounds until every agent is close; `MOST` if they do not come close."""
    random = np.random.default_rng([seed, 1])
    values, weights = random.normal(size=graph.agents), random.integers(1, 101, graph.agents).astype(np.float64)
    target = float(values @ weights / weights.sum())
    parts = [PushSum(graph.neighbours(i), 1) for i in range(graph.agents)]
    for part, value, weight in zip(parts, values, weights, strict=True):
        part.begin(np.array([value * weight]), weight)
    for round_ in range(1, MOST + 1):
        said = [part.send() for part in parts]
        for i, part in enumerate(parts):
            for j in graph.neighbours(i):
                if loss == 0.0 or random.random() >= loss:
                    part.receive(j, said[j])
            part.absorb()
        if max(abs(float(part.ratio[0]) - target) for part in parts) <= CLOSE:
            return round_
    return MOST


def _height(parents: list[int]) -> int:
    heights = {parents.index(tree.ROOT): 0}
    while len(heights) < len(parents):
        heights |= {i: 1 + heights[parent] for i, parent in enumerate(parents) if parent in heights}
    return max(heights.values())


def measured(kind: str, seeds: int, loss: float) -> dict[str, Any]:
    """Medians over seeds; a message is one broadcast of an agent to its neighbours."""
    found: dict[str, list[int]] = {"push_sum": [], "with_loss": [], "flood": [], "flood_messages": [], "tree": []}
    for seed in range(seeds):
        graph = families.build(kind, AGENTS, seed, **GRAPHS[kind])
        found["push_sum"].append(push_sum_rounds(graph, seed, 0.0))
        found["with_loss"].append(push_sum_rounds(graph, seed, loss))
        steps = flood.schedule(graph)
        found["flood"].append(len(steps))
        found["flood_messages"].append(flood.messages(steps))
        found["tree"].append(2 * _height(tree.spanning(graph)))
    middle = {name: median(values) for name, values in found.items()}
    return {
        "graph": kind,
        "push_sum_rounds": middle["push_sum"],
        "push_sum_messages": middle["push_sum"] * AGENTS,
        "push_sum_rounds_with_loss": middle["with_loss"],
        "flood_rounds": middle["flood"],
        "flood_messages": middle["flood_messages"],
        "tree_rounds": middle["tree"],
        "tree_messages": 2 * AGENTS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Rounds and messages of an average without a server.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--loss", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measured(kind, options.seeds, options.loss) for kind in GRAPHS]
    if options.json:
        print(json.dumps({"agents": AGENTS, "loss": options.loss, "seeds": options.seeds, "rows": rows}))
        return
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
