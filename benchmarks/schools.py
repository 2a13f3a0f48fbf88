"""What learning together buys 65 London schools: test RMSE, in the twin, minus each school alone.

    python benchmarks/schools.py [--seeds 20] [--epsilons 8 2 1 0.5 0.1 0.01] [--masked 0.5 0.1] [--proposed]
                                 [--descent] [--json]

A common part in private and an own part at home, for each epsilon with its own steps (``--proposed``: with those that
`sottovoce budget` proposes); beside it the best ridge alone, one pooled model, and a mixed-effects model on all records
in one place. ``--descent`` adds coordinate descent on a sparse graph (Bellet et al. 2018). Each seed is another split,
graph and noise. Differences are paired by seed and come with their 95% interval.

"worse" is the share of schools whose loss on held-out pupils grows by more than 1%, "surely" the share where it grows
by more than twice its standard error over these pupils. Equal models would give 2.5%.

The descent is that of the agents, average by average, without messages; each average gets its noise at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import twin_runs
from fresh import descended

from coordinator_free.problem.baselines import alone, best_alone, pooled, scores
from coordinator_free.problem.losses import SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.dealing.preparation import Preparation
from node.dealing.proposal import propose

DATA: dict[str, Any] = {"source": "schools", "held_out": 0.3}
BASE: dict[str, Any] = {
    "data": DATA,
    "topology": {"kind": "random-regular", "degree": 10},
    "learning": {"loss": "squared", "mu": 20.0, "regularisation": 0.1, "smoothness": 2.0},
    "clock": {"updates": 100},
}
DESCENT = {
    "clock.updates": 150,
    "learning.finish": True,
    "learning.finish_mu": 20.0,
    "privacy.mechanism": "gaussian",
    "privacy.delta": 1e-3,
    "privacy.clip": 0.5,
}
COMMON: dict[str, Any] = {
    "data": DATA,
    "topology": {"kind": "complete"},
    "learning": {
        "algorithm": "gradient-descent",
        "loss": "squared",
        "regularisation": 0.1,
        "smoothness": 0.6,
        "iterate": "tail",
        "finish": True,
    },
    "privacy": {"mechanism": "gaussian", "delta": 1e-3},
}
STEPS = ((2.0, 100, 0.5, 2.4), (1.0, 60, 1.0, 1.6), (0.5, 30, 1.0, 1.6), (0.0, 10, 1.0, 1.6))
"""From which epsilon on how many steps are taken, of which clip and size."""
MASKED = ((0.5, 100, 0.5, 2.4), (0.0, 60, 0.5, 2.4))
"""The same where only the sums are seen."""


def common(epsilon: float, masked: bool) -> dict[str, Any]:
    """Changes of ``COMMON`` for one epsilon."""
    steps, clip, step = next(chosen for least, *chosen in (MASKED if masked else STEPS) if epsilon >= least)
    found: dict[str, Any] = {"clock.updates": steps, "privacy.epsilon": epsilon, "privacy.clip": clip}
    found["learning.step"] = step
    if masked:
        found |= {"learning.aggregation": "masked-sum", "privacy.observer": "sum", "privacy.colluders": 1}
    return found


def mixed_effects(problems: Sequence[LocalProblem], rounds: int = 60) -> FloatArray:
    """theta_i ~ N(c, D), labels N(x theta_i, s): c, D and s by expectation-maximisation on all records, (n, p)."""
    p = problems[0].dimension
    centre, spread, noise = pooled(problems, 1.0), 0.1 * np.eye(p), 0.5
    means = np.tile(centre, (len(problems), 1))
    for _ in range(rounds):
        precision, left, missed = np.linalg.inv(spread), np.zeros((p, p)), 0.0
        for i, problem in enumerate(problems):
            variance = np.linalg.inv(precision + problem.x.T @ problem.x / noise)
            means[i] = variance @ (precision @ centre + problem.x.T @ problem.y / noise)
            left += variance
            missed += float(np.square(problem.y - problem.x @ means[i]).sum())
            missed += float(np.einsum("ij,jk,ik->", problem.x, variance, problem.x))
        centre = means.mean(axis=0)
        spread = (left + (means - centre).T @ (means - centre)) / len(problems) + 1e-6 * np.eye(p)
        noise = missed / sum(problem.records for problem in problems)
    return means


def one_seed(seed: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Scores of everything for one seed."""
    preparation = twin_runs.configured(BASE, {}, seed)
    problems = preparation.problems()
    others = alone(problems)
    row = {
        "alone": twin_runs.score(preparation, others),
        "best ridge alone": judged(preparation, best_alone(problems, twin_runs.tests_of(preparation))[0], others),
        "pooled": judged(preparation, np.tile(pooled(problems, 0.1), (len(problems), 1)), others),
        "mixed effects, all in one place": judged(preparation, mixed_effects(problems), others),
    }
    for masked, epsilons in ((False, options.epsilons), (True, options.masked)):
        for epsilon in epsilons:
            made = twin_runs.configured(COMMON, common(epsilon, masked), seed)
            if options.proposed:
                made = twin_runs.configured(COMMON, common(epsilon, masked) | dict(propose(made).settings), seed)
            name = f"epsilon {epsilon:g}{', masked sums' if masked else ''}"
            row |= _private(name, made, others)
    for epsilon in (2.0, 1.0) if options.descent else ():
        made = twin_runs.configured(BASE, {**DESCENT, "privacy.epsilon": epsilon}, seed)
        finishes = twin_runs.run(made, twin_runs.agents_of(made)).finishes
        row[f"epsilon {epsilon:g}: coordinate descent"] = judged(made, _all(finishes), others)
    return row


def judged(preparation: Preparation, models: FloatArray, others: FloatArray) -> dict[str, float]:
    """Scores of models, and how many of the agents lose against their other models."""
    tests = twin_runs.tests_of(preparation)
    worse = scores(models, tests, SQUARED) > 1.01 * scores(others, tests, SQUARED)
    surely = []
    for (x, y), model, other in zip(tests, models, others, strict=True):
        grown = np.square(y - x @ model) - np.square(y - x @ other)
        surely.append(grown.sum() > 2.0 * np.sqrt(len(y)) * grown.std())
    found = {"worse": float(np.mean(worse)), "surely": float(np.mean(surely))}
    return twin_runs.score(preparation, models) | found


def _all(finishes: Sequence[FloatArray | None]) -> FloatArray:
    return np.stack([finish for finish in finishes if finish is not None])


def _private(name: str, made: Preparation, others: FloatArray) -> dict[str, dict[str, float]]:
    agents = twin_runs.agents_of(made)
    descended(agents, made.seed)
    finishes = [agent.finish() for agent in agents]
    return {
        f"{name}: common part": judged(made, np.stack([agent.model for agent in agents]), others),
        f"{name}: own part": judged(made, _all(finishes), others),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[8.0, 2.0, 1.0, 0.5, 0.1, 0.01])
    parser.add_argument("--masked", type=float, nargs="*", default=[])
    parser.add_argument("--descent", action="store_true")
    parser.add_argument("--proposed", action="store_true", help="steps, clip and size as `sottovoce budget` proposes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [one_seed(seed, options) for seed in range(options.first, options.first + options.seeds)]
    names = list(rows[0])
    result = {
        "seeds": options.seeds,
        "rmse": {name: twin_runs.interval([row[name]["mean"] for row in rows]) for name in names},
        "minus_alone": {name: twin_runs.paired(rows, name, "alone") for name in names if name != "alone"},
        **{
            part: {name: float(np.mean([row[name][part] for row in rows])) for name in names if part in rows[0][name]}
            for part in ("worse", "surely")
        },
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{options.seeds} seeds; test RMSE, and difference to each school alone with its 95% interval")
    for name in names:
        line = f"{name:40} {result['rmse'][name]['mean']:.4f}"
        if name != "alone":
            for part in ("mean", "smallest_quarter"):
                difference = result["minus_alone"][name][part]
                line += f"   {part} {difference['mean']:+.4f} +- {difference['half_width']:.4f}"
        if name in result["worse"]:
            line += f"   worse {result['worse'][name]:.2f}, surely {result['surely'][name]:.3f}"
        print(line)


if __name__ == "__main__":
    main()
