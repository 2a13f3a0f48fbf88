"""Figures and tables of the papers, made again beside what the papers say.

Rules that hold here:
- Every figure has two readings, each labelled: ``as published`` takes the paper's noise and privacy figure as printed
  and says beside it what that noise truly costs; ``truly private`` spends the stated budget over all that an
  eavesdropper hears, with nothing private outside the noise. Where there is no noise the reading is ``no privacy``.
- Every run goes through the configuration, the agents and the ledger rules of ordinary runs, in either world.
- A gain that does not appear is a finding like any other, and is written down.

A figure is a function of a `Request` that returns a `Reproduction`; it is known by an entry in `FIGURES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from node.experiments.charts import Panel

if TYPE_CHECKING:
    from node.experiments.trial import Trial

PUBLISHED, TRULY, OPEN = "as published", "truly private", "no privacy"


class FigureError(ValueError):
    """A figure that is not known, or a request that it cannot serve; one line."""


@dataclass(frozen=True)
class Request:
    """How a figure is to be made.

    ``seeds`` is the number of runs of each setting (None: the figure's own default for the world); ``overrides`` are
    ``section.key=value`` for every run; ``folder`` is where runs over processes have their folders.
    """

    world: str
    seeds: int | None
    overrides: tuple[str, ...]
    folder: Path
    tell: Callable[[str], None] = lambda _: None

    def runs(self, twin: int, processes: int = 1) -> int:
        """How many runs of each setting to make."""
        return self.seeds if self.seeds is not None else (twin if self.world == "twin" else processes)

    def play(self, name: str, table: Mapping[str, Any], changes: Mapping[str, Any], seed: int) -> Trial:
        """One run of ``table`` with ``changes``; in the twin its noise comes from the seed, so it can be repeated."""
        from node.experiments.trial import configured, play, seeded

        label = f"{name}-{seed}"
        self.tell(label)
        configuration = configured(table, changes, self.overrides)
        twin = self.world == "twin"
        return play(
            seeded(configuration, seed, simulation=twin and configuration.private, name=label),
            self.world,
            self.folder / label,
        )


@dataclass(frozen=True)
class Reproduction:
    """What came out. All ``rows`` have the same keys; ``paper`` says what the paper shows, ``findings`` what we saw."""

    figure: str
    title: str
    paper: str
    rows: list[dict[str, Any]]
    findings: list[str]
    notes: list[str]
    panels: list[Panel] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Everything, the drawn lines included, as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Figure:
    """Where a figure is made (``module:function``), what it shows, and which data it needs by ``data.path``."""

    place: str
    title: str
    data: str | None = None


def _figures(paper: str, names: Mapping[str, str], data: str | None = None) -> dict[str, Figure]:
    return {
        f"{paper}/{name}": Figure(f"node.experiments.reproduce.{paper}:{name.replace('-', '_')}", title, data)
        for name, title in names.items()
    }


FIGURES: dict[str, Figure] = {
    **_figures(
        "paper004",
        {
            "figure1": "coordinate descent against gossip ADMM, no privacy",
            "figure2a": "private coordinate descent over its updates, from a constant start",
            "figure2b": "private coordinate descent over its updates, from a private warm start",
            "figure2c": "accuracy over the dimension, several budgets",
            "figure3": "accuracy by size of the local dataset",
            "figure4": "noise on the records themselves (local DP)",
        },
    ),
    **_figures(
        "paper000",
        {
            "figure4": "convergence of dual and primal perturbation",
            "figure5": "privacy-accuracy trade-off of dual perturbation",
            "figure6": "privacy-accuracy trade-off of primal perturbation",
            "figure7": "empirical loss of the final model",
            "figure8": "misclassification rate of the final model",
        },
        "the folder that holds adult.data and adult.test",
    ),
    **_figures(
        "paper001",
        {
            "figure1": "convergence of M-ADMM with private, growing penalties",
            "figure2": "penalty perturbation against dual perturbation, five nodes",
            "figure3": "the same, 100 nodes, data spread evenly",
            "figure4": "the same, 100 nodes, data spread unevenly",
        },
        "the folder that holds adult.data and adult.test",
    ),
    **_figures(
        "paper002",
        {
            "figure2": "convergence of dual perturbation",
            "figure3": "privacy-accuracy trade-off of dual perturbation",
        },
        "the folder that holds adult.data and adult.test",
    ),
    **_figures(
        "paper003",
        {
            "figure1": "averages without a server, over epsilon, parties of random sizes",
            "figure2": "the same, over how unequal the parties are",
            "optimal-gap": "optimal gap over epsilon and the number of parties",
        },
        "the folder of Adult, Bank or the breast cancer data, or one that holds their folders adult, bank, breast",
    ),
    **_figures("paper004", {"table1": "MovieLens-100K, RMSE of each user"}, "the folder of MovieLens-100K"),
}


def reproduce(name: str, request: Request) -> Reproduction:
    """Make the figure ``name``; raises `FigureError` if it is not known or lacks its data."""
    figure = FIGURES.get(name)
    if figure is None:
        raise FigureError(f"figure {name}: not known; accepted are {', '.join(FIGURES)}")
    if figure.data is not None and not any(o.replace(" ", "").startswith("data.path=") for o in request.overrides):
        raise FigureError(f"figure {name}: needs --set data.path=FOLDER, {figure.data}")
    module, _, function = figure.place.partition(":")
    make = cast("Callable[[Request], Reproduction]", getattr(importlib.import_module(module), function))
    return make(request)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Standard deviation over runs; 0 for one run."""
    middle = mean(values)
    return (sum((v - middle) ** 2 for v in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else 0.0
