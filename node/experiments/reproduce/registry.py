"""Every figure by its name, and how one is made for a request."""

from __future__ import annotations

from dataclasses import replace

from node.experiments.reproduce import paper000, paper002
from node.experiments.reproduce.figure import Figure, FigureError, Reproduction, Request, Setting, overridden
from node.experiments.reproduce.paper001 import comparison, figure1
from node.experiments.reproduce.paper003 import figures as paper003
from node.experiments.reproduce.paper004 import figure1 as descent
from node.experiments.reproduce.paper004 import figure2, figure2c, figure3, figure4, table1

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        descent.FIGURE,
        *figure2.FIGURES,
        figure2c.FIGURE,
        figure3.FIGURE,
        figure4.FIGURE,
        *paper000.FIGURES,
        figure1.FIGURE,
        *comparison.FIGURES,
        *paper002.FIGURES,
        *paper003.FIGURES,
        table1.FIGURE,
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
        raise FigureError(f"figure {name}: not known; accepted are {', '.join(FIGURES)}")
    settings = planned(figure, request)
    made = figure.reduce(figure, request, settings)
    return replace(made, notes=[*made.notes, *_partly_used(settings, request)])


def planned(figure: Figure, request: Request) -> list[Setting]:
    """The figure's table of settings, after a check that each run of it has a valid configuration.

    Raises
    ------
    FigureError
        If the figure lacks its data, or if no run can use one of the overrides.
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
            raise FigureError(
                f"{figure.name}: --set {override} would change nothing: {why}; "
                f"this figure can use {', '.join(_changeable(figure, settings, request.world))}, "
                "and settings of these sections that it leaves at their defaults"
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
