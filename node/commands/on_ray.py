"""What `run`, `resume`, `status`, `stop` and `collect` do with a run on a Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from node.commands.run import conclude, progress_shown
from node.folder.watch import Watch
from node.worlds.ray.run import RayRun, check_on_ray, deal_for

if TYPE_CHECKING:
    from rich.console import Console

    from node.configuration.sections import Configuration
    from node.worlds.progress import Progress
    from node.worlds.ray.run import Look


def refuse_with(on: str, given: Mapping[str, bool]) -> None:
    """Refuse options that have no effect on a run on Ray."""
    refused = [name for name, is_given in given.items() if is_given]
    if refused:
        raise ValueError(f"{refused[0]} has no effect with --on {on}; leave one of them out")


def run_on_ray(configuration: Configuration, folder: Path, on: str, console: Console, *, as_json: bool) -> None:
    """Deal a run, bring its parts to the nodes of a Ray cluster, and show it to its end."""
    from node.configuration.refusals import ConfigurationError
    from node.dealing.place import is_run
    from node.worlds.ray import cluster

    check_on_ray(configuration)
    if is_run(folder):
        raise ConfigurationError(
            f"run folder {folder} exists: choose another --out or run.name (sottovoce resume goes on with a run)"
        )
    with console.status("connecting to Ray ..."):
        cluster.check_address(on)
    with cluster.connected(on):
        addresses = cluster.addresses()
        with console.status("dealing the data ..."):
            manifest = deal_for(configuration, folder, on, addresses)
        for warning in manifest.warnings:
            console.print(f"[yellow]warning:[/] {warning}", highlight=False)
        _go_on(RayRun(folder), console, as_json=as_json)


def resume_on_ray(folder: Path, console: Console, *, as_json: bool) -> None:
    """Bring the parts that are here to their nodes, start the hosts again, and show the run to its end."""
    with _connected(RayRun(folder)) as run:
        _go_on(run, console, as_json=as_json)


def collect_from_ray(folder: Path, console: Console, *, wait: bool, as_json: bool) -> None:
    """Bring back the parts of a run, and score it."""
    run = RayRun(folder)
    if not run.away:
        _fetch_and_conclude(run, console, as_json=as_json)
        return
    with _connected(run):
        watch = _watch(run, console) if wait and run.began else None
        _fetch_and_conclude(run, console, as_json=as_json, watch=watch)


def show_status(folder: Path, *, as_json: bool) -> None:
    """Show how far a run on a Ray cluster is. Where its parts are back, no cluster is asked."""
    from node.commands.status import RunStatus, show

    run = RayRun(folder)
    look = _look(run)
    running = any(report.state == "begun" for report in look.reports.values())
    backwards = sum(report.backwards for report in look.reports.values())
    scored = (folder / "results.json").exists()
    found = RunStatus.of(look.progress, look.progress.failures, backwards=backwards, running=running, scored=scored)
    show(found, folder, "running on Ray" if running else _state(run, look), as_json=as_json)
    for name in look.silent:
        print(f"sottovoce: {name} at {run.hosts[name]} does not answer", file=sys.stderr)


def _look(run: RayRun) -> Look:
    if not run.away:
        return run.look()
    with _connected(run):
        return run.look()


def _state(run: RayRun, look: Look) -> str:
    if look.silent:
        return "not known, on Ray"
    if "new" in {report.state for report in look.reports.values()}:
        return "dealt for Ray, not started everywhere"
    return "ended on Ray, and not collected" if run.away else "collected from Ray"


def stop_on_ray(folder: Path) -> list[str]:
    """End all hosts of a run; returns those that did not answer."""
    with _connected(RayRun(folder)) as run:
        return run.stop()


@contextmanager
def _connected(run: RayRun) -> Iterator[RayRun]:
    from node.worlds.ray import cluster

    with cluster.connected(run.on):
        yield run


def _go_on(run: RayRun, console: Console, *, as_json: bool) -> None:
    with console.status("bringing the parts to their nodes ..."):
        run.deliver(lambda line: console.print(line, style="yellow", highlight=False, markup=False))
    run.begin()
    watch = _watch(run, console)
    _fetch_and_conclude(run, console, as_json=as_json, watch=watch)


def _watch(run: RayRun, console: Console) -> Watch:
    from node.configuration.reading import load_dealt

    configuration = load_dealt(run.folder / "config.toml")
    first = run.look().progress
    try:
        with progress_shown(console, first.agents, first.planned, private=configuration.private) as show:
            return run.watch(_Shown(console, show))
    except (KeyboardInterrupt, SystemExit):
        console.print(
            f"the run goes on without this command: sottovoce status {run.folder} shows it, sottovoce collect "
            f"{run.folder} --wait brings it back, and sottovoce stop {run.folder} ends it",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        raise


class _Shown:
    """Shows looks at the hosts: the progress, and a line for each host that stops answering or starts again."""

    def __init__(self, console: Console, show: Callable[[Progress], None]) -> None:
        self._console, self._show = console, show
        self._silent: frozenset[str] = frozenset()
        self._starts: dict[str, int] = {}

    def __call__(self, look: Look) -> None:
        """Show one look."""
        self._show(look.progress)
        for name in sorted(frozenset(look.silent) - self._silent):
            self._tell(f"{name} does not answer")
        for name in sorted(self._silent - frozenset(look.silent)):
            self._tell(f"{name} answers again")
        self._silent = frozenset(look.silent)
        for name, report in look.reports.items():
            if report.starts > self._starts.get(name, 1):
                self._tell(f"the host process of {name} was killed, and is started again")
            self._starts[name] = report.starts

    def _tell(self, line: str) -> None:
        self._console.print(line, style="yellow", highlight=False, markup=False)


def _fetch_and_conclude(run: RayRun, console: Console, *, as_json: bool, watch: Watch | None = None) -> None:
    from node.worlds.parts import failures, gather

    with console.status("bringing the parts back ..."):
        run.fetch()
        gather(run.folder, run.parts)
    failed = failures(run.folder, run.parts)
    conclude(run.folder, replace(watch or Watch(world="hosts"), failures=failed), console, as_json=as_json)
