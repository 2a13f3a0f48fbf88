"""A folder as one sealed file: the owner of one private key can read it, and the ways between cannot.

    length of a piece (4 bytes, little-endian), piece, length, piece, ...

A piece is at most `PIECE` bytes of a tar archive, encrypted by HPKE (RFC 9180) in the mode "base" with X25519,
HKDF-SHA256 and ChaCha20-Poly1305.

Rules that hold here:
- Each piece is bound to its purpose, its number, and whether it is the last: pieces of another file, pieces that are
  missing and pieces in another order are refused.
- A folder appears whole, and on the disk, or not at all.
- HPKE keeps the content secret and does not prove its origin: a sender that knows the public key can seal another
  folder.
- Packing and opening are done by ``python -m node.folder.sealed``: the process that asks for it holds no content.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from node.folder.whole import write_new
from node.plug_ins import exit_status_of
from node.processes import end_with_parent, keep_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

PIECE: Final = 1 << 22
"""Bytes of the archive in one piece."""
_LARGEST: Final = PIECE + 1024
"""Bytes of a sealed piece that are read."""


class SealError(ValueError):
    """A sealed file or a key that cannot be used; one line."""


def make_key(path: Path) -> str:
    """Make a private key at ``path``, mode 0600, unless there is one; returns its public key in hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    if not path.exists():
        write_new(path, X25519PrivateKey.generate().private_bytes_raw())
    return X25519PrivateKey.from_private_bytes(path.read_bytes()).public_key().public_bytes_raw().hex()


def seal(folder: Path, target: Path, receiver: str, purpose: str) -> None:
    """Seal the files of ``folder`` into the file ``target``.

    Parameters
    ----------
    folder, target
        The folder, and the file to write; an older one is replaced.
    receiver
        The public key that `make_key` returned.
    purpose
        What the file is for. It can be opened for the same purpose alone.

    Raises
    ------
    SealError
        If ``receiver`` is no key.
    """
    part = target.with_name(f".{target.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        sealing = _Sealing(file, receiver, purpose)
        with tarfile.open(fileobj=sealing, mode="w|", bufsize=1 << 16) as archive:
            archive.add(folder, arcname=".")
        sealing.finish()
    part.replace(target)


def unseal(sealed: Path, folder: Path, key: Path, purpose: str) -> None:
    """Open a sealed file into the new ``folder``, mode 0700, and wait until all of it is on the disk.

    Parameters
    ----------
    sealed, folder
        The file, and the folder to make.
    key
        The private key that `make_key` made.
    purpose
        What the file must have been sealed for.

    Raises
    ------
    SealError
        If the file was changed, cut, sealed to another key or for another purpose, or is no archive of plain files.
    """
    building = folder.with_name(f".{folder.name}.opening")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700)
    try:
        with sealed.open("rb") as file:
            opening = _Opening(file, key, purpose)
            with tarfile.open(fileobj=opening, mode="r|", bufsize=1 << 16) as archive:
                archive.extractall(building, filter="data")
            opening.drain()
        building.chmod(0o700)
        _sync(building)
        building.rename(folder)
        _sync_one(folder.parent)
    except tarfile.TarError as error:
        raise SealError(f"{sealed} holds no folder: {error}") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _bound_to(purpose: str, number: int, *, last: bool) -> bytes:
    return f"sottovoce part 1\n{number} {int(last)}\n{purpose}".encode()


class _Sealing(io.RawIOBase):
    """Takes an archive, and writes it in sealed pieces."""

    def __init__(self, file: BinaryIO, receiver: str, purpose: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        try:
            self._receiver = X25519PublicKey.from_public_bytes(bytes.fromhex(receiver))
        except ValueError:
            raise SealError(f"public key {receiver[:70]!r}: accepted are 64 hexadecimal digits") from None
        self._suite, self._file, self._purpose = _suite(), file, purpose
        self._waiting, self._number = bytearray(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._waiting += data
        while len(self._waiting) > PIECE:
            self._write(bytes(self._waiting[:PIECE]), last=False)
            del self._waiting[:PIECE]
        return len(data)

    def finish(self) -> None:
        self._write(bytes(self._waiting), last=True)

    def _write(self, plain: bytes, *, last: bool) -> None:
        piece = self._suite.encrypt(plain, self._receiver, _bound_to(self._purpose, self._number, last=last))
        self._file.write(len(piece).to_bytes(4, "little") + piece)
        self._number += 1


class _Opening(io.RawIOBase):
    """Reads the archive out of sealed pieces."""

    def __init__(self, file: BinaryIO, key: Path, purpose: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._key = X25519PrivateKey.from_private_bytes(key.read_bytes())
        self._suite, self._file, self._purpose = _suite(), file, purpose
        self._waiting, self._number, self._over = b"", 0, False
        self._size = os.fstat(file.fileno()).st_size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._over and (size < 0 or len(self._waiting) < size):
            self._waiting += self._next()
        found, self._waiting = (self._waiting, b"") if size < 0 else (self._waiting[:size], self._waiting[size:])
        return found

    def drain(self) -> None:
        """Read to the end: the last piece must be there, and nothing behind it."""
        while not self._over:
            self._next()

    def _next(self) -> bytes:
        from cryptography.exceptions import InvalidTag

        length = int.from_bytes(self._file.read(4), "little")
        piece = self._file.read(min(length, _LARGEST))
        self._over = self._file.tell() == self._size
        try:
            plain = self._suite.decrypt(piece, self._key, _bound_to(self._purpose, self._number, last=self._over))
        except (InvalidTag, ValueError):
            raise SealError(
                f"{self._file.name}: piece {self._number} cannot be opened: it was changed or cut, or sealed to "
                "another key or for another purpose"
            ) from None
        self._number += 1
        return plain


def _sync(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        _sync_one(path)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m node.folder.sealed FROM TO --purpose TEXT``; ``--receiver KEY`` seals, ``--key FILE`` opens."""
    parser = argparse.ArgumentParser(prog="python -m node.folder.sealed")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--purpose", required=True)
    parser.add_argument("--receiver")
    parser.add_argument("--key", type=Path)
    options = parser.parse_args(arguments)

    def work() -> None:
        if options.key is not None:
            unseal(options.source, options.target, options.key, options.purpose)
        else:
            seal(options.source, options.target, options.receiver, options.purpose)

    return exit_status_of(work, ValueError, OSError)


if __name__ == "__main__":
    keep_private()
    end_with_parent()
    sys.exit(main())
