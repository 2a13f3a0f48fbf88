"""The command, run in this process."""

from __future__ import annotations

import pytest

from node.cli import main


def run_cli(*arguments: str) -> int | str | None:
    """The exit status of ``sottovoce`` with these arguments."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code
