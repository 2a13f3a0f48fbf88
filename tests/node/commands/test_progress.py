"""What ``sottovoce run`` prints of its progress where there is no terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from node.commands.run import _Told, progress_shown
from node.worlds.progress import Progress


def moment(ready: int, sent: int) -> Progress:
    return Progress(
        agents=4,
        ready=ready,
        finished=0,
        sent=sent,
        planned=40,
        charged=sent,
        logged=sent,
        ready_after=0.0,
        seconds=2.0,
    )


def test_lines_tell_of_readiness_and_of_each_quarter() -> None:
    console = Console(file=io.StringIO())
    told = _Told(console)
    for ready, sent in ((1, 0), (4, 0), (4, 3), (4, 10), (4, 12), (4, 25), (3, 40)):
        told.tell(moment(ready, sent))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [line.rpartition(", ")[2] for line in lines] == [f"{n} of 40 updates done" for n in (0, 10, 25, 40)]
    assert lines[0] == "2 s: 4 of 4 agents ready, 0 of 40 updates done"


def test_forty_columns_and_no_colour_show_all_counts() -> None:
    console = Console(file=io.StringIO(), width=40, no_color=True)
    with progress_shown(console, 943, 94_300, private=True) as show:
        show(replace(moment(943, 94_300), agents=943, planned=94_300, finished=943))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "94300/94300" in text
    assert "943/943" in text
    assert "…" not in text
    assert "\x1b" not in text
