"""The figures of paper 003 and their charts.

Rules that hold here:
- ``as published``: every party's noise is for the total size n, as in Theorem 1, and each baseline's is as its paper
  has it. Every row shows the epsilon that is true for an eavesdropper on each party's release, and for an observer of
  the result alone.
- ``truly private``: the same number is the total of what the named observer learns: of each release, or of the sum.
- Accuracy is on held-out rows, the mean over agents; the optimal gap is the mean logistic loss on all training rows
  minus that of the optimum without privacy. Both with their standard deviations over runs.
- Whether a claim of the paper appears is decided from the figures, run by run, never beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from typing import Any

from node.experiments.charts import Panel, Series
from node.experiments.reproduce.figure import OPEN, PUBLISHED, Figure, Reproduction, Request, Row, Setting
from node.experiments.reproduce.paper003.findings import findings
from node.experiments.reproduce.paper003.runs import ALONE, CENTRAL, MAJORITY, PATHAK, POOLED, RANDOM, places
from node.experiments.reproduce.paper003.settings import (
    CONVEXITY,
    DELTA,
    RANDOM_ROUNDS,
    STEPS,
    figure_003,
    settings,
    table,
)

EPSILONS = (0.01, 0.05, 0.1, 0.25)
UNEVEN = (1.0, 3.0, 5.0, 7.0, 9.0)
LINES = {
    "WD-DP": 0,
    "simple average": 1,
    "output perturbation": 2,
    "descent in step": 3,
    "descent in step, masked sums": 4,
    CENTRAL: 5,
    ALONE: 6,
    RANDOM: 7,
}
"""The colour of each method, for every observer. The noisy average of minimisers is in the table alone: its noise would
set the scale of every picture."""
X_LABELS = {"epsilon": "epsilon", "u": "level of non-average u"}
Plan = Callable[[Request], list[Setting]]


def _reduce(
    figure: Figure, request: Request, settings: list[Setting], *, over: str, grows: bool = False
) -> Reproduction:
    """Rows and findings over the column ``over``."""
    found = places(request, settings, request.runs(figure.runs))
    rows = [row for place in found for row in place.rows()]
    claims = findings(found, over, grows=grows)
    data = ", ".join(dict.fromkeys(place.source for place in found))
    panels = _panels(rows, over)
    return figure.shown(rows, claims, _notes(request.runs(figure.runs)), panels, of=f", {data}")


def _notes(runs: int) -> list[str]:
    return [
        f"{runs} run{'s' if runs > 1 else ''} of each; delta {DELTA:g}; true epsilons are the largest over deals.",
        f"Learning rates and rounds are not all printed: step 1; {STEPS} local steps as published, 50 where truly "
        f"private; the {PATHAK} has strong convexity {CONVEXITY:g}. Rows are scaled one by one.",
        "true releases, true result: the epsilon that holds for an eavesdropper on each party's release, and for an "
        "observer of the result alone; - where no release can be received, or where that observer knows less than the "
        "other.",
        f"{CENTRAL}: the parties hand their records over, so epsilon holds only for an observer of its model. "
        f"{RANDOM}: so too (Zhang et al. 2017); n^2 rounds, at most {RANDOM_ROUNDS:,}. {PATHAK} "
        "(Pathak et al. 2010) hides the parties' unnoised models by encryption. Masked sums need three parties.",
    ]


def _panels(rows: Sequence[Row], over: str) -> list[Panel]:
    """Accuracy and optimal gap of every method over ``over``, for each data set."""
    made = []
    for source in dict.fromkeys(row["data"] for row in rows):
        of = [row for row in rows if row["data"] == source]
        for title, value in (("Accuracy", "accuracy"), ("Optimal gap", "gap")):
            levels = [
                (name, mean(row[value] for row in of if row["method"] == name))
                for name in (MAJORITY, POOLED)
                if value == "accuracy"
            ]
            below = f"{source}; dashed: as published, band: one deviation over runs"
            lines = _lines(of, over, value)
            made.append(Panel(title, below, X_LABELS[over], lines, levels, x_log=over != "u", y_log=value == "gap"))
    return made


def _lines(rows: Sequence[Row], over: str, value: str) -> list[Series]:
    """One line for each method of `LINES`: column ``value``, with a band of its deviation, over column ``over``."""
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = [row for row in rows if row["method"] == method and row[value] is not None]
        name = method.removesuffix(", releases seen")
        if name in LINES:
            reading = line[0]["reading"]
            lines.append(
                Series(
                    name if reading == OPEN else f"{name} ({reading})",
                    [row[over] for row in line],
                    [row[value] for row in line],
                    [row["sd" if value == "accuracy" else "sd gap"] or 0.0 for row in line],
                    colour=LINES[name],
                    dashed=reading == PUBLISHED,
                )
            )
    return lines


# --- figures ---------------------------------------------------------------------------------------------------------


def _over_epsilon(request: Request, *, parties: int) -> list[Setting]:
    """Parties of random sizes; ``parties`` is their number by default."""
    at = [({"privacy.epsilon": epsilon}, {"epsilon": epsilon}) for epsilon in request.few(EPSILONS)]
    return settings(request, table(parties, split="random"), at)


def _over_unevenness(request: Request, *, parties: int, epsilon: float) -> list[Setting]:
    """The level of non-average u = n_max / n_min at one epsilon."""
    at = [({"privacy.epsilon": epsilon, "data.ratio": u}, {"u": u}) for u in request.few(UNEVEN)]
    return settings(request, table(parties, split="ratio"), at)


def _figure(number: int, title: str, paper: str, plan: Plan, **reduced: Any) -> Figure:
    return figure_003(
        f"paper003/figure{number}",
        title,
        paper,
        plan,
        partial(_reduce, **reduced),
        small=("data.agents=4",),
    )


FIGURES = [
    *(
        _figure(
            number,
            f"figures {number} and {number + (2 if number == 1 else 1)}: accuracy and optimal gap over epsilon, "
            f"{parties} parties of random sizes",
            "WD-DP beats the simple average and is similar to centralised noisy descent; with epsilon accuracies grow "
            "and gaps fall (plots)",
            partial(_over_epsilon, parties=parties),
            over="epsilon",
            grows=True,
        )
        for number, parties in ((1, 32), (4, 2), (6, 4), (8, 8), (10, 16))
    ),
    *(
        _figure(
            number,
            f"figures {number} and {other}: accuracy and optimal gap over the level of non-average u, {parties} "
            f"parties, epsilon {epsilon:g}",
            "WD-DP is steady in u; the simple average falls rapidly or fluctuates (plots)",
            partial(_over_unevenness, parties=parties, epsilon=epsilon),
            over="u",
        )
        for number, other, parties, epsilon in ((2, 12, 16, 0.05), (13, 14, 32, 0.1), (15, 16, 8, 0.01))
    ),
]
