"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path,
    typer.Argument(metavar="CONFIG.toml", help="The configuration.", show_default=False, exists=True, dir_okay=False),
]
"""A configuration; that its file exists is checked before anything is imported to read it."""

Override = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable.")
]
"""Settings in the place of the configuration's."""
