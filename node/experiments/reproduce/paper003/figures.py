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

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

from node.experiments.charts import Panel, Series
from node.experiments.reproduce.figure import OPEN, PUBLISHED, Figure, Reproduction, Request, Setting
from node.experiments.reproduce.paper003.findings import findings
from node.experiments.reproduce.paper003.runs import ALONE, CENTRAL, MAJORITY, PATHAK, POOLED, places
from node.experiments.reproduce.paper003.settings import CONVEXITY, DELTA, RUNS, STEPS, settings, table

EPSILONS = (0.01, 0.05, 0.1, 0.25)
PARTIES = (2, 4, 8, 16, 32)
UNEVEN = (1.0, 3.0, 5.0, 7.0, 9.0)
LINES = {
    "WD-DP": 0,
    "simple average": 1,
    "output perturbation": 2,
    "descent in step": 3,
    "descent in step, masked sums": 4,
    CENTRAL: 5,
    ALONE: 6,
}
"""The colour of each method, for every observer. The noisy average of minimisers is in the table alone: its noise would
set the scale of every picture."""
X_LABELS = {"epsilon": "epsilon", "u": "level of non-average u", "m": "parties m"}


def _reduce(
    figure: Figure, request: Request, settings: list[Setting], *, over: str, grows: bool = False, gap: bool = False
) -> Reproduction:
    """Rows and findings over the columns ``over``, drawn over the first of them."""
    found = places(request, settings, request.runs(figure.runs))
    rows = [row for place in found for row in place.rows()]
    claims = findings(found, over, grows=grows, gap=gap)
    data = ", ".join(dict.fromkeys(place.source for place in found))
    panels = _panels(rows, over.partition(",")[0])
    return figure.shown(rows, claims, _notes(request.runs(figure.runs)), panels, of=f", {data}")


def _notes(runs: int) -> list[str]:
    return [
        f"{runs} run{'s' if runs > 1 else ''} of each; delta {DELTA:g}; true epsilons are the largest over deals.",
        f"Learning rates and rounds are not all printed: step 1; {STEPS} local steps as published, 50 where truly "
        f"private; the {PATHAK} has strong convexity {CONVEXITY:g}. Rows are scaled one by one.",
        "true heard, true result: the epsilon that holds for an eavesdropper on each party's release, and for an "
        "observer of the result alone; - where no release can be received, or where that observer knows less than the "
        "other.",
        f"{CENTRAL}: the parties hand their records over, so epsilon holds only for an observer of its model. {PATHAK} "
        "(Pathak et al. 2010) hides the parties' unnoised models by encryption. Masked sums need three parties.",
    ]


def _panels(rows: Sequence[Mapping[str, Any]], over: str) -> list[Panel]:
    """Accuracy and optimal gap of every method over ``over``, for each data set; over m the gap for each epsilon."""
    made = []
    for source in dict.fromkeys(row["data"] for row in rows):
        of = [row for row in rows if row["data"] == source]
        groups = [("Accuracy", "accuracy", of), ("Optimal gap", "gap", of)]
        if over == "m":
            groups = [
                (f"Optimal gap at epsilon {epsilon:g}", "gap", [row for row in of if row["epsilon"] == epsilon])
                for epsilon in dict.fromkeys(row["epsilon"] for row in of)
            ]
        for title, value, shown in groups:
            levels = [
                (name, mean(row[value] for row in shown if row["method"] == name))
                for name in (MAJORITY, POOLED)
                if value == "accuracy"
            ]
            below = f"{source}; dashed: as published, band: one deviation over runs"
            lines = _lines(shown, over, value)
            made.append(Panel(title, below, X_LABELS[over], lines, levels, x_log=over != "u", y_log=value == "gap"))
    return made


def _lines(rows: Sequence[Mapping[str, Any]], over: str, value: str) -> list[Series]:
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


def _over_epsilon(request: Request) -> list[Setting]:
    """Parties of random sizes, m = 32 by default."""
    at = [({"privacy.epsilon": epsilon}, {"epsilon": epsilon}) for epsilon in EPSILONS]
    return settings(request, table(32, split="random"), at)


def _over_unevenness(request: Request) -> list[Setting]:
    """The level of non-average u = n_max / n_min; epsilon 0.05, m = 16 by default."""
    at = [({"privacy.epsilon": 0.05, "data.ratio": u}, {"u": u}) for u in UNEVEN]
    return settings(request, table(16, split="ratio"), at)


def _over_parties(request: Request) -> list[Setting]:
    """Figures 3 to 11: parties of random sizes."""
    at = [
        ({"privacy.epsilon": epsilon, "data.agents": m}, {"m": m, "epsilon": epsilon})
        for m in PARTIES
        for epsilon in (EPSILONS[1], EPSILONS[-1])
    ]
    return settings(request, table(8, split="random"), at)


FIGURES = [
    Figure(
        f"paper003/{name}",
        title,
        paper,
        plan,
        partial(_reduce, **over),
        runs=RUNS,
        data="the folder of Adult, Bank or the breast cancer data, or one that holds their folders adult, bank, breast",
        bundled="breast-cancer",
        reads=("data.path", "data.source"),
    )
    for name, title, paper, plan, over in (
        (
            "figure1",
            "accuracy over epsilon, parties of random sizes",
            "WD-DP beats the simple average and is similar to centralised noisy descent; all grow with epsilon (plots)",
            _over_epsilon,
            {"over": "epsilon", "grows": True},
        ),
        (
            "figure2",
            "accuracy over the level of non-average u, epsilon 0.05",
            "WD-DP is steady in u; the simple average falls rapidly or fluctuates (plots)",
            _over_unevenness,
            {"over": "u"},
        ),
        (
            "optimal-gap",
            "optimal gap over epsilon and the number of parties",
            "WD-DP's gap is below that of the simple average and falls with epsilon (plots)",
            _over_parties,
            {"over": "m, epsilon", "gap": True},
        ),
    )
]
