"""Every figure by its name, and how one is made for a request."""

from __future__ import annotations

from dataclasses import replace

from node.configuration.refusals import ConfigurationError
from node.experiments.reproduce import adult_rows, paper000, paper002, penalty_search
from node.experiments.reproduce.figure import (
    Figure,
    FigureError,
    Reproduction,
    Request,
    Setting,
    UnusedOverride,
    overridden,
)
from node.experiments.reproduce.paper001 import comparison, figure1
from node.experiments.reproduce.paper003 import condition, learning_rate
from node.experiments.reproduce.paper003 import figures as paper003
from node.experiments.reproduce.paper004 import figure1 as descent
from node.experiments.reproduce.paper004 import figure2, figure2c, figure3, figure4, table1, updates

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        descent.FIGURE,
        *figure2.FIGURES,
        figure2c.FIGURE,
        figure3.FIGURE,
        figure4.FIGURE,
        *paper000.FIGURES,
        penalty_search.FIGURE,
        adult_rows.FIGURE,
        figure1.FIGURE,
        *comparison.FIGURES,
        *paper002.FIGURES,
        *paper003.FIGURES,
        learning_rate.FIGURE,
        condition.FIGURE,
        table1.FIGURE,
        *updates.FIGURES,
    )
}


def reproduce(name: str, request: Request) -> Reproduction:
    """Make the figure ``name``.

    Raises
    ------
    FigureError
        If the figure is not known, lacks its data, or cannot use one of the overrides.
    """
    figure = FIGURES.get(name)
    if figure is None:
        raise FigureError(f"figure {name}: not known; accepted are {', '.join((*FIGURES, *papers()))}")
    wanted = in_form(figure, request)
    settings = planned(figure, wanted)
    made = figure.reduce(figure, wanted, settings)
    small = [f"A small form ({', '.join(figure.small)}): only the full one can be compared with the paper."]
    return replace(made, notes=[*made.notes, *_partly_used(settings, request), *(small if request.small else ())])


def in_form(figure: Figure, request: Request) -> Request:
    """The request with the overrides of the figure's small form, if that is wanted; those of the request hold."""
    if not request.small:
        return request
    given = {overridden(override) for override in request.overrides}
    small = tuple(override for override in figure.small if overridden(override) not in given)
    return replace(request, seeds=request.seeds or 1, overrides=(*small, *request.overrides))


def papers() -> tuple[str, ...]:
    """The names of the papers, each of which stands for all its figures."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name in sorted(FIGURES)))


def of_paper(paper: str, request: Request) -> dict[str, Request]:
    """The request for each figure of ``paper``: with those of the overrides that the figure can use.

    Raises
    ------
    FigureError
        If a figure lacks its data, or if no figure can use one of the overrides.
    """
    figures = [figure for name, figure in FIGURES.items() if name.partition("/")[0] == paper]
    found = {figure.name: _usable(figure, request) for figure in figures}
    for override in request.overrides:
        if not any(override in wanted.overrides for wanted in found.values()):
            raise FigureError(
                f"{paper}: --set {override} would change nothing in any of its figures; "
                f"sottovoce reproduce {figures[0].name} --set {override} says why"
            )
    return found


def _usable(figure: Figure, request: Request) -> Request:
    """The request without the overrides that the figure cannot use."""
    error = _refusal(figure, request)
    while error is not None:
        suspects = [error.override] if isinstance(error, UnusedOverride) else request.overrides
        without = [
            replace(request, overrides=tuple(o for o in request.overrides if o != suspect))
            for suspect in suspects
            if suspect in request.overrides
        ]
        if not without:
            raise error
        refusals = [_refusal(figure, left) for left in without]
        best = refusals.index(None) if None in refusals else 0
        if refusals[best] is not None and not isinstance(error, UnusedOverride):
            raise error
        request, error = without[best], refusals[best]
    return request


def _refusal(figure: Figure, request: Request) -> UnusedOverride | ConfigurationError | None:
    """Why one of the overrides does not fit the figure; None where all do."""
    try:
        planned(figure, in_form(figure, request))
    except (UnusedOverride, ConfigurationError) as error:
        return error
    return None


def planned(figure: Figure, request: Request) -> list[Setting]:
    """The figure's table of settings, after a check that each run of it has a valid configuration.

    Raises
    ------
    FigureError
        If the figure lacks its data.
    UnusedOverride
        If no run can use one of the overrides.
    """
    paths = [overridden(override) for override in request.overrides]
    given = request.given("data")
    bundled = figure.bundled is not None and given.get("source") == figure.bundled
    if figure.data is not None and "path" not in given and not bundled:
        raise FigureError(
            f"figure {figure.name}: needs --set data.path=FOLDER, {figure.data}"
            + (f"; or --set data.source={figure.bundled}, which comes with the examples" if figure.bundled else "")
        )
    settings = figure.settings(request)
    refusals = {path: _unused(figure, settings, path, request.world) for path in paths}
    if not any(refusals.values()):
        for setting in settings:
            setting.configuration(request.overrides)
        refusals = {path: _used_by_none(figure, settings, path, request) for path in paths}
    for override, path in zip(request.overrides, paths, strict=True):
        why = refusals[path]
        if why is not None:
            raise UnusedOverride(
                f"{figure.name}: --set {override} would change nothing: {why}; "
                f"this figure can use {', '.join(_changeable(figure, settings, request.world))}, "
                "and settings of these sections that it leaves at their defaults",
                override,
            )
    return settings


def _unused(figure: Figure, settings: list[Setting], path: str, world: str) -> str | None:
    """Why no run can use an override of ``path``; None where at least one can."""
    section = path.partition(".")[0]
    if path in figure.reads:
        return None
    if section == "run":
        return "the figure names its runs and seeds them 0, 1, ...; --seeds N sets how many"
    if world == "twin" and section in ("network", "eavesdropper"):
        return "nothing is sent in the twin; --world processes uses it"
    if figure.accepts is not None and not {section, path} & set(figure.accepts):
        return "the figure makes no run, it deals the data alone"
    if section == "privacy":
        return "the two readings of the figure fix the privacy of every run"
    if not any(setting.takes(path) for setting in settings):
        return "every run of the figure has a value of its own for it"
    return None


def _used_by_none(figure: Figure, settings: list[Setting], path: str, request: Request) -> str | None:
    """Why no run uses ``path``, although it is free to change; None where at least one does."""
    if path in figure.reads or any(setting.uses(path, request.overrides) for setting in settings):
        return None
    return "no run of the figure uses it"


def _changeable(figure: Figure, settings: list[Setting], world: str) -> list[str]:
    """The settings of the figure's tables that an override can change in at least one run."""
    named = {f"{section}.{key}" for setting in settings for section, keys in setting.table.items() for key in keys}
    named |= set(figure.reads)
    return sorted(path for path in named if _unused(figure, settings, path, world) is None)


def _partly_used(settings: list[Setting], request: Request) -> list[str]:
    """A note on each override that some runs use and others do not."""
    notes = []
    for override in request.overrides:
        used = sum(setting.uses(overridden(override), request.overrides) for setting in settings)
        if 0 < used < len(settings):
            notes.append(
                f"--set {override} holds in {used} of {len(settings)} settings; "
                "the others have their own value or do not use it."
            )
    return notes
