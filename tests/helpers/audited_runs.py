"""Small runs to audit, and the releases in their logs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from coordinator_free.release import Release
from node.audit.auditor import audit
from node.audit.report import Audit
from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.wire import Refused, decode
from tests.helpers.documents import conforms
from tests.helpers.known_noise import with_known_noise

CONFIGURATION = """
[run]
seed = 3

[data]
source = "synthetic"
agents = 8
dimension = {dimension}
records = {records}

[topology]
kind = "ring"

[learning]
{algorithm}
loss = "logistic"
mu = 2.5
{smoothness}

[clock]
rate = 1.0
updates = 10

[privacy]
{privacy}
"""
GAUSSIAN = 'mechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-3\nclip = 1.0'
LAPLACE = 'mechanism = "laplace"\nepsilon = 2.0\ndelta = 1e-3\nclip = 1.0'


def deal(
    folder: Path,
    privacy: str,
    algorithm: str = 'algorithm = "coordinate-descent"',
    records: str = "[12, 20]",
    dimension: int = 4,
) -> Path:
    configuration = folder.with_suffix(".toml")
    known = '"data"' if privacy == "" else "1.0"
    smoothness = f"smoothness = {known}" if "descent" in algorithm and "smoothness" not in algorithm else ""
    text = CONFIGURATION.format(
        privacy=privacy, smoothness=smoothness, algorithm=algorithm, records=records, dimension=dimension
    )
    configuration.write_text(text)
    deal_run(from_table(tomllib.loads(text), name=folder.name, lenient=True), folder)
    return with_known_noise(folder)


def release(parts: tuple[bytes, ...]) -> Release | None:
    """The release in a frame, None if it is none."""
    try:
        found = decode(parts)
    except Refused:
        return None
    return found if isinstance(found, Release) else None


def is_release(parts: tuple[bytes, ...], agent: int, index: int) -> bool:
    found = release(parts)
    return found is not None and (found.sender, found.index) == (agent, index)


def audited(folder: Path, **options: Any) -> Audit:
    """The audit of a run; its documents follow their schema and are read as they were written."""
    found = audit(folder, **options)
    conforms(found.to_json(), "audit")
    conforms(found.details(), "audit")
    assert Audit.from_details(found.details()).details() == found.details()
    return found
