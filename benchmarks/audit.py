"""How near the audit's lower bounds come to the accountant, for every algorithm and mechanism; and its false alarms.

    python benchmarks/audit.py [--trials N] [--false-alarms N]

Six agents of 40 to 60 synthetic records make ten releases each in the twin, at epsilon 2 and delta 1e-3. Columns are
means over the agents: epsilon accounted; of the worst record in the data, epsilon attacked if the noise has the charged
law, and the share of the charged sensitivity that it attains; of the worst possible record (``--record adversarial``)
the same, and epsilon attacked whatever the law; that record's own epsilon in these runs, from the excess of many scores
of agent 0; and processor seconds of both audits. A row falls short of accounted by (own / accounted), since no record
costs more there, and by (if charged / own), since trials are few.

With ``--false-alarms`` correct small runs with canaries are audited instead, by their owner and from outside: how many
audits have a finding.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from node.audit.auditor import audit
from node.audit.evidence import gather
from node.audit.outsider import audit_log
from node.audit.recording import read_recording
from node.audit.report import AgentAudit
from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.worlds.twin import run_twin

SMALL: Mapping[str, Any] = {
    "run": {"seed": 3},
    "data": {"source": "synthetic", "agents": 4, "dimension": 2, "records": [8, 12]},
    "topology": {"kind": "ring"},
    "learning": {"loss": "logistic", "algorithm": "coordinate-descent", "mu": 2.5, "smoothness": 1.0},
    "clock": {"rate": 1.0, "updates": 4},
    "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
    "audit": {"canaries": 8},
}
MANY = 10_000
"""Trials that a record's own epsilon is computed from."""
ADDITIVE = ("gaussian", "laplace", "gamma-norm")
DESCENT = {"smoothness": 1.0}
ADMM = {"capacity": 50.0, "rho": 0.5, "penalty": 5.0}
ANCHOR = {"mu": 2.5}
KINDS: tuple[tuple[str, Mapping[str, Any], tuple[str, ...]], ...] = (
    ("coordinate-descent", {"mu": 2.5, **DESCENT}, ADDITIVE),
    ("coordinate-descent", {"mu": 2.5, "loss": "squared", **DESCENT}, ADDITIVE),
    ("gradient-descent", {"step": 1.0, **DESCENT}, ADDITIVE),
    ("averaging", {"step": 0.5, "local_steps": 5, **DESCENT}, ("gaussian",)),
    ("averaging", {"step": 0.5, "local": "output-perturbation"}, ("gaussian", "gamma-norm")),
    ("averaging", {"step": 0.5, "local": "objective-perturbation"}, ("gamma-norm",)),
    ("pvp", ADMM, ("gaussian", "gamma-norm")),
    ("dvp", ADMM, ("gaussian", "gamma-norm")),
    ("pp", {**ADMM, "penalty": 60.0}, ("gaussian", "gamma-norm")),
    ("propagation", {**ANCHOR, "anchor": "gradient"}, ADDITIVE),
    ("propagation", {**ANCHOR, "anchor": "output-perturbation"}, ("gaussian", "gamma-norm")),
    ("propagation", {**ANCHOR, "anchor": "objective-perturbation"}, ("gamma-norm",)),
    ("warm-start", {**ANCHOR, **DESCENT, "parameters": {"warm_epsilon": 0.5, "warm_updates": 2}}, ("gaussian",)),
    ("graph-smoothing", {}, ("gaussian",)),
    ("graph-smoothing-2r", {"loss": "squared"}, ("gaussian",)),
)


def measured(folder: Path, name: str, learning: Mapping[str, Any], mechanism: str, trials: int) -> str:
    """One row of the table."""
    # Exact minimisers cannot clip, and synthetic rows have a norm of at most sqrt(6).
    clip = 1.0 if any(key in learning for key in ("smoothness", "prior")) or name.startswith("graph") else 2.5
    configuration = from_table(
        {
            "run": {"seed": 3},
            "data": {"source": "synthetic", "agents": 6, "dimension": 6, "records": [40, 60]},
            "topology": {"kind": "ring"},
            "learning": {"loss": "logistic", "algorithm": name, **learning},
            "clock": {"updates": 10},
            "privacy": {"mechanism": mechanism, "epsilon": 2.0, "delta": 1e-3, "clip": clip},
        },
        name="table",
        lenient=True,
    )
    deal_run(configuration, folder)
    run_twin(folder)
    began = time.process_time()
    data, worst = audit(folder, trials=trials), audit(folder, trials=trials, adversarial=True)
    seconds = time.process_time() - began
    accounted = _mean([one.accounted for one in worst.agents])
    cells = [
        " ".join(filter(None, (name, learning.get("anchor") or learning.get("local"), learning.get("loss")))),
        mechanism,
        f"{accounted:.2f}",
    ]
    for found in (data, worst):
        cells.append(f"{_mean([one.attacked_if_charged for one in found.agents]):.2f}")
        cells.append(f"{_mean([one.attained for one in found.agents]):.0%}")
    sharp, own = _mean([one.attacked_if_charged for one in worst.agents]), _own_epsilon(folder)
    cells += [f"{_mean([one.attacked for one in worst.agents]):.2f}", f"{own:.2f}"]
    cells += [f"{own / accounted:.2f}", f"{sharp / own:.2f}", f"{seconds:.1f}"]
    findings = [*data.findings, *worst.findings]
    wrong = f"  {len(findings)} findings, {findings[0]}" if findings else ""
    return f"| {' | '.join(cells)} |{wrong}{_why(worst.agents)}"


def _own_epsilon(folder: Path) -> float:
    """Epsilon of the worst possible record of agent 0 in these runs: where many scores have a mean excess of delta."""
    evidence = gather(read_recording(folder), os.urandom(32))
    attempt = evidence.attacker.adversarial().attack(0, MANY, 0)
    if not attempt.exact:
        return float("nan")
    ratios = np.concatenate([attempt.scores[0], -attempt.scores[1]])

    def above(epsilon: float) -> float:
        return float(-np.expm1(np.minimum(epsilon - ratios, 0.0)).mean()) - evidence.delta

    return float(brentq(above, 0.0, 20.0)) if above(0.0) > 0.0 else 0.0


def false_alarms(scratch: Path, runs: int) -> str:
    """How many of so many correct runs have a finding, and the processor seconds of all."""
    began, alarms = time.process_time(), {"by its owner": 0, "from outside": 0}
    dealt = scratch / "dealt"
    deal_run(from_table(SMALL, name="small"), dealt)
    for number in range(runs):
        folder = Path(shutil.copytree(dealt, scratch / f"run-{number}"))
        for secret in folder.glob("agents/agent-*/secret"):
            secret.write_bytes(os.urandom(32))
        run_twin(folder)
        alarms["by its owner"] += not audit(folder, trials=50).ok
        alarms["from outside"] += not audit_log([folder / "traffic.mcap"], folder / "coins.json").ok
        shutil.rmtree(folder)
    told = ", ".join(f"{count} {name}" for name, count in alarms.items())
    return f"findings in {runs} correct runs: {told}; {time.process_time() - began:.0f} s of processor"


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


def _why(agents: tuple[AgentAudit, ...]) -> str:
    return "" if any(one.trials for one in agents) else f"  {agents[0].why}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--false-alarms", type=int, default=0, help="audit so many correct runs instead")
    options = parser.parse_args()
    trials = options.trials
    if options.false_alarms:
        with tempfile.TemporaryDirectory() as scratch:
            print(false_alarms(Path(scratch), options.false_alarms))
        return
    print(
        "| algorithm | mechanism | accounted | data: if charged | attained | worst: if charged | attained | attacked | "
        "own | own / accounted | if charged / own | seconds |"
    )
    print("|" + "---|" * 12)
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, learning, mechanisms) in enumerate(KINDS):
            for mechanism in mechanisms:
                try:
                    row = measured(Path(scratch) / f"{number}-{mechanism}", name, learning, mechanism, trials)
                except ValueError as error:
                    row = f"| {name} | {mechanism} | {error}"
                print(row, flush=True)


if __name__ == "__main__":
    main()
