"""The traffic logs of a run's folder: one, and another for each time that its eavesdropper was started again.

Rules that hold here:
- A log is never overwritten and never continued: an eavesdropper that is started again begins the next file.
- They are read in order, as one. Whether the capture is complete is judged over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coordinator_free.release import Release
from node.traffic.format import Frame, TrafficLogError
from node.traffic.reader import TrafficLogReader
from node.wire import Refused, decode


def log_path(folder: Path, number: int) -> Path:
    """The path of the log with this number, from 1 up: ``traffic.mcap``, ``traffic-2.mcap``, ..."""
    return folder / ("traffic.mcap" if number == 1 else f"traffic-{number}.mcap")


def logs_of(folder: Path) -> list[Path]:
    """The existing logs, in the order in which they were written."""
    return list(_existing(folder))


def next_log(folder: Path) -> Path:
    """The path of the next log."""
    return log_path(folder, len(logs_of(folder)) + 1)


def frames_of(folder: Path, damage: list[str]) -> Iterator[Frame]:
    """All frames of a run's logs, in order.

    Parameters
    ----------
    folder
        The run's folder.
    damage
        A line is added for each part of a log that cannot be read.

    Raises
    ------
    TrafficLogError
        If there is only one file, and it is not a traffic log.
    """
    paths = logs_of(folder)
    for path in paths:
        place = f"{path.name}: " if len(paths) > 1 else ""
        try:
            reader = TrafficLogReader(path)
        except TrafficLogError as error:
            if len(paths) == 1:
                raise
            damage.append(f"{place}{error}")
            continue
        yield from reader
        damage += [f"{place}{d.size} bytes from byte {d.offset}: {d.meaning}" for d in reader.damage]


def releases_of(folder: Path) -> dict[tuple[int, int], tuple[int, Release]]:
    """The first copy of every release that was received, in order of arrival.

    Returns
    -------
    dict
        (time in ns, release) by (sender, index).
    """
    received: dict[tuple[int, int], tuple[int, Release]] = {}
    for frame in frames_of(folder, []):
        with suppress(Refused):
            message = decode(frame.parts)
            if isinstance(message, Release):
                received.setdefault((message.sender, message.index), (frame.time_ns, message))
    return received


def _existing(folder: Path) -> Iterator[Path]:
    number = 1
    while (path := log_path(folder, number)).exists():
        yield path
        number += 1
