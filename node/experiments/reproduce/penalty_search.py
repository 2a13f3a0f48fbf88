"""Tables 1 and 2 of paper 000: the search for rho and C^R that minimise the last loss, at alpha 0.3 as printed.

Only rho/C and eta/C matter to a model, and the noise of dual perturbation is in units of C. So the table shows rho and
C apart, as the paper does, and their ratio.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from node.experiments.charts import Panel, Series
from node.experiments.reproduce.adult import ADULT, DATA, MAJORITY, SMALL, Run, census, judged, method
from node.experiments.reproduce.dual_and_primal import LOSS_OFF_SCALE
from node.experiments.reproduce.figure import OPEN, PUBLISHED, Figure, Reproduction, Request, Setting
from node.untyped import Changes

ALPHA = 0.3
WEIGHTS = (1e-10, 1e-4, 10**-2.5, 1e-1)
LEAST_PRIMAL = 1e-4
"""The printed noise of primal perturbation has a scale of 2 C / (rho B alpha): below it no release is a number."""
CAPACITIES = (146.0, 1750.0)
PRINTED = {"admm": (1e-10, 1750.0), "dvp": (10**-2.5, 1750.0), "pvp": (1e-1, 146.0)}
"""Tables 1 and 2: rho and C^R of each algorithm."""
UNBOUNDED = 1e6
"""Losses above it are shown as it: a run that diverges has no loss to compare."""


def _changes(name: str) -> Changes:
    if name == "admm":
        return {"learning.algorithm": "admm", "privacy.mechanism": "none"}
    return method(name, PUBLISHED, ALPHA)


def _settings(request: Request) -> list[Setting]:
    return [
        Setting(
            (name, rho, capacity),
            census(updates=20),
            ADULT | _changes(name) | {"learning.rho": rho, "learning.capacity": capacity},
        )
        for name in PRINTED
        for rho in request.few([rho for rho in WEIGHTS if name != "pvp" or rho >= LEAST_PRIMAL])
        for capacity in CAPACITIES
    ]


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    runs: dict[tuple[str, float, float], list[Run]] = defaultdict(list)
    for setting, _, trial in request.trials(settings, request.runs(figure.runs)):
        runs[setting.key].append(judged(trial))
    losses = {key: min(UNBOUNDED, float(np.mean([run.last for run in found]))) for key, found in runs.items()}
    best = {name: min((key for key in losses if key[0] == name), key=lambda key: losses[key]) for name in PRINTED}
    rows = [
        {
            "method": name.upper(),
            "reading": OPEN if name == "admm" else PUBLISHED,
            "rho": rho,
            "C": capacity,
            "rho / C": rho / capacity,
            "last loss": loss,
            "least": "least" if best[name] == (name, rho, capacity) else "",
            "the paper's": "yes" if PRINTED[name] == (rho, capacity) else "",
        }
        for (name, rho, capacity), loss in losses.items()
    ]
    panels = [
        Panel(
            f"Last loss over rho, C = {capacity:g}",
            f"alpha {ALPHA:g} per round, {PUBLISHED}; losses above {LOSS_OFF_SCALE:g} are drawn at {LOSS_OFF_SCALE:g}",
            "rho",
            [
                Series(
                    f"{name.upper()}, {OPEN if name == 'admm' else PUBLISHED}",
                    [rho for n, rho, c in losses if (n, c) == (name, capacity)],
                    [min(LOSS_OFF_SCALE, loss) for (n, _, c), loss in losses.items() if (n, c) == (name, capacity)],
                    colour=colour,
                    dashed=name != "admm",
                )
                for colour, name in enumerate(PRINTED)
            ],
            x_log=True,
        )
        for capacity in CAPACITIES
    ]
    return figure.shown(rows, [_finding(name, best[name], losses) for name in PRINTED], _notes(), panels)


def _finding(name: str, best: tuple[str, float, float], losses: dict[tuple[str, float, float], float]) -> str:
    _, rho, capacity = best
    printed = losses.get((name, *PRINTED[name]))
    told = (
        "the paper's choice has the least loss."
        if (rho, capacity) == PRINTED[name]
        else f"the paper's choice, rho = {PRINTED[name][0]:.3g} and C = {PRINTED[name][1]:g}, has "
        + ("no run here." if printed is None else f"{printed:.3g}.")
    )
    return f"{name.upper()}: least loss {losses[best]:.3g} at rho = {rho:.3g}, C = {capacity:g}; {told}"


def _notes() -> list[str]:
    return [
        "The search reads the private records in each run, and no budget accounts for it. The paper does not print the "
        "values that it tried.",
        f"PVP is not run below rho = {LEAST_PRIMAL:g}: its printed noise has the scale 2 C / (rho B alpha).",
        f"eta = 0.5, 20 rounds by default; {MAJORITY}.",
    ]


FIGURE = Figure(
    "paper000/tables",
    "the rho and C that minimise the last loss",
    "tables 1 and 2: rho = 1e-10, 10^-2.5 and 0.1, C = 1750, 1750 and 146, for no privacy, DVP and PVP",
    _settings,
    _reduce,
    data=DATA,
    small=SMALL,
)
