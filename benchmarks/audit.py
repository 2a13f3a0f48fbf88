"""What the auditor reaches, as one JSON document: attacked beside accounted, false alarms, and what it must find.

    OMP_NUM_THREADS=1 python benchmarks/audit.py [--only NAME]... [--trials N]

Everything runs in one process on fixed seeds. ``seconds`` are wall-clock times of each part.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.attacks.bounds import attacked
from coordinator_free.attacks.inversion import Inverted, invert
from coordinator_free.attacks.likelihood_ratio import Environment, FreshNoise, Replacement, attack_scores, environment
from coordinator_free.attacks.noise_tests import NoiseRow, examine
from coordinator_free.attacks.reconstruction import chance, reconstruct, residuals
from coordinator_free.attacks.worst_case import sampled_states, worst_alternative
from coordinator_free.privacy.accounting import calibrate, total
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.problem.losses import SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.run import run_asynchronous
from topology.families import build

DELTA = math.exp(-5)
CONFIDENCE = 0.95
SECRET = b"benchmark of the auditor"


class Run:
    """A recorded run of coordinate descent on a ring. ``opposite``: agent 0 has a record that is always clipped."""

    def __init__(
        self,
        *,
        mechanism: str,
        multipliers: FloatArray,
        agents: int = 4,
        updates: int = 100,
        records: int = 5,
        dimension: int = 1,
        opposite: bool = True,
        seed: int = 1,
    ) -> None:
        rng = np.random.default_rng(seed)
        network = build("ring", agents, seed)
        self.settings = []
        for agent in range(agents):
            x, y = rng.uniform(-1.0, 1.0, (records, dimension)), rng.normal(size=records)
            if opposite and agent == 0:
                x[0], y[0] = np.eye(dimension)[0], 100.0
            self.settings.append(
                Setting(
                    agent=agent,
                    neighbours=network.neighbours(agent),
                    weights=network.weights_of(agent),
                    problem=LocalProblem(x, y, SQUARED, 0.1 / records),
                    dimension=dimension,
                    updates=updates,
                    learning={"mu": 1.0, "smoothness": 2.0 * dimension + 0.2 / records},
                    mechanism=mechanism,
                    multipliers=multipliers,
                    clip=None if mechanism == "none" else 1.0,
                    secret=SECRET + bytes([agent, seed % 256, seed // 256]),
                )
            )
        transcript = run_asynchronous([CoordinateDescent(s) for s in self.settings], network, rate=1.0, seed=seed)
        self.heard = {(r.sender, r.index): r for r in transcript.releases}

    def said(self, agent: int) -> list[Release]:
        return [self.heard[key] for key in sorted(self.heard) if key[0] == agent]

    def vectors(self, agent: int) -> FloatArray:
        return np.stack([release.vector for release in self.said(agent)])

    def inverted(self, agent: int) -> list[Inverted]:
        return invert(CoordinateDescent(self.settings[agent]), self.said(agent), self.heard)

    def environment(self, agent: int) -> Environment:
        rows = self.inverted(agent)
        return environment(self.settings[agent], self.said(agent), self.heard, [row.mechanism for row in rows])

    def worst(self) -> tuple[Environment, Replacement, float]:
        world = self.environment(0)
        found = worst_alternative(world, sampled_states(world, self.vectors(0), 16, FreshNoise(SECRET)))
        return world, found.replacement, found.attained

    def noise(self) -> list[NoiseRow]:
        rows = []
        for agent, setting in enumerate(self.settings):
            before = np.zeros(setting.dimension)
            for row in self.inverted(agent):
                assert row.mechanism is not None
                rows.append(NoiseRow(agent, row.release.index, row.noise, row.mechanism, drift=row.exact - before))
                before = row.release.vector
        return rows


def _attack(run: Run, trials: int, delta: float, name: str) -> dict[str, Any]:
    world, replacement, attained = run.worst()
    accounted = total(world.mechanisms, delta).epsilon
    bound = attacked(
        *attack_scores(world, replacement, 2 * trials, FreshNoise(SECRET + name.encode())), delta, CONFIDENCE
    )
    return {
        "attacked": bound.epsilon,
        "accounted": accounted,
        "ratio": bound.epsilon / accounted,
        "ceiling": bound.ceiling,
        "attained": attained,
        "trials": trials,
    }


def laplace(trials: int) -> dict[str, Any]:
    """Per-round epsilon 0.1, 100 rounds: accounted 2.41 at delta e^-5, attacked at least 2.2."""
    return _attack(Run(mechanism="laplace", multipliers=np.full(100, 10.0)), trials, DELTA, "laplace")


def gaussian(trials: int) -> dict[str, Any]:
    """Gaussian noise of the same accounted epsilon: attacked at least 0.9 of it."""
    run = Run(mechanism="laplace", multipliers=np.full(100, 10.0))
    epsilon = total(run.environment(0).mechanisms, DELTA).epsilon
    multipliers = calibrate("gaussian", 100, epsilon, DELTA)
    return _attack(Run(mechanism="gaussian", multipliers=multipliers), trials, DELTA, "gaussian")


def one_release(trials: int) -> dict[str, Any]:
    """One Laplace release at epsilon 1, delta 0: attacked at least 0.95."""
    return _attack(Run(mechanism="laplace", multipliers=np.ones(1), updates=1), trials, 0.0, "one")


def repeated(_: int) -> dict[str, Any]:
    """200 audits of a correct mechanism, 1,000 trials each, 95% confidence: at most 5% above accounted."""
    counts = {}
    for name, updates, multiplier in (("laplace", 1, 1.0), ("laplace", 10, 4.0), ("gaussian", 10, 4.0)):
        run = Run(mechanism=name, multipliers=np.full(updates, multiplier), updates=updates)
        world, replacement, _ = run.worst()
        accounted = total(world.mechanisms, DELTA).epsilon
        noise = FreshNoise(SECRET + b"repeated")
        shown = [
            attacked(*attack_scores(world, replacement, 2000, noise), DELTA, CONFIDENCE).epsilon for _ in range(200)
        ]
        counts[f"{updates} {name}"] = {
            "audits": 200,
            "exceeded": int(sum(epsilon > accounted for epsilon in shown)),
            "accounted": accounted,
            "mean_attacked": float(np.mean(shown)),
        }
    return counts


def ungridded(trials: int) -> dict[str, Any]:
    """Raw float64 Laplace noise at epsilon 1: raw scores show more than 1, and no value is on the grid."""
    rng = np.random.default_rng(1)

    def scores(values: FloatArray) -> FloatArray:
        return np.abs(values - 1.0) - np.abs(values)

    first, second = rng.laplace(size=2 * trials), 1.0 + rng.laplace(size=2 * trials)
    run = Run(mechanism="laplace", multipliers=np.full(10, 10.0), updates=10, agents=20, dimension=3)
    rows = run.noise()
    raw = [replace(row, noise=row.noise + GRID * (rng.random(row.noise.size) - 0.5)) for row in rows]
    return {
        "accounted": 1.0,
        "attacked_raw_scores": attacked(scores(first), scores(second), 0.0, CONFIDENCE, step=None).epsilon,
        "attacked_rounded_scores": attacked(scores(first), scores(second), 0.0, CONFIDENCE).epsilon,
        "off_grid_found": len(examine(raw).off_grid),
        "off_grid_of": len(raw),
    }


def noise(_: int) -> dict[str, Any]:
    """Runs of 20 agents and 10 updates: half the noise is flagged with p < 1e-6, correct runs at most 1 in 1,000."""
    found: dict[str, Any] = {}
    for name in ("laplace", "gaussian", "gamma-norm"):
        halved, flagged = [], 0
        for seed in range(100):
            run = Run(
                mechanism=name,
                multipliers=np.full(10, 4.0),
                updates=10,
                agents=20,
                dimension=3,
                opposite=False,
                seed=seed,
            )
            rows = run.noise()
            flagged += not examine(rows).ok
            if seed < 10:
                halved.append(examine([replace(r, noise=np.rint(r.noise / 2.0 / GRID) * GRID) for r in rows]).p_value)
        found[name] = {"largest_p_of_half_noise": max(halved), "correct_runs": 100, "flagged": flagged}
    return found


def reconstruction(_: int) -> dict[str, Any]:
    """|cosine| with a record's features: above 0.99 without privacy, as chance gives under epsilon 1."""
    found: dict[str, Any] = {"chance_99": chance(20)}
    for name, multipliers in (("none", np.empty(0)), ("gaussian", calibrate("gaussian", 100, 1.0, 1e-3))):
        run = Run(mechanism=name, multipliers=multipliers, dimension=20, records=30, opposite=False)
        world, problem = run.environment(0), run.settings[0].problem
        cosines = [reconstruct(r, problem.x[r], residuals(world, run.vectors(0), r)) for r in range(problem.records)]
        found[name] = {
            "records": len(cosines),
            "average": float(np.mean([c.average for c in cosines])),
            "principal": float(np.mean([c.principal for c in cosines])),
            "smallest": float(min(c.principal for c in cosines)),
            "above_chance": int(sum(c.average > c.chance for c in cosines)),
        }
    return found


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    part.__name__: part for part in (laplace, gaussian, one_release, repeated, ungridded, noise, reconstruction)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="only this part; repeatable")
    parser.add_argument("--trials", type=int, default=100_000, help="trials of the large attacks")
    options = parser.parse_args()
    document = {}
    for name in options.only or PARTS:
        began = time.perf_counter()
        document[name] = PARTS[name](options.trials)
        document[name]["seconds"] = round(time.perf_counter() - began, 1)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
