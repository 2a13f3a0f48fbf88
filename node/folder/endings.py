"""How the processes of a run ended: the one reader of it, and the lines that tell a person.

Rules that hold here:
- An agent that ended with status 0 finished. An eavesdropper that ended with status 1 has a capture with gaps: the
  results say so, and it did not fail. Nor did one that was ended after it had closed its log and printed its verdict.
- The last words of an agent are the reason in its ``final.json`` and the last lines of its standard error. A process
  that left neither has the signal or the status that ended it.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from node.exit_codes import ExitCode
from node.folder.counted import read_counted
from node.places import EAVESDROPPER, agent_folder, agent_name

CAPTURE_INCOMPLETE = ExitCode.FAILED
"""The eavesdropper's exit status where its log lacks something that was sent."""
LAST_LINES = 3
"""Lines of an agent's standard error that are shown."""
MOST_REASONS = 5
MOST_AGENTS = 5
_STOPPED = "stopped releasing: "
_OF_ANOTHER = re.compile(rf"({_STOPPED})?round \d+: |not ready after |stopped by a signal")
"""How a reason begins that is the end of another process, or an order: it is not the cause."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A process that did not finish: its name, its exit status (None: none was noted), and its last words."""

    process: str
    """The name of its folder, or `EAVESDROPPER`."""
    status: int | None
    last_words: tuple[str, ...]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a failure of ``watch.json`` or ``results.json``; raises KeyError where a part is missing."""
        return cls(process_of(document), document["status"], tuple(document["last_words"]))

    @property
    def words(self) -> str:
        """The last words in one line."""
        return "; ".join(self.last_words)


def process_of(document: Mapping[str, Any]) -> str:
    """Return the process that a note is about; before version 2 of ``results.json`` the key had another name."""
    name: str = document["process"] if "process" in document else document["who"]
    return name


def failure(folder: Path, process: int | str, status: int | None) -> Failure | None:
    """Judge one ending.

    Parameters
    ----------
    folder
        The run's folder, or the part of the process.
    process
        The agent's number, or `EAVESDROPPER`.
    status
        The exit status; negative is the signal that killed the process, None an agent that left no status.

    Returns
    -------
    Failure or None
        None if it ended well.
    """
    if status == ExitCode.FINISHED:
        return None
    if isinstance(process, int):
        return Failure(agent_name(process), status, tuple(_agents_words(folder, process) or [ending(status)]))
    if status == CAPTURE_INCOMPLETE or (status is not None and status < 0 and _log_closed(folder)):
        return None
    return Failure(process, status, (eavesdroppers_end(folder, status),))


def eavesdroppers_end(folder: Path, status: int | None) -> str:
    """Return in words how the eavesdropper of ``folder`` ended before it was told to, also where it did not fail."""
    words = [] if status is None or status < 0 else _last_lines(folder / "eavesdropper.log", 1)
    return words[0] if words else ending(status)


def failures_of(folder: Path, expected: Iterable[int] = ()) -> list[Failure]:
    """Find the processes of a run that did not finish, from what their parent noted and what they left themselves.

    Parameters
    ----------
    folder
        The run's folder.
    expected
        Agents that should have finished by now: one of them that left neither note nor status has failed too.

    Returns
    -------
    list of Failure
        In the order in which they ended; those that were not noted come last.
    """
    statuses: dict[int | str, int | None] = {
        name if name == EAVESDROPPER else int(name.removeprefix("agent-")): status
        for name, status in _noted(folder).items()
    }
    for agent in expected:
        if agent not in statuses:
            counted = read_counted(folder, agent)
            statuses[agent] = None if counted is None else counted.code
    judged = (failure(folder, process, status) for process, status in statuses.items())
    return [one for one in judged if one is not None]


def _noted(folder: Path) -> dict[str, int]:
    """The last exit status of each process, by name, as its parent noted it, in the order of the ends.

    A process that was started again, and has not ended since, has none.
    """
    statuses: dict[str, int] = {}
    with suppress(OSError):
        for line in (folder / "exits.jsonl").read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                note = json.loads(line)
                process = process_of(note)
                statuses.pop(process, None)
                if note["status"] is not None:
                    statuses[process] = int(note["status"])
    return statuses


def _log_closed(folder: Path) -> bool:
    """Whether the eavesdropper printed a verdict over a log that it could write to its end; it does so last."""
    for line in reversed(_last_lines(folder / "eavesdropper.log", LAST_LINES)):
        with suppress(ValueError, KeyError, TypeError):
            return json.loads(line)["failure"] is None
    return False


def _agents_words(folder: Path, agent: int) -> list[str]:
    counted = read_counted(folder, agent)
    reason = None if counted is None else counted.reason
    return ([reason] if reason else []) + _last_lines(agent_folder(folder, agent) / "stderr.log", LAST_LINES)


def _last_lines(path: Path, most: int) -> list[str]:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-most:]
    return []


def ending(status: int | None) -> str:
    """Return in words how a process ended that left no words of its own."""
    if status is None:
        return "has not finished, and left no last words"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def failure_lines(failures: Sequence[Failure]) -> list[str]:
    """Write one line for each reason: how many agents, which, and the last words of the first of them.

    Causes come before their consequences. Among causes the reason of the first process that ended comes first, then the
    commonest. Two failures have one reason if they ended with one status and their last words begin alike, numbers
    apart.

    Parameters
    ----------
    failures
        In the order in which the processes ended.
    """
    alike: dict[tuple[Any, str], list[Failure]] = {}
    for failure in failures:
        alike.setdefault((failure.status, _beginning(failure.words)), []).append(failure)
    groups = list(alike.values())
    groups[1:] = sorted(groups[1:], key=len, reverse=True)
    groups.sort(key=lambda group: _OF_ANOTHER.match(group[0].words) is not None)
    lines = [_line(group) for group in groups[:MOST_REASONS]]
    left = sum(len(group) for group in groups[MOST_REASONS:])
    if left:
        lines.append(f"{left} more did not finish, for {len(groups) - MOST_REASONS} other reasons: see results.json")
    return lines


def _line(group: list[Failure]) -> str:
    first = group[0]
    status, words = first.status, first.words
    if len(group) == 1:
        return f"{first.process} did not finish (status {status}){': ' + words if words else ''}"
    listed = ", ".join(failure.process.removeprefix("agent-") for failure in group[:MOST_AGENTS])
    more = ", ..." if len(group) > MOST_AGENTS else ""
    line = f"{len(group)} agents did not finish (status {status}): {listed}{more}"
    return f"{line}; {first.process}: {words}" if words else line


def _beginning(words: str) -> str:
    return re.sub(r"\d+", "0", re.split(r"[:;]", words.removeprefix(_STOPPED))[0])
