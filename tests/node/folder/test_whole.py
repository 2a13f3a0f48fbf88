"""Files that appear whole or not at all, and errors that name them."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from node.folder.whole import copy_whole, write_new, write_whole


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_is_its_owners_alone_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "held"
    path.write_bytes(b"old and readable by others")
    path.chmod(0o644)
    (tmp_path / ".held.part").write_bytes(b"left by a crash")
    (tmp_path / ".held.part").chmod(0o666)

    write_whole(path, b"new")

    assert path.read_bytes() == b"new"
    assert _mode(path) == 0o600
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_file_can_be_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "public", b"key", 0o644)
    finally:
        os.umask(before)
    assert _mode(tmp_path / "public") == 0o644


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    write_new(tmp_path / "secret", b"first")
    with pytest.raises(FileExistsError, match="secret"):
        write_new(tmp_path / "secret", b"second")
    assert (tmp_path / "secret").read_bytes() == b"first"
    assert _mode(tmp_path / "secret") == 0o600


def test_a_copy_makes_folders_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"rows")
    target = tmp_path / "part" / "agents" / "copy"
    copy_whole(tmp_path / "source", target, 0o600)
    assert target.read_bytes() == b"rows"
    assert _mode(target) == 0o600
    assert [_mode(folder) for folder in (target.parent, target.parent.parent)] == [0o700, 0o700]


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_whole(path, b"x"),
        lambda path: write_new(path, b"x"),
        lambda path: copy_whole(Path(__file__), path, 0o600),
    ],
    ids=["whole", "new", "copy"],
)
def test_a_full_disk_names_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    def full(first: object, *_: object) -> None:
        if isinstance(first, int):
            os.close(first)  # the descriptor that is given to fdopen
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as from a write: without a file name

    monkeypatch.setattr(shutil, "copyfileobj", full)
    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match=r"No space left on device: .*held") as caught:
        write(tmp_path / "held")
    assert caught.value.filename == str(tmp_path / "held")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named_by_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "none" / "held", b"x")
    assert caught.value.filename == str(tmp_path / "none" / "held")
