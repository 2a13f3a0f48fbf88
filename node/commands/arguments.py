"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def there(path: Path) -> Path:
    """Refuse a file that cannot be read before anything is imported to read it."""
    try:
        path.open().close()
    except OSError as error:
        raise ValueError(f"configuration {path}: {error.strerror}; give a TOML file") from None
    return path


Config = Annotated[
    Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.", show_default=False, callback=there)
]
"""A configuration that is there."""

Override = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable.")
]
"""Settings in the place of the configuration's."""
