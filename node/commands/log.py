"""``sottovoce log``: what a log holds, parts of it, several as one, what can be saved, and whether it is whole."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.documents import document_text

if TYPE_CHECKING:
    from node.traffic.documents import Damaged, LogCheck, LogInformation
    from node.traffic.reader import TrafficLogReader
    from node.traffic.selection import Selection

app = typer.Typer(
    no_args_is_help=True, help="Look into a traffic log: info, cat, export, filter, merge, salvage, verify."
)

Log = Annotated[Path, typer.Argument(metavar="LOG", help="The traffic log.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The new log; must not exist.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Agents = Annotated[list[int] | None, typer.Option("--agent", help="Only this agent's frames; repeatable.")]
Exclude = Annotated[list[int] | None, typer.Option("--exclude", help="All but this agent's frames; repeatable.")]
Start = Annotated[float, typer.Option("--start-offset", help="Begin so many seconds after the log's first frame.")]
Duration = Annotated[float | None, typer.Option("--duration", help="Seconds of the log.", show_default=False)]
_NO_CLOCK = 10**17
"""Nanoseconds since 1970 before which no traffic log was written: some time in 1973."""

Rounds = Annotated[
    str | None,
    typer.Option(
        "--rounds",
        metavar="FIRST-LAST",
        help="Only releases of these rounds, of an algorithm in rounds.",
        show_default=False,
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", help="Frames at most.", show_default=False)]


@app.command()
def info(log: Log, as_json: Json = False) -> None:
    """Describe a log: span, agents, releases, gaps, complete or not.

    Example: sottovoce log info runs/schools/traffic.mcap
    """
    from node.traffic.information import information

    found = information(log)
    if as_json:
        print(document_text(found))
    else:
        _show_information(found)


@app.command()
def cat(
    log: Log,
    kind: Annotated[str, typer.Option("--format", help="ndjson, csv or parquet.")] = "ndjson",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: standard output.", show_default=False)
    ] = None,
    agent: Agents = None,
    exclude: Exclude = None,
    start_offset: Start = 0.0,
    duration: Duration = None,
    rounds: Rounds = None,
    limit: Limit = None,
) -> None:
    """Print every frame as a row.

    A row has the sender, the recipient, the index, the round, the releases that were used, and the vector.

    Example: sottovoce log cat traffic.mcap --agent 3 --limit 10
    """
    from node.traffic.export import write_csv, write_ndjson, write_parquet
    from node.traffic.reader import TrafficLogReader

    if kind not in ("ndjson", "csv", "parquet"):
        raise ValueError(f"--format {kind}: accepted are ndjson, csv and parquet")
    if kind == "parquet" and out is None:
        raise ValueError("--format parquet: needs --out FILE")
    selection = _selection(agent, exclude, start_offset, duration, rounds, limit)
    reader = TrafficLogReader(log)
    selection.check(reader)
    frames = selection.apply(reader)
    if out is not None and kind == "parquet":
        write_parquet(frames, out)
    elif out is not None:
        with out.open("w", encoding="utf-8", newline="") as file:
            (write_csv if kind == "csv" else write_ndjson)(frames, file)
    else:
        (write_csv if kind == "csv" else write_ndjson)(frames, sys.stdout)
    _warn(log, reader)


@app.command()
def export(
    log: Log,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The new file; must not exist.", show_default=False)
    ],
    kind: Annotated[str, typer.Option("--format", help="mcap-json or trace.")] = "mcap-json",
) -> None:
    """Write a log in a form that other tools show.

    mcap-json: an MCAP file with decoded messages and numbers to plot, for Foxglove and other tools of MCAP.
    trace: one track an agent, with arrows from the releases that a release used, for Perfetto and Chromium.

    Example: sottovoce log export traffic.mcap --format trace --out trace.json
    """
    from rich.console import Console
    from rich.progress import track

    from node.traffic.mcap_json import write_mcap_json
    from node.traffic.reader import TrafficLogReader
    from node.traffic.trace import write_trace

    if kind not in ("mcap-json", "trace"):
        raise ValueError(f"--format {kind}: accepted are mcap-json and trace")
    reader = TrafficLogReader(log)
    whole = reader.summary()
    items = track(
        reader.items(),
        str(log),
        total=None if whole is None else whole.frames,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    try:
        written = (write_trace if kind == "trace" else write_mcap_json)(items, out)
    except FileExistsError as error:
        raise ValueError(str(error)) from None
    print(f"{out}: {written} {'events' if kind == 'trace' else 'messages'}")
    _warn(log, reader)


@app.command("filter")
def filter_(
    log: Log,
    out: Out,
    agent: Agents = None,
    exclude: Exclude = None,
    start_offset: Start = 0.0,
    duration: Duration = None,
    rounds: Rounds = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Write some of a log's frames to a new log, at their own times.

    Example: sottovoce log filter traffic.mcap --out three.mcap --agent 3 --duration 10
    """
    from node.traffic.salvage import filter_log

    done = filter_log(log, out, _selection(agent, exclude, start_offset, duration, rounds, limit))
    if as_json:
        print(document_text(done))
    else:
        print(f"{out}: {done['frames']} frames ({done['chosen']})")
        _tell_damage(log, done["damage"])


@app.command()
def salvage(log: Log, out: Out, as_json: Json = False) -> None:
    """Write the whole chunks of a damaged log to a new log.

    The command prints what is lost.

    Example: sottovoce log salvage cut.mcap --out whole.mcap
    """
    from node.traffic.salvage import salvage as salvage_log

    done = salvage_log(log, out)
    if as_json:
        print(document_text(done))
        return
    print(f"{out}: {done['frames']} frames of {done['chunks']} whole chunks")
    if done["lost"]:
        for one in done["lost"]:
            print(f"lost: {one['size']} bytes at byte {one['offset']}: {one['meaning']}")
    else:
        print("nothing was lost")


@app.command()
def merge(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="Logs of one run, each of one eavesdropper.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The new log; must not exist.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Write one log with the frames of several eavesdroppers of one run.

    The clocks of their hosts may differ: the times are those of the first log's clock.

    Example: sottovoce log merge alpha.mcap beta.mcap -o traffic.mcap
    """
    from node.traffic.merge import merge_logs

    done = merge_logs(logs, out)
    if as_json:
        print(document_text(done))
        return
    for path, part in zip(logs, done["logs"], strict=True):
        print(f"{path}: {part['frames']} frames, clock moved by {part['offset_ns'] * 1e-9:.3f} s")
        _tell_damage(path, part["damage"])
    print(f"{out}: {done['frames']} frames ({done['duplicates']} were in several logs), {done['capture']['in_words']}")
    if done["out_of_order"]:
        print(
            f"sottovoce: {out}: {done['out_of_order']} releases come more than 0.1 s before one that they used; a "
            "clock was set during the run, or an agent names releases that it cannot have used",
            file=sys.stderr,
        )


@app.command()
def verify(log: Log, as_json: Json = False) -> None:
    """Check a log.

    Checksums, the SHA-256 chain over its frames, indices and sizes are checked. Exit status 1 if anything is wrong.

    Example: sottovoce log verify runs/schools/traffic.mcap
    """
    from node.traffic.check import verify_log

    found = verify_log(log)
    if as_json:
        print(document_text(found))
    else:
        _show_verification(log, found)
    if not found["ok"]:
        raise typer.Exit(1)


def _selection(
    agent: list[int] | None,
    exclude: list[int] | None,
    start: float,
    duration: float | None,
    rounds: str | None,
    limit: int | None,
) -> Selection:
    from node.traffic.selection import Selection

    chosen = None
    if rounds is not None:
        first, _, last = rounds.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise ValueError(f"--rounds {rounds}: should be FIRST-LAST, such as 10-20")
        chosen = (int(first), int(last or first))
    return Selection.of(agent or (), exclude or (), start=start, duration=duration, rounds=chosen, limit=limit)


def _warn(log: Path, reader: TrafficLogReader) -> None:
    _tell_damage(log, reader.damage_as_json())


def _tell_damage(log: Path, damage: list[Damaged]) -> None:
    for one in damage:
        print(f"sottovoce: {log}: {one['meaning']}", file=sys.stderr)


def _moment(time_ns: int | None) -> str:
    """A time in a log as date and time. The twin's virtual times begin at 0, where no clock of today can stand."""
    if time_ns is None:
        return "no frame"
    if time_ns < _NO_CLOCK:
        return f"at {time_ns * 1e-9:.3f} s of virtual time"
    return datetime.fromtimestamp(time_ns * 1e-9, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")


def _show_information(found: LogInformation) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    rate = found["releases_per_s"]
    each = found["releases_per_agent"]
    bodies = ", ".join(f"{count} of {size}" for size, count in found["body_bytes"].items()) or "none"
    rows = [
        ("log", f"{found['log']} ({'closed' if found['closed'] else 'not closed'})"),
        ("run", found["run"] or "unknown"),
        ("span", f"{found['span_s']:.3f} s"),
        ("began", _moment(found["first_ns"])),
        ("agents", f"{found['agents']}"),
        ("frames", ", ".join(f"{count} {kind}" for kind, count in found["kinds"].items()) or "none"),
        ("releases", f"{found['releases']} (each agent {each['min']} to {each['max']}), {found['repeats']} repeats"),
        ("rate", "unknown" if rate is None else f"{rate:.1f} releases/s"),
        ("bytes", f"{found['frame_bytes']} in frames, {found['file_bytes']} in the file; bodies: {bodies}"),
        ("capture", found["capture"]["in_words"]),
    ]
    if found["redrawn"]:
        rows.append(("REDRAWN", ", ".join(f"agent {a} index {k}" for a, k in found["redrawn"][:10])))
    if found["refused"]:
        rows.append(("no message", ", ".join(f"{count} ({reason})" for reason, count in found["refused"].items())))
    rows += [("damage", one["meaning"]) for one in found["damage"]]
    rows.append(("attached", ", ".join(found["attachments"]) or "nothing"))
    for name, value in rows:
        table.add_row(name, value)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    if found["configuration"]:
        console.print("\nconfiguration (public part)\n" + found["configuration"].rstrip())


def _show_verification(log: Path, found: LogCheck) -> None:
    print(f"{log}: {found['frames']} frames, {found['checkpoints']} checkpoints, chain {found['chain']}")
    for one in found["damage"]:
        print(f"damaged at byte {one['offset']}: {one['meaning']}")
    for part in found["chain_broken"]:
        print(f"changed: frames {part['from_frame']} to {part['to_frame'] - 1} are not those that were written")
    if found["frames_after_last_checkpoint"]:
        print(f"{found['frames_after_last_checkpoint']} frames at the end have no checkpoint")
    for agent, index in found["redrawn"]:
        print(f"agent {agent} released index {index} with different bytes")
    for agent in found["backwards"]:
        print(f"agent {agent}: its ledger went backwards, so it is an old copy that forgets charges")
    for size, count in found["other_sizes"].items():
        print(f"{count} releases have {size} bytes, not the size of the others")
    print("capture:", found["capture"]["in_words"])
    print("whole and unchanged" if found["ok"] else "NOT whole and unchanged")
