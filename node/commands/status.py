"""``sottovoce status``: how far a run is, also when its launcher is gone; scores a run that ended meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.documents import document_text
from node.exit_codes import ExitCode
from node.folder.counted import read_counted
from node.folder.endings import Failure, failure_lines, failures_of
from node.folder.manifest import read_manifest
from node.folder.status import read_overheard
from node.folder.watch import Watch
from node.worlds.progress import Progress
from node.worlds.ray.note import is_on_ray

if TYPE_CHECKING:
    from node.worlds.launcher import Cluster

LOOK = 0.5
"""Seconds between two looks at a run that is watched."""
VERSION = 2
"""Of the document that ``--json`` prints. In version 1 the keys of logged releases and of failures differed."""


@dataclass(frozen=True)
class RunStatus:
    """How far a run is: the document that ``--json`` prints. Counts are over all agents, in releases."""

    running: bool
    agents: int
    ready: int
    finished: int
    updates: int
    planned: int
    charged: int
    logged: int
    """In the traffic log."""
    backwards: int
    """Agents whose ledger went backwards."""
    failures: tuple[Failure, ...]
    results: bool
    """Whether the run has been scored."""

    @classmethod
    def of(
        cls, progress: Progress, failures: Sequence[Failure], *, backwards: int, running: bool, scored: bool
    ) -> RunStatus:
        """Take the counts of a moment."""
        counts = {
            name: getattr(progress, name) for name in ("agents", "ready", "finished", "planned", "charged", "logged")
        }
        return cls(
            **counts,
            updates=progress.sent,
            backwards=backwards,
            failures=tuple(failures),
            running=running,
            results=scored,
        )


def status(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="First show its progress, until its processes end.")] = False,
) -> None:
    """Show how far a run is. A run that ended without a launcher is scored now, and settled with its data's registry.

    Example: sottovoce status runs/schools --watch
    """
    manifest = read_manifest(run)
    if is_on_ray(run):
        if watch:
            raise ValueError(f"--watch with {run}: accepted for runs on this machine, and this one is on a Ray cluster")
        from node.commands.on_ray import show_status

        show_status(run.absolute(), as_json=as_json)
        return
    from node.configuration.reading import load_dealt
    from node.folder.registry import settle
    from node.worlds import launcher, orphan, steps

    configuration = load_dealt(run / "config.toml")
    cluster = launcher.Cluster(run, configuration, manifest.agents)
    if watch:
        _watch(run, cluster, private=configuration.private)
    progress = cluster.progress()
    running = orphan.running_zygote(run) is not None or bool(orphan.left_of(run))
    failures = failures_of(run)
    overheard = read_overheard(run / "eavesdropper.status")
    backwards = 0 if overheard is None else overheard.backwards
    started = (run / "processes.json").exists()
    scored = (run / "results.json").exists()
    if started and not running:
        settle(run)
    state = "running" if running else "ended" if started else "dealt, never started"
    if not started:
        state, progress = _without_processes(run, progress)
    if started and not running and not scored and progress.finished:
        steps.score(run, Watch(failures=failures))
        scored = True
    found = RunStatus.of(progress, failures, backwards=backwards, running=running, scored=scored)
    show(found, run, state, as_json=as_json)


def _watch(run: Path, cluster: Cluster, *, private: bool) -> None:
    """Show on standard error how a run that runs goes on, with the bars of ``sottovoce run``, until its zygote ends."""
    from rich.console import Console

    from node.commands.run import progress_shown
    from node.worlds import orphan

    def look() -> Progress:
        return replace(cluster.progress(), failures=tuple(failures_of(run)))

    zygote = orphan.running_zygote(run)
    if zygote is None:
        return
    agents = cluster.progress().agents
    with progress_shown(Console(stderr=True), agents, cluster.planned, private=private) as show:
        ended = False
        while not ended:
            show(look())
            ended = orphan.ends_within(LOOK, zygote)
        show(look())


def show(found: RunStatus, run: Path, state: str, *, as_json: bool) -> None:
    """Print how far a run is."""
    from rich.console import Console

    if as_json:
        print(document_text({"version": VERSION, **asdict(found)}))
        return
    console = Console(highlight=False)
    console.print(f"{state}: {run}")
    console.print(f"agents ready {found.ready}/{found.agents}, finished {found.finished}/{found.agents}")
    console.print(f"updates {found.updates}/{found.planned}, charged {found.charged}, logged {found.logged}")
    if found.backwards:
        console.print(f"ledgers that went backwards: {found.backwards} (log verify names the agents)", style="red")
    for line in failure_lines(found.failures):
        console.print(line, style="red", markup=False)
    if found.results:
        console.print(f"results: {run / 'results.json'}")


def _without_processes(run: Path, progress: Progress) -> tuple[str, Progress]:
    """The state and the counts of a run of which no process was started: what the twin left, and the ledgers."""
    from node.folder.spending import spent

    counted = [read_counted(run, agent) for agent in range(progress.agents)]
    left = [one for one in counted if one is not None]
    finished = sum(one.code == ExitCode.FINISHED for one in left)
    sent, charged = sum(one.sent for one in left), sum(one.charged for one in left)
    if left:
        found = replace(progress, ready=len(left), finished=finished, sent=sent, charged=charged, logged=sent)
        return "ended, in the twin", found
    charged = spent(run).charged
    return "not finished, in the twin" if charged else "dealt, never started", replace(progress, charged=charged)
