"""``sottovoce report``: make a run's report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run that has results.", show_default=False)
    ],
) -> None:
    """Make a run's report again: report.html.

    It then also shows what an audit found since. It is one file that needs nothing else, and holds figures of local
    data that epsilon does not cover.

    Example: sottovoce report runs/schools
    """
    from node.folder.whole import write_whole
    from node.results.report import report_of

    write_whole(run / "report.html", report_of(run))
    print(run / "report.html")
