"""Small runs in the twin, dealt once and copied for each test that spoils one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from node.worlds.twin import run_twin
from tests.helpers.audited_runs import GAUSSIAN, deal


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
