"""Sealed folders: opened whole by the holder of the key for their purpose, and by nothing else."""

from __future__ import annotations

import io
import itertools
import os
import tarfile
from pathlib import Path

import pytest

from node.folder import sealed
from node.folder.sealed import SealError, make_key, seal, unseal


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """A folder of three pieces."""
    folder = tmp_path / "part"
    (folder / "agents" / "agent-0003").mkdir(parents=True)
    (folder / "agents" / "agent-0003" / "secret").write_bytes(b"never told")
    (folder / "agents" / "agent-0003" / "secret").chmod(0o600)
    (folder / "traffic.mcap").write_bytes(os.urandom(2 * sealed.PIECE + 5))
    return folder


def _sealed(folder: Path, part: Path) -> tuple[Path, Path]:
    """The sealed file, and the private key."""
    key, file = folder / "key", folder / "part.sealed"
    seal(part, file, make_key(key), "run a to host b")
    return file, key


def _contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mode & 0o777) for p in files}


def test_a_folder_comes_out_as_it_was(tmp_path: Path, part: Path) -> None:
    file, key = _sealed(tmp_path, part)
    assert make_key(key) == make_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    assert b"never told" not in file.read_bytes()
    unseal(file, tmp_path / "out", key, "run a to host b")
    assert _contents(tmp_path / "out") == _contents(part)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["changed", "cut", "swapped", "longer", "purpose", "key"])
def test_what_is_not_the_sealed_file_is_refused_and_leaves_nothing(tmp_path: Path, part: Path, damage: str) -> None:
    file, key = _sealed(tmp_path, part)
    purpose = "run a to host b"
    data = file.read_bytes()
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 4 + int.from_bytes(data[ends[-1] : ends[-1] + 4], "little"))
    pieces = [data[begin:end] for begin, end in itertools.pairwise(ends)]
    assert len(pieces) == 3
    if damage == "changed":
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "cut":
        file.write_bytes(b"".join(pieces[:2]))
    elif damage == "swapped":
        file.write_bytes(pieces[1] + pieces[0] + pieces[2])
    elif damage == "longer":
        file.write_bytes(data + pieces[2])
    elif damage == "purpose":
        purpose = "run a to host c"
    else:
        make_key(tmp_path / "other")
        key = tmp_path / "other"
    with pytest.raises(SealError, match="cannot be opened"):
        unseal(file, tmp_path / "out", key, purpose)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_an_archive_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    key, file = tmp_path / "key", tmp_path / "part.sealed"
    with file.open("wb") as target:
        sealing = sealed._Sealing(target, make_key(key), "p")
        with tarfile.open(fileobj=sealing, mode="w|") as archive:
            entry = tarfile.TarInfo("../outside")
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"bad"))
        sealing.finish()
    with pytest.raises(SealError, match="holds no folder"):
        unseal(file, tmp_path / "out", key, "p")
    assert not (tmp_path / "outside").exists()


def test_no_key_is_refused_in_one_line(tmp_path: Path, part: Path) -> None:
    with pytest.raises(SealError, match="64 hexadecimal digits"):
        seal(part, tmp_path / "part.sealed", "beta", "p")
