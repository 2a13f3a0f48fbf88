"""One agent's shard file: its private rows and the public numbers that it starts from.

Rules that hold here:
- A shard is readable by its owner only (mode 0600), holds no pickle, and names the digest of its rows; its ledger names
  the same digest.
- Reading needs numpy and the standard library alone: a thousand agents are forked from a process that imported this.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.privacy.noise import Start
from coordinator_free.problem.losses import loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.folder.arrays import Arrays, packed_with_index, unpacked_by_index
from node.folder.public import PublicNumbers
from node.folder.whole import write_new


class ShardError(ValueError):
    """A shard file that cannot be used, and why."""


@dataclass(frozen=True)
class Rows:
    """One agent's records: x (m, p), y (m,), and held-out x_test (t, p), y_test (t,); float64, C order."""

    x: FloatArray
    y: FloatArray
    x_test: FloatArray
    y_test: FloatArray

    def digest(self) -> str:
        """SHA-256 (hex) over shapes and bytes: what a ledger belongs to."""
        hasher = hashlib.sha256(b"sottovoce shard 1")
        for array in (self.x, self.y, self.x_test, self.y_test):
            hasher.update(str(list(array.shape)).encode())
            hasher.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return hasher.hexdigest()


class ShardFile(NamedTuple):
    """What an agent starts from: its `Setting`, its public numbers as written, and the digest of its rows."""

    setting: Setting
    public: PublicNumbers
    digest: str


def write_shard(path: Path, rows: Rows, public: PublicNumbers) -> None:
    """Write a new shard file, mode 0600; raises FileExistsError rather than overwrite one."""
    document = np.frombuffer(json.dumps(public.to_json(), allow_nan=False).encode(), dtype=np.uint8)
    arrays: Arrays = {"x": rows.x, "y": rows.y, "x_test": rows.x_test, "y_test": rows.y_test, "public": document}
    write_new(path, packed_with_index(arrays))


def read_shard(path: Path | str, secret: Path | str | None = None) -> ShardFile:
    """Read a shard file, and the noise secret in the file ``secret``, which an agent of a private run needs.

    Raises `ShardError` if a file is missing or damaged, or if the rows are not those that the shard names.
    """
    rows, public = read_rows(path)
    own = read_secret(secret) if secret is not None else b""
    # Copies, so that the file's bytes go, and with them the held-out rows, which no agent learns from.
    learnt = replace(rows, x=rows.x.copy(), y=rows.y.copy())
    return ShardFile(setting(learnt, public, own), public, public.shard_digest)


def read_rows(path: Path | str) -> tuple[Rows, PublicNumbers]:
    """All rows of a shard file, held-out ones too, and its public numbers. Raises `ShardError`."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path's own open costs every agent pages
            archive = unpacked_by_index(file.read())
        rows = Rows(*(_array(archive[key]) for key in ("x", "y", "x_test", "y_test")))
        public = PublicNumbers.from_json(json.loads(archive["public"].tobytes()))
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ShardError(f"shard {path} cannot be read: {error}") from None
    if rows.digest() != public.shard_digest:
        raise ShardError(f"shard {path} is damaged: its rows are not those that it was dealt with")
    return rows, public


def setting(rows: Rows, public: PublicNumbers, secret: bytes, starts: tuple[Start, ...] = ()) -> Setting:
    """The `Setting` that rows and public numbers make, for an agent whose process was started at ``starts``."""
    return Setting(
        agent=public.agent,
        neighbours=public.neighbours,
        weights=np.array(public.weights, dtype=np.float64),
        problem=LocalProblem(rows.x, rows.y, loss(public.loss), public.regularisation),
        dimension=public.dimension,
        updates=public.updates,
        learning=public.learning,
        confidence=public.confidence,
        mechanism=public.mechanism,
        multipliers=np.array(public.multipliers, dtype=np.float64),
        clip=public.clip,
        row_bound=public.row_bound,
        secret=secret,
        run=public.run,
        starts=starts,
    )


def read_secret(path: Path | str) -> bytes:
    """An agent's noise secret, 32 bytes; raises `ShardError` if it is missing or short."""
    try:
        secret = Path(path).read_bytes()
    except OSError as error:
        raise ShardError(f"noise secret {path} cannot be read: {error.strerror}") from None
    if len(secret) != 32:
        raise ShardError(f"noise secret {path} has {len(secret)} bytes, should have 32")
    return secret


def _array(array: Any) -> FloatArray:
    return np.ascontiguousarray(array, dtype=np.float64)
