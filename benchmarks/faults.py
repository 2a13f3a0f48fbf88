"""What a network that misbehaves costs asynchronous learning: the objective at its end, beside that of a calm one.

    python benchmarks/faults.py [CONFIG] [--agents N] [--pairs 1]

Runs ``examples/rough-mesh.toml`` (100 agents; loss, duplication, reordering, delay, a partition, two kills) and the
same without conditions and events, in turn. Prints one JSON document, medians over the pairs: ``objective_rough`` and
``objective_calm``, that of Bellet et al. 2018, Eq. 2, at the agents' last models; ``excess``, by which part of the
calm one it is more; ``gap_rough`` and ``gap_calm``, relative to the optimum; ``failures``; ``verified``, whether every
release of both is what the agents' code says (`sottovoce verify`). Exit status 1 if a run failed or was not verified,
or if ``excess`` is 1% or more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.problem.graph_objective import graph_objective
from node.audit.verify import verify
from node.configuration.reading import from_table, load
from node.configuration.sections import Configuration
from node.faults.log import read_faults
from node.folder.run import read_final, read_run
from node.results.results import read_results
from node.worlds import launcher, steps

ROUGH = Path(__file__).resolve().parent.parent / "examples" / "rough-mesh.toml"
CONDITIONS = ("loss", "duplication", "reordering", "reordering_delay", "delay", "burst", "bandwidth", "link")
WITHIN = 0.01


def run(folder: Path, configuration: Configuration) -> dict[str, Any]:
    """One run over processes, and what became of it."""
    agents = steps.deal(configuration, folder).agents
    watch = launcher.run_in_processes(folder, configuration, agents)
    steps.score(folder, watch)
    dealt = read_run(folder)
    models = np.array([read_final(folder, agent)["model"] for agent in range(agents)])
    mu = dealt.configuration.learning.mu
    assert mu is not None
    return {
        "objective": graph_objective(dealt.network, dealt.problems, dealt.confidences, mu, models),
        "gap": read_results(folder).optimum_gap,
        "failures": [asdict(failure) for failure in watch.failures],
        "verified": verify(folder).ok,
        "capture": watch.eavesdropper_status == 0,
        "faults": [fault["fault"] for fault in read_faults(folder) if "skipped" not in fault],
    }


def calm(configuration: Configuration) -> Configuration:
    """The same without conditions and events."""
    table = configuration.model_dump(exclude_unset=True)
    table.pop("event", None)
    table["network"] = {key: value for key, value in table.get("network", {}).items() if key not in CONDITIONS}
    return from_table(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path, default=ROUGH)
    parser.add_argument("--agents", type=int)
    parser.add_argument("--pairs", type=int, default=1)
    options = parser.parse_args()
    chosen = load(options.config)
    if options.agents is not None:
        table = chosen.model_dump(exclude_unset=True)
        chosen = from_table(table | {"data": table["data"] | {"agents": options.agents}})
    found: dict[str, list[dict[str, Any]]] = {"rough": [], "calm": []}
    with tempfile.TemporaryDirectory() as place:
        for pair in range(options.pairs):
            for name, configuration in (("rough", chosen), ("calm", calm(chosen))):
                found[name].append(run(Path(place) / f"{name}-{pair}", configuration))
    told: dict[str, Any] = {}
    for name, runs in found.items():
        for key in ("objective", "gap"):
            told[f"{key}_{name}"] = statistics.median(one[key] for one in runs)
    told["excess"] = told["objective_rough"] / told["objective_calm"] - 1
    every = [one for runs in found.values() for one in runs]
    told["failures"] = [failure for one in every for failure in one["failures"]]
    told["verified"] = all(one["verified"] for one in every)
    told["captures_complete"] = all(one["capture"] for one in every)
    told["faults"] = found["rough"][0]["faults"]
    print(json.dumps(told, indent=1))
    return int(bool(told["failures"]) or not told["verified"] or told["excess"] >= WITHIN)


if __name__ == "__main__":
    sys.exit(main())
