"""The command, run in this process: one of its own would import for longer than most commands take."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from node.cli import main


@dataclass(frozen=True)
class Answer:
    """The exit status of a command, and what it printed."""

    returncode: int | str | None
    stdout: str
    stderr: str


def run_cli(*arguments: str) -> int | str | None:
    """The exit status of ``sottovoce`` with these arguments."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code


def answered(*arguments: str | Path, cwd: Path | None = None) -> Answer:
    """What ``sottovoce`` with these arguments answers."""
    out, errors = io.StringIO(), io.StringIO()
    place = contextlib.chdir(cwd) if cwd is not None else contextlib.nullcontext()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), place:
        code = run_cli(*map(str, arguments))
    return Answer(code or 0, out.getvalue(), errors.getvalue())
