"""``sottovoce eavesdrop``: the eavesdropper on its own."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from node.eavesdropper import StopSignals, allow_many_files, run_eavesdropper
from node.traffic_log import TrafficLogWriter


class GivenEndpoints:
    """Endpoints as a person wrote them: an ipc path is there once its socket exists."""

    def __init__(self, endpoints: list[str]) -> None:
        for endpoint in endpoints:
            scheme, _, rest = endpoint.partition("://")
            if scheme not in ("tcp", "ipc") or not rest or (scheme == "tcp" and ":" not in rest):
                raise ValueError(f"endpoint {endpoint!r}: accepted are tcp://HOST:PORT and ipc://PATH")
        self._endpoints = endpoints

    def lookup(self, agent: int) -> str | None:
        """The endpoint with this number, None if nobody is there yet."""
        endpoint = self._endpoints[agent]
        if not endpoint.startswith("ipc://"):
            return endpoint
        try:
            there = stat.S_ISSOCK(Path(endpoint.removeprefix("ipc://")).stat().st_mode)
        except OSError:
            return None
        return endpoint if there else None


def eavesdrop(
    endpoints: Annotated[list[str], typer.Argument(metavar="ENDPOINT...", help="Where agents or a replay speak.")],
    log: Annotated[Path, typer.Option("--log", metavar="FILE", help="The traffic log to write; must not exist.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Hear everything that is said at the endpoints and write it down, until all who speak have hung up.

    Exit status 1 if the capture is not complete: an agent's done, or an index that it names, was not heard. Ctrl-C
    ends it and closes the log.

    Example: sottovoce eavesdrop tcp://127.0.0.1:5555 --log heard.mcap
    """
    given = GivenEndpoints(endpoints)
    stop = StopSignals()
    allow_many_files()
    heard = run_eavesdropper(TrafficLogWriter(log), given, range(len(endpoints)), stop=stop)
    if as_json:
        print(json.dumps(heard.as_json(), indent=1))
    else:
        print(f"{log}: {heard.capture.frames} frames, {heard.capture.in_words()} ({heard.ended})")
    if heard.failure is not None:
        print(f"sottovoce: {heard.failure}", file=sys.stderr)
    if not heard.complete:
        raise typer.Exit(1)
