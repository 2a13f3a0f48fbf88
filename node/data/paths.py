"""Where a dataset's files are."""

from __future__ import annotations

from pathlib import Path

from node.data.errors import DataError


def bundled(name: str, path: str | None) -> Path:
    """``path`` if given, else examples/data/``name`` of this checkout or of the current folder."""
    if path is not None:
        return existing(path)
    places = [root / "examples" / "data" / name for root in (Path(__file__).parents[2], Path.cwd())]
    for place in places:
        if place.exists():
            return place
    raise DataError(f"data.path is not set, and there is no {' or '.join(map(str, places))}; name the folder")


def existing(path: str) -> Path:
    """The path, or DataError if nothing is there."""
    found = Path(path).expanduser()
    if not found.exists():
        raise DataError(f"data.path: nothing at {found}; accepted is a file or folder that is there")
    return found


def one_of(path: Path, names: tuple[str, ...]) -> Path:
    """``path`` itself if it is a file; in a folder the first of ``names`` that is there."""
    if path.is_file():
        return path
    for name in names:
        if (path / name).is_file():
            return path / name
    raise DataError(f"data.path: {path} holds none of {', '.join(names)}")
