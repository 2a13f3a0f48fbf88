"""Accuracy of averages without a server on Adult, eight parties, delta 1e-5: each release seen, and masked sums.

    python benchmarks/adult_averages.py --path FOLDER [--seeds 5]      FOLDER holds adult.data

The configurations are those of examples/, in the twin: noise comes from the seed, so the figures repeat. At epsilon
0.05 fewer, smaller steps and the mean of the last half are taken instead; seeds 11 and 12 chose them, seeds 1 to 5 are
shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from node.configuration.reading import load
from node.experiments.trial import play, seeded

EXAMPLES = Path(__file__).parent.parent / "examples"
CAREFUL = ["learning.momentum=0.8", "learning.iterate=tail"]
SETTINGS: tuple[tuple[str, float, list[str]], ...] = (
    ("adult-wddp", 0.05, [*CAREFUL, "clock.updates=30", "learning.step=2.0"]),
    ("adult-wddp", 0.25, []),
    ("adult-wddp", 1.0, []),
    ("adult-masked-sum", 0.05, [*CAREFUL, "clock.updates=60", "learning.step=3.0"]),
    ("adult-masked-sum", 0.25, []),
    ("adult-masked-sum", 1.0, []),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True, help="the folder that holds adult.data")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    for example, epsilon, more in SETTINGS:
        overrides = [f"data.path={options.path}", f"privacy.epsilon={epsilon}", *more]
        configuration = load(EXAMPLES / f"{example}.toml", overrides)
        scores = []
        for seed in range(1, options.seeds + 1):
            trial = play(seeded(configuration, seed, simulation=True), "twin")
            assert trial.epsilon is not None
            assert trial.epsilon <= epsilon
            scores.append(float(np.mean(trial.scores(trial.models))))
        spread = stdev(scores) if len(scores) > 1 else 0.0
        print(f"{example:18} epsilon {epsilon:<5g} accuracy {mean(scores):.4f} (sd {spread:.4f})", flush=True)


if __name__ == "__main__":
    main()
