"""How fast synchronous rounds go over processes, beside the same agents in the twin, in the same minutes.

    python benchmarks/rounds.py --path FOLDER [--runs 3] [--case five|hundred|hundred-open]... [--json]

FOLDER holds adult.data and adult.test.

five           examples/adult-admm.toml: 5 agents, adult.data, private, 80 rounds
hundred        examples/adult-admm-100.toml with all 45,222 rows, 452 an agent: private, 20 rounds
hundred-open   the same without noise: the solver takes as many steps as the stop rule asks for

Rounds per second are those between an agent's first and last release, median over agents. ``ratio`` is that of the
processes over that of the twin, which has one core, no sockets, no ledger and no disk. Medians over the runs.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import tomllib  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import cluster  # noqa: E402
import twin_runs  # noqa: E402

from node.configuration.sections import Configuration  # noqa: E402
from node.dealing.preparation import prepare  # noqa: E402
from node.experiments.trial import configured  # noqa: E402
from node.folder.journal import read_journal  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"
ALL_ROWS = {"data.test": "held-out", "data.held_out": 0.0, "learning.finish": False}
"""Nothing is scored."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "five": ("adult-admm.toml", {}),
    "hundred": ("adult-admm-100.toml", ALL_ROWS),
    "hundred-open": (
        "adult-admm-100.toml",
        ALL_ROWS
        | {"learning.algorithm": "m-admm", "learning.pvp_form": None}
        | dict.fromkeys(("privacy.mechanism", "privacy.epsilon", "privacy.delta", "privacy.clip")),
    ),
}


def over_processes(configuration: Configuration, folder: Path) -> dict[str, float]:
    """Rounds per second, CPU and memory of one real run."""
    assert configuration.data.agents is not None
    watch = cluster.run(configuration, folder, configuration.data.agents)
    rates = []
    for path in folder.glob("agents/*/journal.bin"):
        said = [time_ns for time_ns, _ in read_journal(path)]
        rates.append(1e9 * (len(said) - 1) / (said[-1] - said[0]))
    finals = cluster.finals_of(folder)
    return {
        "rounds_per_s": statistics.median(rates),
        "cpu_ms_per_agent_and_round": 1e3 * statistics.mean(final["cpu_s"] / final["sent"] for final in finals),
        "repeats": sum(final["repeats_sent"] for final in finals),
        "pss_mb_per_agent": statistics.mean(final["pss_kb"] for final in finals) / 1024,
        "whole_s": watch.wall_s,
    }


def in_the_twin(configuration: Configuration) -> dict[str, float]:
    """Rounds per second of the same agents in one process."""
    preparation = prepare(configuration)
    agents = twin_runs.agents_of(preparation)
    began = time.perf_counter()
    twin_runs.run(preparation, agents)
    return {"twin_rounds_per_s": configuration.clock.updates / (time.perf_counter() - began)}


def configuration_of(case: str, path: Path) -> Configuration:
    """The example's, changed for this case."""
    example, changes = CASES[case]
    table = tomllib.loads((EXAMPLES / example).read_text())
    return configured(table, {"data.path": str(path.absolute()), **changes})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--path", type=Path, required=True, help="the folder with adult.data and adult.test")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", action="append", choices=sorted(CASES))
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    for case in options.case or CASES:
        configuration = configuration_of(case, options.path)
        measured = []
        with tempfile.TemporaryDirectory(prefix="sv-bench-") as name:
            for number in range(options.runs):
                one = over_processes(configuration, Path(name) / f"run-{number}") | in_the_twin(configuration)
                one["ratio"] = one["rounds_per_s"] / one["twin_rounds_per_s"]
                measured.append(one)
                print(f"{case}, run {number + 1}: {json.dumps(one)}", file=sys.stderr, flush=True)
        report |= {f"{case}_{key}": round(statistics.median(one[key] for one in measured), 3) for key in measured[0]}
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        for key, value in report.items():
            print(f"{key:>44}  {value}")


if __name__ == "__main__":
    main()
