"""What the default settings give people with data that no setting was chosen for: together minus alone, in the twin.

    python benchmarks/fresh.py [--population NAME...] [--config FILE...] [--seeds 3] [--epsilons 8 2 1 0.5 0.1 0.01]

Each population is a CSV file as a user has one: a column of people, features with public bounds, a label. The settings
are those of `sottovoce new`, with what `sottovoce budget` proposes for each epsilon. ``--config`` takes configurations
of your own in their place, and of these only [data]. "alone" is each person's own model as every table shows it, "best
ridge" the best of one strength for all, chosen on the test records. Differences are in the metric of the table, so a
smaller RMSE and a larger accuracy are gains; beside them the 95% interval over seeds and, for RMSE, the share of people
whose loss grows by more than 1%.

The descent is that of the agents, average by average, without messages; each average gets its noise at once.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import twin_runs

from coordinator_free.agent import Agent
from coordinator_free.agents.averages.gradient_descent import GradientDescent
from coordinator_free.problem.baselines import alone, best_alone, scores
from coordinator_free.problem.losses import loss
from coordinator_free.release import FloatArray
from node.dealing.preparation import Preparation
from node.dealing.proposal import propose

DELTA = 1e-3
LEARNING: dict[str, Any] = {
    "topology": {"kind": "complete"},
    "learning": {
        "algorithm": "gradient-descent",
        "regularisation": 0.1,
        "smoothness": "bound",
        "step": 1e-3,
        "iterate": "tail",
        "finish": True,
    },
    "clock": {"updates": 30},
    "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
}


class Population(NamedTuple):
    """People and how a record is drawn: each returns (features (m, d), labels (m,)) of one person."""

    people: int
    records: tuple[int, int]
    features: tuple[float, float]
    """Bounds of every feature, as the data's owner states them."""
    label: tuple[float, float] | None
    """Bounds of the label; None: classes."""
    person: Callable[[np.random.Generator, FloatArray, int], tuple[FloatArray, FloatArray]]
    """(random, common, m) -> one person's records, features in [-1, 1] before their bounds."""


def _rows(random: np.random.Generator, m: int, d: int) -> FloatArray:
    return random.uniform(-1.0, 1.0, size=(m, d))


def _linear(own: float, constant: float, noise: float) -> Callable[..., tuple[FloatArray, FloatArray]]:
    def person(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
        x = _rows(random, m, len(common))
        model = common + own * random.normal(size=len(common))
        return x, x @ model + constant * random.normal() + noise * random.normal(size=m)

    return person


def _unlike(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    x = _rows(random, m, len(common))
    return x, x @ random.normal(size=len(common)) + 2.0 * random.normal() + 0.7 * random.normal(size=m)


def _constants(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    return _rows(random, m, len(common)), 1.0 + 0.4 * random.normal() + random.normal(size=m)


def _amounts(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    x = _rows(random, m, len(common))
    logs = x @ common + 0.5 * random.normal() + 0.8 * random.normal(size=m)
    return x, np.clip(4.0 * np.exp(logs), 0.0, 500.0)


def _narrow(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    x = 0.05 * _rows(random, m, len(common))  # far inside of the stated bounds, and beside their middle
    y = 20.0 * x @ (common + 0.2 * random.normal(size=len(common))) + 0.7 * random.normal(size=m)
    return x - 0.8, y


def _two_kinds(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    x = _rows(random, m, len(common))
    return x, x @ common * random.choice([-1.0, 1.0]) + 0.5 * random.normal(size=m)


def _classes(own: float, constant: float, usual: float) -> Callable[..., tuple[FloatArray, FloatArray]]:
    def person(random: np.random.Generator, common: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
        x = _rows(random, m, len(common))
        model = 3.0 * (common + own * random.normal(size=len(common)))
        margins = x @ model + constant * random.normal() + usual
        return x, np.where(random.random(m) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)

    return person


POPULATIONS = {
    "alike": Population(300, (15, 35), (0.0, 10.0), (-6.0, 6.0), _linear(0.1, 0.2, 0.7)),
    "alike, many": Population(2000, (10, 20), (0.0, 10.0), (-6.0, 6.0), _linear(0.2, 0.3, 0.7)),
    "alike, few": Population(100, (20, 40), (0.0, 10.0), (-6.0, 6.0), _linear(0.2, 0.3, 0.7)),
    "unlike": Population(300, (20, 40), (0.0, 10.0), (-10.0, 10.0), _unlike),
    "constants": Population(600, (15, 35), (0.0, 1.0), (-4.0, 6.0), _constants),
    "amounts": Population(400, (15, 35), (0.0, 1.0), (0.0, 500.0), _amounts),
    "narrow": Population(300, (20, 40), (0.0, 1000.0), (-10.0, 10.0), _narrow),
    "two kinds": Population(300, (15, 35), (0.0, 1.0), (-6.0, 6.0), _two_kinds),
    "classes": Population(300, (15, 35), (0.0, 1.0), None, _classes(0.2, 0.3, 0.0)),
    "rare class": Population(300, (15, 35), (0.0, 1.0), None, _classes(0.2, 0.5, -3.0)),
}
DIMENSION = 7


def written(name: str, folder: Path, seed: int) -> dict[str, Any]:
    """The file of a population, and the [data] that its owner writes."""
    one = POPULATIONS[name]
    random = np.random.default_rng([seed, 5])
    common = random.normal(size=DIMENSION)
    low, high = one.features
    path = folder / f"{name.replace(' ', '-').replace(',', '')}-{seed}.csv"
    with path.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(("person", *(f"x{k}" for k in range(DIMENSION)), "y"))
        for i in range(one.people):
            x, y = one.person(random, common, int(random.integers(one.records[0], one.records[1] + 1)))
            for row, label in zip(low + (x + 1.0) * (high - low) / 2.0, y, strict=True):
                said = ("yes" if label > 0 else "no") if one.label is None else f"{label:.4f}"
                out.writerow((f"p{i}", *(f"{value:.5f}" for value in row), said))
    data: dict[str, Any] = {"source": "csv", "path": str(path), "column": "person", "label": "y", "held_out": 0.3}
    data |= {"outside": "clip", "bounds": {f"x{k}": list(one.features) for k in range(DIMENSION)}}
    if one.label is None:
        return data | {"positive": "yes", "negative": "no"}
    data["bounds"]["y"] = list(one.label)
    return data


def descended(agents: list[Agent], seed: int) -> None:
    """Let the agents take all steps.

    All clipped gradients of a step are computed at once, and its average gets noise of the deviation that the noise of
    all agents has together: what a flood or a masked sum would make of the agents' contributions.
    """
    party = [agent for agent in agents if isinstance(agent, GradientDescent)]
    first, random = party[0], np.random.default_rng([seed, 7])
    x = np.concatenate([agent._problem.x for agent in party])
    y = np.concatenate([agent._problem.y for agent in party])
    weights = np.repeat(first._shares / first._sizes, first._sizes)
    lengths, clip = np.linalg.norm(x, axis=1), float(first._setting.clip or 0.0)
    for stage in range(first.stages(first._setting.updates)):
        slopes = first._problem.loss.derivatives(first._iterate, x, y)
        slopes *= np.minimum(1.0, clip / np.maximum(np.abs(slopes) * lengths, 1e-300))
        average = (weights * slopes) @ x + first._deviation(stage) * random.normal(size=x.shape[1])
        for agent in party:
            agent._apply(stage, average)


def defaults(data: dict[str, Any], epsilon: float, seed: int) -> Preparation:
    """The run that `sottovoce new` and `sottovoce budget` lead to."""
    classes = "positive" in data
    table = {
        "data": data,
        **LEARNING,
        "learning": {**LEARNING["learning"], "loss": "logistic" if classes else "squared"},
    }
    changes: dict[str, Any] = {"privacy.epsilon": epsilon}
    first = twin_runs.configured(table, changes, seed)
    return twin_runs.configured(table, changes | dict(propose(first).settings), seed)


def measured(data: dict[str, Any], epsilons: list[float], seed: int) -> Iterator[tuple[str, float, float, float]]:
    """(name, minus alone, minus best ridge, share of people that are worse) for each epsilon; first the baselines."""
    for epsilon in epsilons:
        made = defaults(data, epsilon, seed)
        judge, tests, problems = loss(made.configuration.learning.loss), twin_runs.tests_of(made), made.problems()
        own = scores(alone(problems), tests, judge)
        ridge = scores(best_alone(problems, tests)[0], tests, judge)
        agents = twin_runs.agents_of(made)
        descended(agents, seed)
        models = np.stack([agent.finish() for agent in agents if isinstance(agent, GradientDescent)])
        found = scores(models, tests, judge)
        worse = np.nan if judge.larger_is_better else float(np.mean(found > 1.01 * own))
        if epsilon == epsilons[0]:
            yield "alone", float(np.nanmean(own)), 0.0, 0.0
            yield "best ridge", float(np.nanmean(ridge)), float(np.nanmean(ridge - own)), 0.0
        yield f"epsilon {epsilon:g}", float(np.nanmean(found - own)), float(np.nanmean(found - ridge)), worse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--population", nargs="*", default=None, choices=list(POPULATIONS))
    parser.add_argument("--config", nargs="*", default=[], type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[8.0, 2.0, 1.0, 0.5, 0.1, 0.01])
    options = parser.parse_args()
    names = options.population or ([] if options.config else list(POPULATIONS))
    with tempfile.TemporaryDirectory() as folder:
        for name in [*names, *options.config]:
            rows = [
                list(measured(_data(name, Path(folder), seed), options.epsilons, seed)) for seed in range(options.seeds)
            ]
            print(f"{name}: alone {np.mean([row[0][1] for row in rows]):.4f}, best ridge minus alone "
                  f"{np.mean([row[1][2] for row in rows]):+.4f}", flush=True)  # fmt: skip
            for place in range(2, len(rows[0])):
                minus = [twin_runs.interval([row[place][k] for row in rows]) for k in (1, 2)]
                print(
                    f"  {rows[0][place][0]:14} minus alone {minus[0]['mean']:+.4f} +- {minus[0]['half_width']:.4f}   "
                    f"minus best ridge {minus[1]['mean']:+.4f} +- {minus[1]['half_width']:.4f}   "
                    f"worse {np.mean([row[place][3] for row in rows]):.2f}",
                    flush=True,
                )


def _data(name: str | Path, folder: Path, seed: int) -> dict[str, Any]:
    if isinstance(name, str):
        return written(name, folder, seed)
    data = tomllib.loads(name.read_text())["data"]
    if "path" in data:
        data["path"] = str((name.parent / data["path"]).resolve())
    found: dict[str, Any] = data
    return found


if __name__ == "__main__":
    main()
