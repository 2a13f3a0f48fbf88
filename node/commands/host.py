"""``sottovoce host``: one host's share of a run on several hosts."""

from __future__ import annotations

import re
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from node.worlds.host import Host
    from node.worlds.progress import Progress

_ADDRESS = re.compile(r"(\[[^\]]+\]|[^:]+)(?::([0-9]{1,5}))?")
TELL = 10.0
"""Seconds between two lines about the progress."""


def host(
    part: Annotated[Path, typer.Argument(metavar="PART", help="This host's part of the run.", show_default=False)],
    address: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Where the other hosts reach this one. PORT: of the first agent here, the next ports for the next "
            "agents; without it the system chooses.",
        ),
    ] = "127.0.0.1",
    run: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With the folder of a card: the run that sottovoce assemble made of cards."),
    ] = None,
    endpoints: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where hosts exchange endpoints, one file NAME.endpoints each. Default: PART/exchange.",
        ),
    ] = None,
) -> None:
    """Run the agents of this host, or go on with them.

    The command ends when the agents of this host have ended. An agent that is killed is started again and goes on from
    its ledger. Calling the command again goes on with what has not finished. If this process is killed, its agents go
    on. SIGTERM and Ctrl-C end the agents; what was charged stays charged.

    Each host writes its agents' endpoints into the folder given with --endpoints, and reads those of the others there.
    The folder may be shared by all hosts, or its files may be copied from host to host.

    When the agents have ended, their scores on their own held-out records are written into the part.

    With --run, PART is the folder that `sottovoce card` made. The agents are dealt there from this host's own files.

    Exit status 1 if an agent did not finish.

    Example: sottovoce host parts/alpha --address alpha:7700 --endpoints /shared/endpoints
    """
    from node.folder.endings import failure_lines
    from node.worlds import steps
    from node.worlds.host import Host

    number, port = _address_of(address)
    if run is not None:
        part = steps.deal_in_place(part.absolute(), run.absolute())
    share = Host(part.absolute(), number, port, (endpoints or part / "exchange").absolute())
    agents = "1 agent" if len(share.share.agents) == 1 else f"{len(share.share.agents)} agents"
    print(f"{share.share.name}: {agents}", flush=True)
    failed = share.run(_Told(share))
    for line in failure_lines(failed):
        print(f"sottovoce: {line}", file=sys.stderr)
    print(f"{share.share.name}: {len(share.share.agents) - len(share.unfinished)} of {agents} finished")
    steps.score_host(part)
    print(f"scores of this host's agents, which no epsilon covers: {part / 'scores.json'}")
    if failed or share.unfinished:
        raise typer.Exit(1)


def _address_of(written: str) -> tuple[str, int]:
    """The numeric address, and the first port or 0."""
    found = _ADDRESS.fullmatch(written)
    if found is None or int(found[2] or 0) > 65535:
        raise ValueError(f"--address {written}: accepted is HOST or HOST:PORT, an IPv6 address in brackets")
    try:
        known = socket.getaddrinfo(found[1].strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"--address {written}: the name does not resolve ({reason})") from None
    family, *_, place = sorted(known, key=lambda one: one[0] != socket.AF_INET)[0]
    number = str(place[0]) if family == socket.AF_INET else f"[{place[0]}]"
    if number in ("0.0.0.0", "[::]"):
        raise ValueError(f"--address {written}: other hosts cannot connect to it; accepted is an address of this host")
    return number, int(found[2] or 0)


class _Told:
    """Prints lines about the progress: every ten seconds, and when something changes."""

    def __init__(self, share: Host) -> None:
        self._share = share
        self._at = 0.0
        self._line = ""

    def __call__(self, progress: Progress) -> None:
        """Print what is new."""
        now = time.monotonic()
        if now < self._at + TELL and not (progress.ready == progress.agents and "all ready" not in self._line):
            return
        ready = "all ready" if progress.ready == progress.agents else f"{progress.ready} of {progress.agents} ready"
        line = f"{ready}, {progress.sent} of {progress.planned} releases sent, {progress.finished} finished"
        missing = self._share.waits_for()
        if missing:
            line += f"; no endpoints yet of {', '.join(missing)}"
        if line != self._line:
            print(line, flush=True)
        self._at, self._line = now, line
