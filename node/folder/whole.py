"""Files that appear whole or not at all.

Rules that hold here:
- A file is written under a name of its own beside its place, and renamed when it is complete.
- Only its owner may read a file, unless the caller gives another mode.
- An error names the file, also where the operating system does not (a full disk); an unfinished file is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_whole(path: Path, data: bytes, mode: int = 0o600, *, synced: bool = False) -> None:
    """Write a file, replacing an older one; with ``synced`` wait until it is on the disk under its name.

    Raises
    ------
    OSError
        With ``path`` as its file name.
    """
    part = _part(path)
    try:
        part.unlink(missing_ok=True)
        _write(part, data, mode, synced=synced)
        part.replace(path)
        if synced:
            sync_folder(path.parent)
    except OSError as error:
        raise _named(error, path, part) from error


def write_document(path: Path, document: object, mode: int = 0o600) -> None:
    """Write a JSON document as `write_whole` does; raises ValueError for NaN and infinity, which JSON has not."""
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode(), mode)


def write_new(path: Path, data: bytes) -> None:
    """Write a file, mode 0600, that is not there yet.

    Raises
    ------
    FileExistsError
        If it is there.
    OSError
        With ``path`` as its file name.
    """
    try:
        _write(path, data, 0o600)
    except FileExistsError:
        raise
    except OSError as error:
        raise _named(error, path, path) from error


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write piece by piece, mode 0600, that has its name once all is written; after an error there is none.

    Raises
    ------
    FileExistsError
        If there is a file with that name.
    OSError
        With ``path`` as its file name.
    """
    part = _part(path)
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
            yield file
        os.link(part, path)  # unlike a renaming, it replaces nothing
    except FileExistsError:
        raise FileExistsError(f"{path} exists: name a new file") from None
    except OSError as error:
        raise _named(error, path, part) from error
    finally:
        part.unlink(missing_ok=True)


def copy_whole(source: Path, target: Path, mode: int) -> None:
    """Copy a file and wait until it is on the disk; missing folders are made for their owner alone.

    Raises
    ------
    OSError
        With the name of the file that could not be read or written.
    """
    for folder in reversed([place for place in target.parents if not place.exists()]):
        folder.mkdir(mode=0o700)  # mkdir(parents=True) would give the mode to the last one alone
    part = _part(target)
    with source.open("rb") as reader:
        try:
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, _NEW, mode), "wb") as writer:
                shutil.copyfileobj(reader, writer)
                writer.flush()
                os.fsync(writer.fileno())
            part.replace(target)
        except OSError as error:
            raise _named(error, target, part) from error


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _write(path: Path, data: bytes, mode: int, *, synced: bool = False) -> None:
    with os.fdopen(os.open(path, _NEW, mode), "wb") as file:
        file.write(data)
        if synced:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _named(error: OSError, path: Path, unfinished: Path) -> OSError:
    with contextlib.suppress(OSError):
        unfinished.unlink(missing_ok=True)
    return OSError(error.errno, error.strerror, str(path))
