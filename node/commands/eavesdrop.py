"""``sottovoce eavesdrop``: the eavesdropper on its own, and for a run on other hosts."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.documents import document_text
from node.folder.manifest import read_manifest
from node.folder.whole import write_whole
from node.processes import StopSignals, allow_many_files
from node.sockets.names import NamedEndpoints
from node.sockets.names import endpoint as endpoint_of

if TYPE_CHECKING:
    from node.traffic.eavesdropper import Outcome

_NUMBERED = re.compile(r"[0-9]{1,9}=")
PATIENCE_SECONDS = 15.0
"""On other hosts: seconds without any agent after which an incomplete capture ends."""


class GivenEndpoints:
    """Endpoints of a command line: an ipc path counts once its socket exists.

    ``agents`` are their numbers: the first is agent 0, and so on, where none is written before them (``7=tcp://...``).
    """

    def __init__(self, endpoints: list[str]) -> None:
        self._endpoints: dict[int, str] = {}
        for place, written in enumerate(endpoints):
            number, endpoint = written.split("=", 1) if _NUMBERED.match(written) else ("", written)
            scheme, _, rest = endpoint.partition("://")
            if scheme not in ("tcp", "ipc") or not rest or (scheme == "tcp" and ":" not in rest):
                raise ValueError(f"endpoint {written!r}: accepted are tcp://HOST:PORT and ipc://PATH, or 7=tcp://...")
            agent = int(number) if number else place
            if agent in self._endpoints:
                raise ValueError(f"endpoint {written!r}: agent {agent} has an endpoint already; number all or none")
            self._endpoints[agent] = endpoint

    @property
    def agents(self) -> tuple[int, ...]:
        """The agents that have an endpoint."""
        return tuple(self._endpoints)

    def lookup(self, agent: int) -> str | None:
        """The endpoint of this agent, None if it is not there yet."""
        endpoint = self._endpoints[agent]
        if not endpoint.startswith("ipc://"):
            return endpoint
        try:
            there = stat.S_ISSOCK(Path(endpoint.removeprefix("ipc://")).stat().st_mode)
        except OSError:
            return None
        return endpoint if there else None

    def moved(self) -> None:
        """None: no endpoint changes."""


def eavesdrop(
    endpoints: Annotated[
        list[str],
        typer.Argument(
            metavar="ENDPOINT...",
            help="Where agents or a replay send. With --run: one for each agent, a pattern agent-{}:7700, or some "
            "agents, numbered: 7=HOST:PORT. With --keys: of agents 0, 1, ... in order, or numbered: 7=tcp://HOST:PORT.",
        ),
    ],
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="The traffic log to write; must not exist.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="The public files of a dealt run; the log is written there."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FOLDER",
            help="The run, or the eavesdropper's part, that holds its key: links are encrypted.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Log all that is sent at the endpoints.

    The command ends when all senders have closed their sockets.

    With --run the log carries the run's public files. If the run has a log already, a new log continues it, and the
    capture is judged over all logs. Exit status 1 if the capture is not complete: an agent's done, or an index that it
    names, is missing. Ctrl-C ends it and closes the log. Numbered agents are recorded alone, and the capture is judged
    by them; `sottovoce log merge` makes one log of several.

    Agents with keys send only to the run's eavesdropper. Its private key lies in the run or in the eavesdropper's
    part, where --run finds it; with --log, name its folder with --keys.

    Example: sottovoce eavesdrop tcp://127.0.0.1:5555 --log heard.mcap
    """
    if (log is None) == (run is None):
        raise ValueError("eavesdrop needs --log FILE or --run RUN, and not both")
    if run is not None and keys is not None:
        raise ValueError(f"--keys {keys}: accepted with --log only; --run {run} has its keys")
    from node.folder.keys import read_keys
    from node.traffic.completeness import CaptureCounter
    from node.traffic.eavesdropper import Eavesdropper
    from node.traffic.writer import TrafficLogWriter

    stop = StopSignals()
    allow_many_files()
    if run is not None:
        outcome, place = _on_run(run, endpoints, stop), str(run)
    else:
        assert log is not None
        given = GivenEndpoints(endpoints)
        own = read_keys(keys, None, given.agents) if keys is not None else None
        writer, counter = TrafficLogWriter(log), CaptureCounter()
        outcome = Eavesdropper(writer, given, given.agents, counter, stop=stop, keys=own).listen()
        place = str(log)
    if as_json:
        print(document_text(outcome.as_json()))
    else:
        print(f"{place}: {outcome.capture.frames} frames, {outcome.capture.in_words()} ({outcome.ended})")
    if outcome.failure is not None:
        print(f"sottovoce: {outcome.failure}", file=sys.stderr)
    if not outcome.complete:
        raise typer.Exit(1)


def _endpoints_on_run(endpoints: list[str], agents: int) -> dict[int, str]:
    """The endpoint of each agent to log: of all in order, by a pattern, or of those that are numbered."""
    if len(endpoints) == 1 and "{}" in endpoints[0]:
        endpoints = [endpoints[0].replace("{}", str(agent)) for agent in range(agents)]
    numbered = [text for text in endpoints if _NUMBERED.match(text)]
    if numbered:
        if len(numbered) < len(endpoints):
            raise ValueError("some endpoints are numbered and some are not: number all or none")
        found = {int(text.partition("=")[0]): endpoint_of(text.partition("=")[2]) for text in numbered}
        if len(found) < len(numbered) or max(found) >= agents:
            raise ValueError(
                f"endpoints of agents {', '.join(map(str, found))}: accepted is each of 0 to {agents - 1} once"
            )
        return found
    if len(endpoints) != agents:
        raise ValueError(
            f"{len(endpoints)} endpoints for {agents} agents: give one for each, a pattern agent-{{}}:7700, or number "
            "those to log, such as 7=HOST:PORT"
        )
    return {agent: endpoint_of(text) for agent, text in enumerate(endpoints)}


def _on_run(run: Path, endpoints: list[str], stop: StopSignals) -> Outcome:
    """Log a run on other hosts; leaves the verdict beside the log, where `sottovoce collect` looks for it."""
    from node.traffic.eavesdropper import eavesdrop_on_run
    from node.worlds.parts import VERDICT

    written = _endpoints_on_run(endpoints, read_manifest(run).agents)
    verdict = run / VERDICT
    verdict.unlink(missing_ok=True)
    known = NamedEndpoints(written)
    try:
        outcome = eavesdrop_on_run(run, stop, known, patience=PATIENCE_SECONDS, agents=written)
    finally:
        known.close()
    write_whole(verdict, document_text(outcome.as_json()).encode())
    return outcome
