"""``sottovoce run``: deal, start the agents, watch, score, and show what it bought."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.arguments import Config, Override
from node.folder.endings import failure_lines
from node.folder.watch import Watch
from node.worlds.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from node.configuration.sections import Configuration
    from node.worlds import launcher


def run(
    config: Config,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/NAME.")] = None,
    override: Override = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Network conditions and events (TOML) laid over the configuration."),
    ] = None,
    world: Annotated[
        str, typer.Option(help="processes: one per agent; twin: the same agents in one process.")
    ] = "processes",
    on: Annotated[
        str | None,
        typer.Option(metavar="ray|ray://HOST:PORT", help="One host on each node of this Ray cluster, and not here."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run's results. Ledgers stay.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the table.")] = False,
    view: Annotated[bool, typer.Option("--view", help="Show the run in the browser, until Ctrl-C.")] = False,
) -> None:
    """Run a configuration: one process for each agent, or the twin.

    Example: sottovoce run examples/schools.toml --set privacy.epsilon=1
    """
    from rich.console import Console

    if world not in ("processes", "twin"):
        raise ValueError(f"--world {world}: accepted are processes and twin")
    if view:
        from node.commands.view import check_installed

        check_installed()
    from node.configuration.reading import load
    from node.configuration.refusals import ConfigurationError
    from node.dealing.place import is_run
    from node.worlds import limits, steps

    configuration = load(config, override or [], scenario)
    folder = (out or Path("runs") / configuration.run.name).absolute()
    if out is None and override and not force and is_run(folder):
        raise ConfigurationError(
            f"run folder {_relative(folder)} exists, and runs with other --set values would share it: give this run a "
            f"folder of its own, such as --out {_relative(_own_folder(folder, override))}"
        )
    console = Console(stderr=True)
    if on is not None:
        from node.commands.on_ray import refuse_with, run_on_ray

        refuse_with(on, {"--world": world != "processes", "--force": force, "--view": view})
        run_on_ray(configuration, folder, on, console, as_json=as_json)
        return
    if world == "processes":
        limits.check_socket_paths(configuration)
    with console.status("dealing the data ..."):
        manifest = steps.deal(configuration, folder, force=force)
    for warning in manifest.warnings:
        console.print(f"[yellow]warning:[/] {warning}", highlight=False)
    agents = manifest.agents
    with _shown(folder, console) if view else contextlib.nullcontext():
        if world == "twin":
            with console.status(f"{agents} agents in the twin ..."):
                watch = steps.run_in_twin(folder)
        else:
            watch = _run_processes(configuration, folder, agents, console, fresh=not force)
        conclude(folder, watch, console, as_json=as_json)


@contextlib.contextmanager
def _shown(folder: Path, console: Console) -> Iterator[None]:
    """Show the run in the browser, also after its end until the reader has seen enough."""
    from node.commands.view import page_of

    with page_of(folder, lambda address: console.print(f"see {address}", highlight=False, soft_wrap=True)) as stay:
        try:
            yield
        except typer.Exit:  # the run failed: its page tells how
            stay(console)
            raise
        stay(console)


def conclude(folder: Path, watch: Watch, console: Console, *, as_json: bool) -> None:
    """Score a run that ended and show what it bought; exit status 1 if a process did not finish."""
    from rich.console import Console

    from node.worlds import steps

    with console.status("scoring ..."):
        steps.score(folder, watch)
    from node.results.results import read_results

    results = read_results(folder)
    if as_json:
        if results.capture is not None and not results.capture.complete:
            console.print("[yellow]warning:[/] the capture is incomplete", highlight=False)
        print(json.dumps(results.to_json(), indent=1, allow_nan=False))
    else:
        from node.results.table import show

        show(folder, results, Console())
    if watch.failures:
        raise typer.Exit(1)


def _run_processes(configuration: Configuration, folder: Path, agents: int, console: Console, *, fresh: bool) -> Watch:
    from node.configuration.refusals import ConfigurationError
    from node.folder.registry import settle
    from node.worlds import launcher, limits

    try:
        limits.check_limits(folder, configuration)
    except ConfigurationError:
        if fresh:
            settle(folder)
            shutil.rmtree(folder)  # dealt a moment ago, and nothing was sent or charged
        raise
    cluster = launcher.Cluster(folder, configuration, agents)
    return watch_processes(cluster, configuration, folder, agents, console)


def watch_processes(
    cluster: launcher.Cluster,
    configuration: Configuration,
    folder: Path,
    agents: int,
    console: Console,
    without: frozenset[int] = frozenset(),
) -> Watch:
    """Start the processes of a run but for agents ``without``, and show their progress until all have ended."""
    from node.folder.registry import settle

    try:
        cluster.start(without=without)
        with progress_shown(console, agents, cluster.planned, private=configuration.private) as show:
            watch = cluster.watch(show)
    except (KeyboardInterrupt, SystemExit):
        waiting = cluster.progress().waiting()
        cluster.stop()
        settle(folder)
        console.print(
            f"interrupted: all processes ended; {folder} holds an unfinished run, and sottovoce resume "
            f"{_relative(folder)} goes on with it",
            highlight=False,
            soft_wrap=True,
        )
        if waiting is not None:
            console.print(f"before that: {waiting}", highlight=False, markup=False, soft_wrap=True)
        raise
    except BaseException:
        cluster.stop()
        raise
    cluster.close()
    return watch


@contextlib.contextmanager
def progress_shown(
    console: Console, agents: int, planned: int, *, private: bool
) -> Iterator[Callable[[Progress], None]]:
    """Show bars, and lines beside them; what this gives is called with the progress at each look."""
    with _bars(console) as bars:
        tasks = {
            "ready": bars.add_task("agents ready", total=agents),
            "sent": bars.add_task("updates done", total=planned),
            "logged": bars.add_task("releases logged", total=planned),
        }
        tasks["finished"] = bars.add_task("agents finished", total=agents)
        if private:
            tasks["charged"] = bars.add_task("budget spent", total=planned)
        told = _Told(console)

        def show(progress: Progress) -> None:
            for name, task in tasks.items():
                bars.update(task, completed=getattr(progress, name))
            told.tell(progress)

        yield show


class _Told:
    """What was printed beside the bars, each once: the processes that failed, and the agents that are waited for."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._failures = 0
        self._waited_for: tuple[int, ...] = ()
        self._reached = (0, False)

    def tell(self, progress: Progress) -> None:
        """Print what is new since the last call. Where no terminal shows the bars, lines tell how far the run is."""
        if not self._console.is_terminal:
            self._tell_how_far(progress)
        for line in failure_lines(progress.failures[self._failures :]):
            self._console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
        waiting = progress.waiting()
        if waiting is not None and (progress.waited_for != self._waited_for or len(progress.failures) > self._failures):
            self._console.print(waiting, style="yellow", markup=False, highlight=False, soft_wrap=True)
        self._failures = len(progress.failures)
        self._waited_for = progress.waited_for or self._waited_for

    def _tell_how_far(self, progress: Progress) -> None:
        reached = (4 * progress.sent // max(1, progress.planned), progress.ready == progress.agents)
        if reached > self._reached:
            self._reached = reached
            self._console.print(
                f"{progress.seconds:.0f} s: {progress.ready} of {progress.agents} agents ready, "
                f"{progress.sent} of {progress.planned} updates done",
                highlight=False,
                soft_wrap=True,
            )


def _own_folder(folder: Path, overrides: Sequence[str]) -> Path:
    """A free folder beside ``folder`` that is named by what was overridden."""
    words = (override.partition("=")[0].rpartition(".")[2] + "-" + override.partition("=")[2] for override in overrides)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join([folder.name, *words])).strip("-.")
    tried = (folder.with_name(name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in tried if not path.exists())


def _relative(folder: Path) -> Path:
    """The folder as a person in the current folder would write it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _bars(console: Console) -> Bars:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    narrow = console.width < 60
    columns = [TextColumn("{task.description:>15}"), BarColumn(10 if narrow else 40), MofNCompleteColumn()]
    return Bars(*columns, *(() if narrow else (TimeElapsedColumn(),)), console=console)
