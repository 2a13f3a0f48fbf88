"""What a figure of a paper is: a table of settings, and a reducer from their runs to rows, findings and panels.

Rules that hold here:
- Every figure has two readings, each labelled: ``as published`` takes the paper's noise and privacy figure as printed
  and shows beside it what that noise truly costs; ``truly private`` spends the stated budget over everything that an
  eavesdropper receives, with nothing private outside the noise. Where there is no noise the reading is ``no privacy``.
- Every run goes through the configuration, the agents and the ledger rules of ordinary runs, in either world.
- A gain that does not appear is a finding like any other, and is reported.
- An override that no run of the figure can use is refused before the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from node.configuration.reading import set_value
from node.configuration.sections import Configuration
from node.configuration.usage import unused
from node.experiments.charts import Panel
from node.experiments.trial import Trial, configured, play, seeded
from node.untyped import Json, Tree

PUBLISHED, TRULY, OPEN = "as published", "truly private", "no privacy"
OWN_SOURCES = ("csv", "parquet", "npz", "svmlight")
"""Data of one's own."""


_Level = TypeVar("_Level")
Row = dict[str, Any]
"""A row of a figure's table: a cell of each column, and each figure has columns of its own."""


class FigureError(ValueError):
    """A figure that is not known, or a request that it cannot serve; one line."""


class UnusedOverride(FigureError):
    """An ``override`` that no run of a figure can use."""

    def __init__(self, message: str, override: str) -> None:
        super().__init__(message)
        self.override = override


@dataclass(frozen=True)
class Setting:
    """One row of a figure's table of settings.

    ``key`` names the run among those of its figure. ``table`` is a configuration whose values an override may change;
    ``changes`` are the values that make the figure what it is: no override changes them, nor anything in ``[privacy]``,
    which is what a reading means.
    """

    key: tuple[Any, ...]
    table: Mapping[str, Any]
    changes: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The key as a plain name."""
        return slug(*(part for part in self.key if part is not None))

    def takes(self, path: str) -> bool:
        """Whether an override of the setting ``path`` holds in this run."""
        fixed = any(path == own or path.startswith(f"{own}.") for own in self.changes)
        return not fixed and not path.startswith("privacy.")

    def uses(self, path: str, overrides: Sequence[str]) -> bool:
        """Whether an override of ``path`` holds in this run, and the run's algorithm and data use the setting."""
        if not self.takes(path):
            return False
        configuration = self.configuration(overrides)
        section, key = [*path.split("."), ""][:2]
        known = type(getattr(configuration, section)).model_fields
        return key in known and f"{section}.{key}" not in unused(configuration)

    def configuration(self, overrides: Sequence[str]) -> Configuration:
        """The configuration of this run under those of the ``overrides`` that hold in it."""
        return configured(self.table, self.changes, [o for o in overrides if self.takes(overridden(o))])


LARGEST_KEPT: Final = 4_000_000
"""Bytes of releases of a run that is kept for other figures."""


@dataclass(frozen=True)
class Request:
    """How a figure is to be made.

    ``seeds`` is the number of runs of each setting (None: the figure's own default for the world); ``overrides`` are
    ``section.key=value`` for every run; ``folder`` is where runs over processes have their folders. ``small`` asks for
    the small form: it shows that the figure can be made, and its numbers show nothing else.
    """

    world: str
    seeds: int | None
    overrides: tuple[str, ...]
    folder: Path
    tell: Callable[[str], None] = lambda _: None
    small: bool = False
    known: dict[str, Trial] | None = None
    """Runs in the twin that other figures of the same paper made, by configuration; None: they are made again."""

    def runs(self, twin: int) -> int:
        """How many runs of each setting to make, where ``twin`` is the default in the twin."""
        return self.seeds or (twin if self.world == "twin" else 1)

    def few(self, values: Sequence[_Level]) -> Sequence[_Level]:
        """The levels of what a figure varies: in the small form the first and the last alone."""
        return [values[0], values[-1]] if self.small and len(values) > 2 else values

    def given(self, section: str) -> Tree:
        """The overrides of one section, by key."""
        table: Tree = {}
        for override in self.overrides:
            set_value(table, override)
        found: Tree = table.get(section, {})
        return found

    def agents(self, default: int) -> int:
        """How many agents the overrides ask for."""
        given = self.given("data").get("agents")
        return given if isinstance(given, int) else default

    def play(self, setting: Setting, seed: int, place: str = "") -> Trial:
        """One run; in the twin its noise comes from the seed, so it can be repeated."""
        label = f"{setting.label}-{seed}"
        configuration = setting.configuration(self.overrides)
        simulation = self.world == "twin" and configuration.private
        configuration = seeded(configuration, seed, simulation=simulation, name=label)
        key = configuration.model_dump_json(exclude={"run": {"name"}})
        if self.world == "twin" and self.known is not None and key in self.known:
            return self.known[key]
        self.tell(place + label)
        trial = play(configuration, self.world, self.folder / label)
        if self.known is not None and sum(release.vector.nbytes for release in trial.releases) <= LARGEST_KEPT:
            self.known[key] = trial
        return trial

    def trials(self, settings: Sequence[Setting], runs: int) -> Iterator[tuple[Setting, int, Trial]]:
        """Every setting with every seed below ``runs``, in the order of the table, one seed after another."""
        for seed in range(runs):
            for k, setting in enumerate(settings, 1 + seed * len(settings)):
                yield setting, seed, self.play(setting, seed, f"run {k} of {runs * len(settings)}, ")


@dataclass(frozen=True)
class Reproduction:
    """What came out. All ``rows`` have the same keys; ``paper`` is what the paper shows, ``findings`` what we found."""

    figure: str
    title: str
    paper: str
    rows: list[Row]
    findings: list[str]
    notes: list[str]
    panels: list[Panel] = field(default_factory=list)

    def as_json(self) -> Json:
        """Everything, the drawn lines included, as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper.

    ``data`` describes the ``data.path`` that it needs, None where it needs none; the data set ``bundled`` comes with
    the examples and needs none either. ``runs`` is the default number of runs of each setting in the twin. Overrides of
    ``reads`` choose the settings themselves; ``accepts`` names the sections and settings that matter where not all of
    them do. ``small`` are the overrides of the small form.
    """

    name: str
    title: str
    paper: str
    settings: Callable[[Request], list[Setting]]
    reduce: Callable[[Figure, Request, list[Setting]], Reproduction]
    runs: int = 1
    data: str | None = None
    bundled: str | None = None
    reads: tuple[str, ...] = ()
    accepts: tuple[str, ...] | None = None
    small: tuple[str, ...] = ()

    def shown(
        self,
        rows: list[Row],
        findings: list[str],
        notes: Sequence[str],
        panels: list[Panel],
        *,
        of: str = "",
    ) -> Reproduction:
        """The reproduction with these contents; ``of`` ends its title."""
        return Reproduction(self.name, self.title + of, self.paper, rows, findings, list(notes), panels)


def overridden(override: str) -> str:
    """The setting that ``section.key=value`` changes."""
    return ".".join(part.strip() for part in override.partition("=")[0].split("."))


def slug(*parts: Any) -> str:
    """Letters and digits of the parts, in small letters, with hyphens between."""
    words = " ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts)
    return "-".join("".join(c if c.isalnum() else " " for c in words).lower().split())


def mean(values: Sequence[float]) -> float:
    """The average."""
    return sum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Standard deviation over runs; 0 for one run."""
    middle = mean(values)
    return (sum((v - middle) ** 2 for v in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else 0.0
