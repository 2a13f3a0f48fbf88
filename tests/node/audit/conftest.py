"""Small runs in the twin, dealt once and copied for each test that spoils one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from node.configuration.reading import load
from node.dealing.folder import deal_run
from node.traffic.reader import TrafficLogReader, TrafficLogWriter
from node.worlds.twin import run_twin
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
    deal_run(load(configuration, []), folder)
    return with_known_noise(folder)


@pytest.fixture(scope="session")
def _private(tmp_path_factory) -> Path:
    folder = deal(tmp_path_factory.mktemp("runs") / "private", GAUSSIAN)
    run_twin(folder)
    return folder


@pytest.fixture(scope="session")
def _open(tmp_path_factory) -> Path:
    folder = deal(tmp_path_factory.mktemp("runs") / "open", "")
    run_twin(folder)
    return folder


@pytest.fixture
def private(_private, tmp_path) -> Path:
    """A private run of eight agents, to be spoiled at will."""
    return Path(shutil.copytree(_private, tmp_path / "private"))


@pytest.fixture
def open_run(_open, tmp_path) -> Path:
    """The same without privacy."""
    return Path(shutil.copytree(_open, tmp_path / "open"))


Parts = tuple[bytes, ...]


@pytest.fixture
def rewrite() -> Callable[[Path, Callable[[Parts], Iterable[Parts]]], None]:
    """Write a run's log anew, each frame replaced by those that a function gives for it."""

    def write(run: Path, change: Callable[[Parts], Iterable[Parts]]) -> None:
        reader = TrafficLogReader(run / "traffic.mcap")
        frames = list(reader)
        (run / "traffic.mcap").unlink()
        with TrafficLogWriter(run / "traffic.mcap", reader.attachments) as log:
            for frame in frames:
                for parts in change(frame.parts):
                    log.write(parts, frame.time_ns)

    return write
