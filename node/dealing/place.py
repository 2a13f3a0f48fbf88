"""The place of a run's folder: one process claims it before it deals, and fills it when everything is dealt.

Rules that hold here:
- A claim is an empty folder of the run's name with a lock on it. The lock ends with the process, and an empty folder
  may be claimed again: nothing stale is left behind.
- A folder is renamed to the run's name only where the name is an empty folder; the operating system holds this.
- A run in place of another (``--force``) replaces what runs write and nothing else. Ledgers stay as they are.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from node.configuration.refusals import ConfigurationError
from node.processes import undone_when_told

MANIFEST = "manifest.json"
_REPLACED = ".manifest.json.replaced"
"""The manifest of a run that is being replaced: it marks the folder until the new manifest is there."""

_WRITTEN = (
    *("config.toml", "topology.graphml", "profiles.npz", "dealt.json", "shards", "agents", "endpoints", "public-keys"),
    *("traffic*.mcap", "eavesdropper.*", "zygote.log", "exits.jsonl", "faults.jsonl", "partition", "processes.json"),
    *("handed-over", "watch.json", "results.json", "results.parquet", "details.json", "report.html"),
    *("convergence.png", "gain.png", "staleness.png", "audit.json", "audit-as-*.*", "audit.png", ".*.part"),
)
"""What a run, its scoring and its audit write in its folder, apart from the manifest."""


@contextmanager
def claimed(folder: Path, *, force: bool) -> Iterator[Path]:
    """Claim ``folder`` for one process, and give it a folder to build the run in; what is left of that is removed.

    Raises
    ------
    ConfigurationError
        If the folder holds something (with ``force``: something other than a run), or another process deals there.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    _make(folder)
    descriptor = _lock(folder)
    try:
        _check(folder, force=force)
        for left in _unfinished(folder):
            shutil.rmtree(left, ignore_errors=True)
        building = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.partial"
        with undone_when_told():
            try:
                building.mkdir(mode=0o755)
                yield building
            finally:
                shutil.rmtree(building, ignore_errors=True)
    finally:
        with suppress(OSError):  # a folder that is no longer empty stays
            for place in missing:
                place.rmdir()
        os.close(descriptor)


def fill(folder: Path, building: Path) -> None:
    """Put the run in ``building`` in its claimed place.

    Raises
    ------
    ConfigurationError
        If another process wrote into an empty folder meanwhile, or a ledger would be written over; nothing has then
        changed.
    """
    if is_run(folder):
        _replace(folder, building)
        return
    try:
        building.rename(folder)
    except OSError as error:
        raise ConfigurationError(
            f"run folder {folder} could not be put in its place ({error.strerror}): choose another --out or run.name"
        ) from None


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, or what is left of one whose replacement was broken off."""
    return any((folder / name).is_file() for name in (MANIFEST, _REPLACED))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigurationError(f"run folder {folder} is not a folder: choose another --out or run.name") from None


def _lock(folder: Path) -> int:
    """Lock the folder; returns the open descriptor that holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same(folder, descriptor):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise ConfigurationError(f"run folder {folder}: another process deals there; choose another --out or run.name")


def _same(folder: Path, descriptor: int) -> bool:
    """Whether the name still is the folder that was opened; another run may have been put in its place."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _check(folder: Path, *, force: bool) -> None:
    if not any(folder.iterdir()):
        return
    if not is_run(folder):
        raise ConfigurationError(
            f"run folder {folder} exists and holds no run (it has no {MANIFEST}): choose another --out or run.name"
        )
    if not force:
        raise ConfigurationError(
            f"run folder {folder} exists: choose another --out or run.name, or --force to replace it (sottovoce resume "
            "goes on with a run that was interrupted)"
        )


def _unfinished(folder: Path) -> list[Path]:
    """What a process that was killed left of its dealing; the lock says that no process deals there now."""
    name = re.compile(re.escape(f".{folder.name}.") + r"[0-9a-f]{8}\.partial")
    return [path for path in folder.parent.iterdir() if name.fullmatch(path.name) and path.is_dir()]


def _replace(folder: Path, building: Path) -> None:
    """Put a newly dealt run in the place of an old one; ledgers that are there and all foreign files stay, untouched.

    The manifest goes first and comes last, so that a folder in between is never taken for a whole run.
    """
    kept = set(folder.glob("agents/agent-*/ledger.jsonl"))
    for ledger in kept:
        if (building / ledger.relative_to(folder)).exists():
            raise ConfigurationError(f"--force: {ledger} was written meanwhile, and ledgers are never deleted")
    if (folder / MANIFEST).exists():
        (folder / MANIFEST).replace(folder / _REPLACED)
    for path in list(folder.iterdir()):
        if any(fnmatch(path.name, pattern) for pattern in _WRITTEN):
            _remove(path, kept)
    for path in sorted(building.rglob("*")):
        target = folder / path.relative_to(building)
        if path.is_dir():
            target.mkdir(mode=path.stat().st_mode & 0o777, exist_ok=True)
        elif path.name != MANIFEST:
            path.rename(target)
    (building / MANIFEST).rename(folder / MANIFEST)
    (folder / _REPLACED).unlink(missing_ok=True)


def _remove(path: Path, kept: set[Path]) -> None:
    """Remove a file, or a folder with all that it holds but for the files ``kept``."""
    if path in kept:
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    for inner in list(path.iterdir()):
        _remove(inner, kept)
    if not any(path.iterdir()):
        path.rmdir()
