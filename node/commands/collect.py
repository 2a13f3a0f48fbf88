"""``sottovoce collect``: bring the parts of a run together again, and judge it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 30.0
"""Between the eavesdropper's end and giving up on agents that left no status."""


def collect(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, as it was dealt.", show_default=False)],
    parts: Annotated[
        Path | None,
        typer.Option(help="Where the parts of agents and eavesdropper are. A run on Ray knows it.", show_default=False),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the run; SIGTERM ends the wait.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the table.")] = False,
) -> None:
    """Bring the parts of a run together, and score it.

    What the agents and the eavesdropper left is copied into the run's folder. Where hosts have parts, the folder may be
    missing: it is made from the public files in their parts. The parts of a run that was started with run --on come
    back from the nodes of Ray, and are removed there.

    Exit status 1 if an agent did not finish.

    Example: sottovoce collect runs/hosts --parts parts
    """
    from rich.console import Console

    from node.folder.hosts import read_hosts
    from node.folder.manifest import read_manifest
    from node.folder.watch import Watch
    from node.results.results import read_results
    from node.results.table import show
    from node.worlds import steps
    from node.worlds.parts import failures, gather, make_run
    from node.worlds.ray.note import is_on_ray

    run = run.absolute()
    if is_on_ray(run):
        from node.commands.on_ray import collect_from_ray

        if parts is not None:
            raise ValueError(f"--parts {parts} has no effect on a run on Ray: its parts are {run}.parts")
        collect_from_ray(run, Console(stderr=True), wait=wait, as_json=as_json)
        return
    if parts is None:
        raise ValueError("--parts is missing: accepted is the folder with the parts of agents and eavesdropper")
    parts = parts.absolute()
    make_run(run, parts)
    agents = read_manifest(run).agents
    if wait and read_hosts(run):
        raise ValueError("--wait is for containers: this run has hosts, and each `sottovoce host` ends with its agents")
    if wait:
        _wait(run, parts, agents)
    gather(run, parts)
    failed = failures(run, parts)
    steps.score(run, Watch(world="containers" if wait else "hosts", failures=failed))
    results = read_results(run)
    if as_json:
        print(json.dumps(results.to_json(), indent=1, allow_nan=False))
    else:
        show(run, results, Console())
    for failure in failed:
        print(f"sottovoce: {failure.process}: {failure.words}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _wait(run: Path, parts: Path, agents: int) -> None:
    """Wait until all agents and the eavesdropper ended, the missing ones are given up, or a signal ends the wait."""
    from node.configuration.reading import load_dealt
    from node.processes import StopSignals
    from node.worlds.parts import eavesdropper_ended, ended

    stop = StopSignals()
    eavesdropper = load_dealt(run / "config.toml").eavesdropper.enabled
    given_up_at: float | None = None
    while not stop() and not ended(parts, agents, eavesdropper=eavesdropper):
        now = time.monotonic()
        if not (eavesdropper and eavesdropper_ended(parts)):
            given_up_at = now + PATIENCE_SECONDS
        elif given_up_at is not None and now >= given_up_at:
            return
        time.sleep(LOOK_SECONDS)
