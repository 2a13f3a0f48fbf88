"""The data sets, methods and settings that the figures of paper 003 run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from node.data import kddcup99
from node.experiments.reproduce.figure import OWN_SOURCES, PUBLISHED, TRULY, Figure, FigureError, Request, Row, Setting
from node.untyped import Changes, Tree

DELTA = 1e-3
RUNS = 2
"""Of each setting by default: a thousand published steps on all rows of Adult take most of a minute."""
STEPS, CLIP, REGULARISATION, CONVEXITY = 1000, 1.0, 0.01, 0.1
"""Local steps as published, the clipping norm, lambda m_i, and the convexity of the noisy average (not printed)."""


RANDOM_ROUNDS, FEW_ROUNDS = 300_000, 2_000
"""Of the descent on random records at most, and in the small form; it is printed with n^2, which large data sets do not
finish."""
figure_003 = partial(
    Figure,
    runs=RUNS,
    data="the folder of KDDCup99, Adult, Bank, the breast cancer or the credit card data, or one that holds their "
    "folders kddcup99, adult, bank, breast-cancer, credit-card",
    bundled="breast-cancer",
    reads=("data.path", "data.source"),
)
"""A figure, with what all of them have in common."""


@dataclass(frozen=True)
class Source:
    """A data set: its files, its folders where all lie together, the smallest party, the largest u."""

    files: tuple[str, ...]
    folders: tuple[str, ...]
    floor: int
    uneven: float

    def in_folder(self, folder: Path) -> bool:
        """Whether the folder holds one of its files."""
        return any((folder / file).exists() for file in self.files)


SOURCES = {
    "kddcup99": Source(kddcup99.FILES, ("kddcup99",), 100, 9.0),
    "adult": Source(("adult.data",), ("adult",), 100, 9.0),
    "bank": Source(("bank-additional-full.csv.gz", "bank-additional-full.csv"), ("bank",), 100, 9.0),
    "breast-cancer": Source(("breast_cancer_wisconsin_original.csv",), ("breast-cancer", "breast"), 8, 5.0),
    "credit-card": Source(("creditcard.csv", "creditcard.csv.gz"), ("credit-card",), 8, 5.0),
}
OWN = Source((), (), 8, 5.0)
"""Data of one's own."""

_LOCAL = {"learning.algorithm": "averaging", "learning.local_steps": 50, "learning.step": 1.0, "privacy.clip": CLIP}
_TOGETHER = {"learning.algorithm": "gradient-descent", "learning.momentum": 0.8, "privacy.clip": 0.5}
_PUBLISHED = _LOCAL | {"learning.local_steps": STEPS, "privacy.observer": "as_published"}
_EQUAL = {"learning.weighting": "equal"}
_SIMPLE = _EQUAL | {"learning.algorithm": "node.experiments.reproduce.published:SimpleAverage"}
_OUTPUT = {"learning.local": "output-perturbation", "learning.anchor_regularisation": 500.0}
_MASKED = {"learning.aggregation": "masked-sum", "privacy.observer": "sum", "privacy.colluders": 0}
METHODS: dict[str, tuple[str, Changes]] = {
    "WD-DP": (PUBLISHED, _PUBLISHED),
    "simple average": (PUBLISHED, _PUBLISHED | _SIMPLE),
    "WD-DP, releases seen": (TRULY, _LOCAL),
    "simple average, releases seen": (TRULY, _LOCAL | _EQUAL),
    "output perturbation, releases seen": (TRULY, _LOCAL | _OUTPUT),
    "descent in step, releases seen": (TRULY, _TOGETHER | {"learning.step": 5.0, "clock.updates": 50}),
    "descent in step, masked sums": (TRULY, _TOGETHER | _MASKED | {"learning.step": 3.0, "clock.updates": 60}),
}
WEIGHTED, EQUAL = ("WD-DP", "WD-DP, releases seen"), ("simple average", "simple average, releases seen")
"""The method of the paper and the one that it is compared with, as published and truly private."""


def table(agents: int, **data: Any) -> Tree:
    """What all runs start from: a complete graph, a fifth held out."""
    return {
        "data": {"agents": agents, "held_out": 0.2, **data},
        "topology": {"kind": "complete"},
        "clock": {"updates": 1},
        "network": {"deadline": 240.0},
    }


def settings(request: Request, start: Tree, places: Sequence[tuple[Changes, Row]]) -> list[Setting]:
    """Every method on every data set at each of the ``places``: (changes, the columns that show them).

    Keys are (data set, columns as pairs, method). Masked sums need three parties; a data set may be too small for a
    large u.
    """
    return [
        Setting(
            (source, tuple(shown.items()), method), start_of(source, start), {**task(source, path), **changes, **own}
        )
        for source, path in sources(request)
        for changes, shown in places
        if shown.get("u", 1.0) <= SOURCES.get(source, OWN).uneven
        for method, (_, own) in METHODS.items()
        if own.get("learning.aggregation") != "masked-sum"
        or changes.get("data.agents", request.agents(start["data"]["agents"])) >= 3
    ]


def start_of(source: str, start: Tree) -> Tree:
    """With the smallest party of that data set, where sizes are random."""
    floor = {"floor": SOURCES.get(source, OWN).floor} if start["data"]["split"] == "random" else {}
    return {**start, "data": {**floor, **start["data"]}}


def task(source: str, path: str | None) -> Changes:
    """What the true epsilons, the baselines and the losses of the figures rest on."""
    return {
        "data.source": source,
        "data.path": path,
        "learning.loss": "logistic",
        "learning.regularisation": REGULARISATION,
        "privacy.mechanism": "gaussian",
        "privacy.delta": DELTA,
    }


def sources(request: Request) -> list[tuple[str, str | None]]:
    """Find every data set that the overrides name or hold.

    ``data.path`` is the folder of one of them, or one that holds the folders of several. With ``data.source`` it is the
    file or folder of that data set, or the file of data of one's own.

    Returns
    -------
    list
        Pairs (data.source, data.path).

    Raises
    ------
    FigureError
        If the folder holds none of them, or if ``data.source`` is another data set.
    """
    given = request.given("data")
    path, source = given.get("path"), given.get("source")
    if source is not None:
        if source not in (*SOURCES, *OWN_SOURCES):
            raise FigureError(f"data.source = {source}: this figure accepts {', '.join((*SOURCES, *OWN_SOURCES))}")
        return [(source, path)]
    folder = Path(str(path)).expanduser()
    found = [(name, folder) for name, s in SOURCES.items() if s.in_folder(folder)] or [
        (name, folder / of) for name, s in SOURCES.items() for of in s.folders if s.in_folder(folder / of)
    ]
    if found:
        return [(name, str(place)) for name, place in found]
    wanted = ", ".join(f"{s.files[0]} (or {s.folders[0]}/{s.files[0]})" for s in SOURCES.values())
    raise FigureError(
        f"data.path = {folder}: accepted is a folder that holds one of {wanted}; for a file of your own add its "
        "format, as data.source = csv"
    )
