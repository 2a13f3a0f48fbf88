"""The rows of a log: what the frames say, also while the log grows, and whatever a frame holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.release import Release
from coordinator_free.theory.staleness import Ages
from node.traffic.chunks import ChunkError
from node.traffic.completeness import CaptureCounter
from node.traffic.reader import TrafficLogReader
from node.view.columns import DONE, HELLO, NOBODY, REFUSED, RELEASE, REPEAT, Rows
from node.view.feed import Feed
from node.view.subject import subject_of
from node.wire import Done, encode
from tests.helpers.viewed import RUN, begin_log, columns_of, messages, write, written

AGENTS, RELEASES = 7, 12


def whole(path: Path) -> Feed:
    feed = Feed(subject_of(path))
    while feed.look():
        pass
    return feed


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = [{"after": 20, "fault": "partition", "groups": [0, 1] * 3 + [0]}, {"after": 40, "fault": "heal"}]
    return written(tmp_path_factory.mktemp("log") / "ring.mcap", AGENTS, RELEASES, faults)


def test_every_frame_is_a_row(log: Path) -> None:
    feed, sent = whole(log), list(messages(AGENTS, RELEASES))
    found = columns_of(feed.batches)
    assert feed.rows == len(sent) == len(found["time"])
    assert np.allclose(found["time"], 0.01 * np.arange(len(sent)))
    releases = [message for message in sent if isinstance(message, Release)]
    shown = found["kind"] == RELEASE
    assert found["sender"][shown].tolist() == [release.sender for release in releases]
    assert found["release"][shown].tolist() == [release.index for release in releases]
    assert found["kind"].tolist().count(HELLO) == found["kind"].tolist().count(DONE) == AGENTS
    assert set(found["recipient"].tolist()) == {-1}
    frames = [sum(map(len, frame.parts)) for frame in TrafficLogReader(log)]
    assert found["size"].tolist() == frames


def test_ages_are_those_of_the_theory(log: Path) -> None:
    neighbours = [sorted({(i - 1) % AGENTS, (i + 1) % AGENTS}) for i in range(AGENTS)]
    ages, expected = Ages(neighbours, RELEASES), []
    for message in messages(AGENTS, RELEASES):
        if isinstance(message, Release):
            ages.receive(message)
            expected.append(ages.mean_since())
    found = columns_of(whole(log).batches)
    shown = found["age"][found["kind"] == RELEASE]
    assert np.isfinite(shown).sum() > 50
    assert np.allclose(shown, expected, equal_nan=True)


def test_the_change_is_from_the_senders_own_last_release(log: Path) -> None:
    last: dict[int, np.ndarray] = {}
    expected = []
    for message in messages(AGENTS, RELEASES):
        if isinstance(message, Release):
            before = last.get(message.sender)
            moved = np.nan if before is None else np.sqrt(np.mean((message.vector - before) ** 2))
            expected.append(moved)
            last[message.sender] = message.vector
    found = columns_of(whole(log).batches)
    assert np.allclose(found["change"][found["kind"] == RELEASE], expected, equal_nan=True)


def test_a_frame_is_read_again_as_it_was_sent(log: Path) -> None:
    feed = whole(log)
    for row, frame in enumerate(TrafficLogReader(log)):
        if row % 9 == 0:
            assert feed.frame(row) == frame.parts
    with pytest.raises(LookupError, match="row 98: there are 98"):
        feed.frame(feed.rows)


def test_events_and_capture(log: Path) -> None:
    feed = whole(log)
    assert [(event["fault"], round(event["time"], 3)) for event in feed.events] == [("partition", 0.2), ("heal", 0.4)]
    capture = feed.capture()
    assert (capture.complete, capture.closed, capture.damaged, capture.refused) == (True, True, 0, {})


def test_a_log_is_followed_while_it_grows(tmp_path: Path) -> None:
    path, sent = tmp_path / "growing.mcap", list(messages(AGENTS, RELEASES))
    log = begin_log(path, AGENTS, RELEASES)
    feed = Feed(subject_of(path))
    assert not feed.look()
    for first in range(0, len(sent), 30):
        write(log, sent[first : first + 30])
        log.flush()
        while feed.look():
            pass
        assert feed.rows == min(len(sent), first + 30)
        assert not feed.capture().closed
    log.close({})
    assert not feed.look()
    assert feed.capture().closed
    expected = columns_of(whole(path).batches)
    for name, column in columns_of(feed.batches).items():
        assert np.array_equal(column, expected[name], equal_nan=True)


def test_half_a_chunk_is_waited_for(log: Path, tmp_path: Path) -> None:
    """Nothing is lost or read twice wherever the file ends for the moment."""
    data, growing = log.read_bytes(), tmp_path / "half.mcap"
    began = len(data) // 5
    growing.write_bytes(data[:began])
    feed = Feed(subject_of(growing))
    for end in range(began, len(data) + 997, 997):
        growing.write_bytes(data[:end])
        while feed.look():
            pass
    assert feed.rows == whole(log).rows
    assert feed.capture().damaged == 0


def test_a_damaged_chunk_is_counted_and_passed_over(log: Path, tmp_path: Path) -> None:
    data, damaged = bytearray(log.read_bytes()), tmp_path / "damaged.mcap"
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    feed = whole(damaged)
    assert feed.capture().damaged == 1
    assert 0 < feed.rows < whole(log).rows


def test_a_log_that_was_cut_since_is_no_frame(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "cut.mcap"
    copy.write_bytes(log.read_bytes())
    feed = whole(copy)
    copy.write_bytes(log.read_bytes()[:200])
    with pytest.raises(ChunkError):
        feed.frame(feed.rows - 1)


def test_repeats_and_strange_frames_have_rows_of_their_own() -> None:
    rows = Rows(CaptureCounter(RUN, range(2)))
    release = encode(RUN, Release(1, 0, np.ones(2), ((0, 5), (99, 1))))
    kinds = [rows.row(0.0, parts).kind for parts in (release, release, (b"x",), (bytes(8), b"", b""), ())]
    assert kinds == [RELEASE, REPEAT, REFUSED, REFUSED, REFUSED]
    assert rows.row(0.0, (b"x",)).sender == NOBODY
    assert rows.row(0.0, encode(RUN, Done(0, -1))).release == 0xFFFFFFFF
    assert rows.pairs == set()  # of an agent that sent nothing no release can have been used


@given(st.lists(st.lists(st.binary(max_size=60), max_size=4), max_size=5))
def test_no_frame_raises(frames: list[list[bytes]]) -> None:
    rows = Rows(CaptureCounter())
    found = [rows.row(0.0, parts) for parts in frames]
    assert len(rows.changes(found, [parts[2] if len(parts) == 3 else b"" for parts in frames])) == len(frames)


def test_numbers_that_are_none_raise_no_warning() -> None:
    rows = Rows(CaptureCounter(RUN, range(1)))
    bodies = [np.array([value, value]) for value in (np.inf, -np.inf, np.nan, 1e308, -1e308)]
    parts = [encode(RUN, Release(0, k, body)) for k, body in enumerate(bodies)]
    found = [rows.row(0.0, part) for part in parts]
    changes = rows.changes(found, [part[2] for part in parts])
    assert not np.isfinite(changes).any()
