"""An agent that is stopped (SIGSTOP) and continued: what it says then, how old the models are that it uses, and whom
the others take for gone.

    python benchmarks/pause.py [--lasting 10] [--transport ipc]

Four runs of ten agents on a 4-regular graph, in each of which one agent is paused. Prints one JSON document.
``descent``: asynchronous coordinate descent, without privacy, rate 20. ``missed``, releases of its neighbours while it
was paused; ``in_the_second_after``, its releases in the second after it was continued, to be compared with ``rate``;
``ages``, of the neighbours' models that it worked with in its first ten releases then, in releases of the neighbour,
``mean`` and ``largest``, and ``ages_before`` of the ten before the pause. ``rounds_patient``: synchronous ADMM whose
network.silent is 1.5 times the pause; ``failures`` and ``silent`` (agents whose notes name a silent neighbour) must be
empty. ``rounds_stop`` and ``rounds_carry_on``: the same with a network.silent of half the pause: its neighbours must
fail, or note it and carry on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from cluster import finals_of

from node.configuration.reading import from_table
from node.faults.log import read_faults
from node.folder.run import read_run
from node.folder.watch import Watch
from node.traffic.run_logs import releases_of
from node.worlds import launcher, steps

AGENTS, RATE = 10, 20.0
FIRST = 10
"""Releases whose models' ages are looked at."""


def run(folder: Path, table: dict[str, Any]) -> Watch:
    configuration = from_table(table)
    steps.deal(configuration, folder)
    return launcher.run_in_processes(folder, configuration, AGENTS)


def table(learning: dict[str, Any], updates: int, lasting: float, **network: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 5},
        "data": {"source": "breast-cancer", "agents": AGENTS}
        if "algorithm" in learning
        else {"source": "synthetic", "agents": AGENTS, "dimension": 10},
        "topology": {"kind": "random-regular", "degree": 4},
        "learning": learning,
        "clock": {"rate": RATE, "updates": updates} if "algorithm" not in learning else {"updates": updates},
        "network": {"repeat": "100 ms", "linger": 2 * lasting, **network},
        "event": [{"at": 1.0, "fault": "pause", "target": "one", "lasting": lasting}],
    }


def after_the_pause(folder: Path) -> dict[str, Any]:
    """What the paused agent of an asynchronous run said after it was continued."""
    pause, resume = (fault for fault in read_faults(folder) if fault["fault"] in ("pause", "resume"))
    [paused] = pause["agents"]
    neighbours = read_run(folder).network.neighbours(paused)
    newest: dict[int, int] = {}
    in_force: dict[int, int] = {}
    ages: list[tuple[int, list[int]]] = []
    missed = 0
    for time_ns, release in releases_of(folder).values():
        newest[release.sender] = max(newest.get(release.sender, -1), release.index)
        missed += release.sender in neighbours and pause["time_ns"] <= time_ns < resume["time_ns"]
        if release.sender == paused:
            in_force.update((j, k) for j, k in release.used if j != paused)
            ages.append((time_ns, [max(0, newest.get(j, k) - k) for j, k in in_force.items()]))
    since = resume["time_ns"]
    before = [age for time_ns, found in [a for a in ages if a[0] < pause["time_ns"]][-FIRST:] for age in found]
    after = [age for time_ns, found in [a for a in ages if a[0] >= since][:FIRST] for age in found]
    return {
        "rate": RATE,
        "missed": missed,
        "in_the_second_after": sum(since <= time_ns < since + 10**9 for time_ns, _ in ages),
        "ages": {"mean": round(sum(after) / max(1, len(after)), 2), "largest": max(after, default=None)},
        "ages_before": {"mean": round(sum(before) / max(1, len(before)), 2), "largest": max(before, default=None)},
    }


def verdicts(folder: Path, watch: Watch) -> dict[str, Any]:
    """Whom an event paused, who failed, and whose notes name a silent neighbour."""
    return {
        "paused": read_faults(folder)[0]["agents"],
        "failures": [f"{failure.process}: {failure.last_words[0]}" for failure in watch.failures],
        "silent": [
            f"agent {final['agent']}: {note}"
            for final in finals_of(folder)
            for note in final["notes"]
            if "silent" in note
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasting", type=float, default=10.0)
    parser.add_argument("--transport", choices=["ipc", "tcp"], default="ipc")
    options = parser.parse_args()
    lasting, network = options.lasting, {"transport": options.transport}
    descent = table({"mu": 2.5}, int(RATE * (lasting + 6)), lasting, **network)
    admm = {"algorithm": "admm", "loss": "logistic", "capacity": 10.0, "rho": 1.0, "penalty": 1.0}
    slow = {**network, "delay": "5 ms"}
    runs = {
        "descent": descent,
        "rounds_patient": table(admm, 400, lasting, silent=1.5 * lasting, on_silent="stop", **slow),
        "rounds_stop": table(admm, 400, lasting, silent=lasting / 2, on_silent="stop", **slow),
        "rounds_carry_on": table(admm, 1500, lasting, silent=lasting / 2, on_silent="carry-on", **slow),
    }
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, chosen in runs.items():
            folder = Path(place) / name
            watch = run(folder, chosen)
            told[name] = verdicts(folder, watch) | (after_the_pause(folder) if name == "descent" else {})
    print(json.dumps(told, indent=1))
    patient = told["rounds_patient"]
    return int(bool(patient["failures"] or patient["silent"] or told["descent"]["failures"]))


if __name__ == "__main__":
    sys.exit(main())
