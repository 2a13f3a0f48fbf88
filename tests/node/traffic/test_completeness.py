"""The verdict on a capture: complete, or exactly what is missing of whom."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.release import Release
from node.hello import Hello, Receipt
from node.traffic.completeness import CaptureCounter, in_words, judge
from node.wire import encode, topic
from tests.helpers.speech import RUN, conversation, done, hello, release


def test_everything_heard_is_complete() -> None:
    verdict = judge(conversation(4, 10), RUN, range(4))
    assert verdict.complete
    assert verdict.as_results() == {"complete": True, "releases": 40, "missing": {}, "repeats": 0}
    assert verdict.in_words() == "complete: 40 releases of 4 agents"
    assert judge(conversation(4, 10)).run == RUN


def test_gaps_are_named_as_ranges() -> None:
    said = [release(0, k) for k in (0, 1, 5, 9)] + [done(0, 12)]
    verdict = judge(said)
    assert not verdict.complete
    assert verdict.missing == {0: ((2, 4), (6, 8), (10, 12))}
    assert verdict.in_words() == "incomplete, missing agent 0: 2-4, 6-8, 10-12"


def test_without_done_the_end_is_not_known() -> None:
    verdict = judge([release(0, 0), release(0, 2), hello(1)], RUN, range(3))
    assert verdict.missing == {0: ((1, 1), (3, None)), 1: ((0, None),), 2: ((0, None),)}
    assert verdict.silent == (2,)
    assert verdict.as_results()["missing"] == {"0": [[1, 1], [3, None]], "1": [[0, None]], "2": [[0, None]]}
    assert in_words(verdict.missing[0]) == "1, from 3 on"


def test_skipped_indices_are_not_missing() -> None:
    verdict = judge([release(0, 0), release(0, 3), done(0, 5, (1, 2, 4, 5))])
    assert verdict.complete
    assert verdict.senders[0].skipped == 4
    assert not judge([release(0, 0), release(0, 3), done(0, 5, (1, 2, 4))]).complete


def test_an_agent_that_never_released_is_complete_with_its_done() -> None:
    assert judge([hello(0), done(0, -1)], RUN, [0]).complete
    assert not judge([hello(0)], RUN, [0]).complete
    assert not judge([], RUN, []).complete


def test_what_comes_late_fills_the_gap() -> None:
    counter = CaptureCounter(RUN, [0])
    for parts in [release(0, 0), release(0, 2), done(0, 2)]:
        counter.count(parts)
    assert not counter.complete
    header = counter.count(release(0, 1))
    assert header is not None
    assert header["kind"] == "release"
    assert counter.complete
    counter.count(done(0, 3))
    assert not counter.complete, "an agent that was restarted goes on"


def test_repeats_are_counted_and_redrawn_noise_is_found() -> None:
    said = [release(0, 0), release(0, 0), release(0, 1, value=1.0), release(0, 1, value=2.0), done(0, 1)]
    verdict = judge(said)
    assert (verdict.releases, verdict.repeats) == (2, 1)
    assert verdict.redrawn == ((0, 1),)
    assert verdict.complete


def test_frames_of_others_are_counted_by_reason() -> None:
    stranger = release(7, 0)
    other_run = release(0, 0, run=bytes(16))
    forged = (topic(1), release(0, 3)[1], release(0, 3)[2])
    verdict = judge([release(0, 0), done(0, 0), stranger, other_run, forged, (b"x",), (b"a", b"b", b"c")], RUN, [0])
    assert verdict.complete
    assert verdict.refused == {"header unreadable": 1, "parts": 1, "run": 1, "sender": 1, "topic": 1}
    assert verdict.frames == 7


def test_indices_far_apart_take_no_memory() -> None:
    far = 1 << 62
    header = msgpack.unpackb(release(0, 0)[1])
    said = [(topic(0), msgpack.packb({**header, "index": k}), release(0, 0)[2]) for k in (far, 0, far, far + 1)]
    counter = CaptureCounter()
    for parts in said:
        counter.count(parts)
    assert counter.verdict().missing == {0: ((1, far - 1), (far + 2, None))}
    assert counter.repeats == 1
    counter.count(done(0, far))
    assert counter.verdict().missing == {0: ((1, far - 1),)}


@given(
    heard=st.lists(st.integers(0, 30), max_size=60),
    skipped=st.sets(st.integers(0, 30), max_size=10),
    last=st.integers(-1, 30),
    place=st.integers(0, 60),
    far=st.booleans(),
)
def test_missing_is_what_a_set_says(heard: list[int], skipped: set[int], last: int, place: int, far: bool) -> None:
    offset = 1 << 20 if far else 0
    indices = [k + offset for k in heard]
    said: list[Sequence[bytes]] = [release(0, k) for k in indices]
    end = last + offset if last >= 0 else -1
    said.insert(place, done(0, end, sorted(k + offset for k in skipped)))
    counter = CaptureCounter()
    for parts in said:
        counter.count(parts)
    verdict = counter.verdict()
    ranges = verdict.missing.get(0, ())
    named = {k for first, stop in ranges for k in range(max(first, offset), (stop or 0) + 1)}
    expected = set(range(offset, end + 1)) - set(indices) - {k + offset for k in skipped}
    assert named == expected
    before = sum(min(stop or 0, offset - 1) - first + 1 for first, stop in ranges if first < offset)
    assert before == (offset if end >= 0 else 0)
    assert verdict.complete == counter.complete == (not ranges)
    assert verdict.releases == len(set(indices))
    assert verdict.repeats == len(indices) - len(set(indices))


headers = st.dictionaries(
    st.sampled_from(["v", "run", "from", "to", "kind", "index", "round", "used", "last", "skipped", "heard", "digest"]),
    st.one_of(
        st.integers(-(1 << 63), (1 << 64) - 1),
        st.sampled_from(["release", "done", "hello", RUN, bytes(32), 1, 0, None, [], [1, 2]]),
    ),
)


@pytest.mark.thorough
@given(st.lists(st.lists(st.one_of(st.binary(max_size=50), headers.map(msgpack.packb)), min_size=1, max_size=4)))
def test_nothing_that_arrives_raises(said: list[list[bytes]]) -> None:
    verdict = judge(said, RUN)
    assert verdict.frames == len(said)


def test_a_hostile_header_of_a_real_agent_is_only_counted() -> None:
    counter = CaptureCounter(RUN, [0])
    for change in ({"index": -1}, {"index": 1.5}, {"index": "0"}, {"from": 1 << 40}, {"to": 1 << 33}, {"v": 2}):
        header = {**msgpack.unpackb(release(0, 0)[1]), **change}
        assert counter.count((topic(0), msgpack.packb(header), b"")) is None
    assert sum(counter.refused.values()) == 6
    assert counter.releases == 0


def receipt(agent: int, starts: int, charged: int) -> tuple[bytes, bytes, bytes]:
    return encode(RUN, Hello(agent, bytes(32), Receipt(starts, charged, bytes(16))))


@pytest.mark.parametrize(
    ("receipts", "back"),
    [
        ([(1, 0), (1, 5), (1, 5), (2, 7), (2, 9)], False),
        ([(1, 0), (2, 7), (1, 5), (2, 9)], False),  # the last of the first start came late
        ([(1, 0), (1, 50), (1, 0)], True),  # the part as it was dealt
        ([(1, 0), (1, 50), (2, 20)], True),  # a backup of the first start
        ([(2, 20), (1, 50)], True),
        ([(1, 0), (2, 50), (3, 70), (2, 40)], True),
    ],
)
def test_a_ledger_that_went_backwards_is_found_in_the_log(receipts: list[tuple[int, int]], back: bool) -> None:
    frames = [receipt(2, *counts) for counts in receipts]
    assert judge([hello(1), *frames], RUN, range(3)).backwards == ((2,) if back else ())


_FRAMES = st.one_of(
    st.builds(release, st.integers(0, 4), st.integers(0, 6), round=st.none() | st.integers(0, 6)).map(list),
    st.builds(done, st.integers(0, 4), st.integers(-1, 6)).map(list),
    st.builds(
        lambda sender, index, used: list(encode(RUN, Release(sender, index, np.zeros(1), tuple(used)))),
        st.integers(0, 4),
        st.sampled_from([0, 127, 128, 255, 256, 65535, 65536, 2**32, 2**64 - 1]),
        st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2**64 - 1)), max_size=40),
    ),
    st.lists(st.binary(max_size=40), max_size=4),
)


@given(st.lists(st.tuples(_FRAMES, st.integers(0, 2), st.integers(0, 120), st.integers(0, 255)), max_size=12))
def test_a_tally_is_the_count_without_the_fields(said: list[tuple[list[bytes], int, int, int]]) -> None:
    """Of good frames, and of frames with one byte changed."""
    for run, agents in ((RUN, range(4)), (None, None)):
        counted, tallied = CaptureCounter(run, agents), CaptureCounter(run, agents)
        for frame, part, place, byte in said:
            for one in (frame, _changed(frame, part, place, byte)):
                fields = counted.count(one)
                assert tallied.tally(one) == (None if fields is None else fields["kind"])
        assert tallied.verdict() == counted.verdict()
        assert (tallied.bytes, tallied.done, tallied.complete) == (counted.bytes, counted.done, counted.complete)


def _changed(frame: list[bytes], part: int, place: int, byte: int) -> list[bytes]:
    if part >= len(frame) or place >= len(frame[part]):
        return frame
    old = frame[part]
    return [*frame[:part], old[:place] + bytes([byte]) + old[place + 1 :], *frame[part + 1 :]]
