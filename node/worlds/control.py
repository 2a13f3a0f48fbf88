"""What a launcher and its zygote send each other: one message a line, as JSON, one reader beside one writer.

Rules that hold here:
- It imports the standard library alone: every agent is forked from a process that imported it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Eavesdrop:
    """Start the eavesdropper. With ``patience`` (seconds) it also listens to agents of other zygotes."""

    patience: float | None


@dataclass(frozen=True, slots=True)
class Start:
    """Start an agent that binds to the endpoint ``bind``."""

    agent: int
    bind: str


@dataclass(frozen=True, slots=True)
class Go:
    """Let the agents that were started so far look for their neighbours."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process has started: an agent's number, or `EAVESDROPPER`."""

    process: int | str
    pid: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A process has ended; ``status`` is negative for a signal."""

    process: int | str
    pid: int
    status: int


Command = Eavesdrop | Start | Go
"""What a launcher sends."""
Answer = Started | Ended
"""What a zygote sends."""


def line_of(message: Command | Answer) -> bytes:
    """A message as its line."""
    match message:
        case Eavesdrop(patience):
            document: dict[str, object] = {"eavesdrop": True, "patience": patience}
        case Start(agent, bind):
            document = {"start": agent, "bind": bind}
        case Go():
            document = {"go": True}
        case Started(process, pid):
            document = {"started": process, "pid": pid}
        case Ended(process, pid, status):
            document = {"ended": process, "pid": pid, "status": status}
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def command_of(line: bytes) -> Command:
    """The command in a line; raises KeyError for any other line."""
    document = json.loads(line)
    if "start" in document:
        return Start(int(document["start"]), str(document["bind"]))
    if "go" in document:
        return Go()
    return Eavesdrop(document["patience"])


def answer_of(line: bytes) -> Answer:
    """The answer in a line; raises KeyError for any other line."""
    document = json.loads(line)
    if "started" in document:
        return Started(document["started"], int(document["pid"]))
    return Ended(document["ended"], int(document["pid"]), int(document["status"]))
