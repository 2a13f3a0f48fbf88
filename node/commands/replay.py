"""``sottovoce replay``: publish a log again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.documents import document_text
from node.traffic.pacer import check_rate
from node.traffic.terminal import Terminal

if TYPE_CHECKING:
    from node.traffic.documents import ReplayFigures
    from node.traffic.reader import TrafficLogReader
    from node.traffic.replay import ReplayReport
    from node.traffic.selection import Selection


def replay(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The traffic log.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="ENDPOINT", help="The address to publish at: tcp://127.0.0.1:5555 or ipc://PATH."),
    ] = None,
    rate: Annotated[float, typer.Option(help="How many times as fast as recorded, 0.01 to 1000.")] = 1.0,
    as_fast_as_possible: Annotated[
        bool, typer.Option("--as-fast-as-possible", help="Publish without waiting.")
    ] = False,
    start_offset: Annotated[float, typer.Option(help="Begin so many seconds after the log's first frame.")] = 0.0,
    duration: Annotated[float | None, typer.Option(help="Seconds of the log to publish.", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(help="Frames at most, in each loop.", show_default=False)] = None,
    loop: Annotated[int, typer.Option(help="How many times to publish the log.")] = 1,
    agent: Annotated[list[int] | None, typer.Option(help="Only this agent's frames; repeatable.")] = None,
    exclude: Annotated[list[int] | None, typer.Option(help="All but this agent's frames; repeatable.")] = None,
    wait_subscribers: Annotated[int, typer.Option(help="Begin when there are so many subscribers.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be published.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="End with lateness and frames per agent.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Publish a log's frames again at their recorded times.

    The frames have the same bytes. On a terminal, space pauses and goes on; while paused, the right arrow sends one
    frame.

    Example: sottovoce replay runs/schools/traffic.mcap --to tcp://127.0.0.1:5555 --rate 10
    """
    pace = None if as_fast_as_possible else check_rate(rate)
    if loop < 1:
        raise ValueError(f"--loop {loop}: should be at least 1")
    if wait_subscribers < 0:
        raise ValueError(f"--wait-subscribers {wait_subscribers}: should be at least 0")
    from node.traffic.reader import TrafficLogReader
    from node.traffic.replay import plan
    from node.traffic.selection import Selection

    selection = Selection.of(agent or (), exclude or (), start=start_offset, duration=duration, limit=limit)
    reader = TrafficLogReader(log)
    if dry_run:
        planned = plan(reader, selection, pace, loop)
        if as_json:
            print(document_text(planned))
        else:
            seconds = "as fast as possible" if planned["seconds"] is None else f"in {planned['seconds']:.3f} s"
            print(f"{planned['frames']} frames of {planned['agents']} agents, {planned['bytes']} bytes, {seconds}")
        return
    if to is None:
        raise ValueError("--to ENDPOINT is missing: tcp://ADDRESS:PORT or ipc://PATH, where listeners will connect")
    selection.check(reader)  # before a socket is bound
    report = _play(reader, to, selection, pace, loop, wait_subscribers, stats)
    document = report.as_json(statistics=stats)
    if as_json:
        print(document_text(document))
    else:
        _tell(report, document, stats)
    for damage in reader.damage:
        print(f"sottovoce: {log}: {damage.meaning}", file=sys.stderr)


def _play(
    reader: TrafficLogReader,
    to: str,
    selection: Selection,
    pace: float | None,
    loop: int,
    wait_subscribers: int,
    stats: bool,
) -> ReplayReport:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from node.traffic.publisher import Publisher
    from node.traffic.replay import replay as replay_log
    from node.traffic.selection import Selection

    console = Console(stderr=True, highlight=False)
    summary = reader.summary()
    total = None
    if summary is not None and selection == Selection(start=selection.start):
        total = summary.frames * loop
    with Publisher(to) as publisher:
        if publisher.subscribers < wait_subscribers:
            console.print(
                f"waiting at {publisher.endpoint} for {wait_subscribers} subscriber{'s' * (wait_subscribers > 1)}"
            )
        publisher.wait_for(wait_subscribers)
        bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.completed} frames"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=5,
        )
        task = bars.add_task("replaying", total=total)

        def show(report: ReplayReport, paused: bool) -> None:
            publisher.notice()
            bars.update(task, completed=report.frames, description="paused" if paused else "replaying")

        with bars, Terminal() as terminal:
            return replay_log(
                reader,
                publisher.publish,
                selection=selection,
                rate=pace,
                loops=loop,
                statistics=stats,
                keys=terminal.key,
                tick=show,
            )


def _tell(report: ReplayReport, document: ReplayFigures, stats: bool) -> None:
    pace = f"{report.frames / report.seconds:.0f} frames/s" if report.seconds > 0 else "at once"
    print(
        f"{report.frames} frames, {report.bytes} bytes in {report.seconds:.3f} s: {pace}, "
        f"worst lateness {1000 * report.worst_lateness:.1f} ms"
    )
    if stats:
        print("lateness (s):", json.dumps(document["lateness_s"]))
        print("frames per agent:", json.dumps(document["frames_per_agent"]))
