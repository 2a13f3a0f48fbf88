"""Frames and the checks on them; hostile ones with hypothesis."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_free.release import Release
from node import wire
from node.hello import Hello, Receipt
from node.wire import Done, Receiver, Refused, decode, decode_header, encode, own_name, topic

RUN = bytes(range(16))


def release(index: int = 0, sender: int = 3, **more: object) -> Release:
    fields = {"vector": np.arange(4.0), "used": ((1, 2), (3, 0))} | more
    return Release(sender=sender, index=index, **fields)  # type: ignore[arg-type]


def take(ear: Receiver, parts: tuple[bytes, ...] | list[bytes]) -> wire.Message | None:
    """The one message of one frame."""
    releases, others = ear.take([parts])
    messages: list[wire.Message] = [*releases, *others]
    assert len(messages) <= 1
    return messages[0] if messages else None


def receiver() -> Receiver:
    return Receiver(RUN, 1, [2, 3], dimension=4, releases=10)


@pytest.mark.parametrize("value", [4.0, np.nextafter(4.0, 5.0), -1e12, 1e308])
def test_a_vector_that_no_honest_neighbour_sends_is_dropped_and_its_index_is_free_for_a_good_one(value: float) -> None:
    ear = Receiver(RUN, 1, [2, 3], dimension=4, releases=10, largest=4.0)
    taken = take(ear, encode(RUN, release(vector=np.array([0.0, 4.0, value, -4.0]))))
    assert ear.dropped == ({} if value == 4.0 else {"too large": 1})
    assert (taken is not None) == (value == 4.0)
    assert (take(ear, encode(RUN, release())) is not None) == (value != 4.0)


def header(**changes: object) -> bytes:
    fields = msgpack.unpackb(encode(RUN, release())[1])
    return msgpack.packb({k: v for k, v in (fields | changes).items() if v != "absent"})


def test_a_release_comes_back_as_it_was() -> None:
    sent = release(5, round=7, recipient=1)
    assert decode(encode(RUN, sent)).same_as(sent)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "message",
    [
        Hello(3, bytes(32)),
        Hello(3, bytes(32), asks=True),
        Hello(3, bytes(32), Receipt(1, 0, bytes(16)), asks=True),
        Hello(3, bytes(32), Receipt(2, 9, b"t" * 16), echoes=((4, Receipt(1, 7, b"u" * 16)),)),
        Done(3, 9, (4, 5), (1,)),
        Done(3, -1),
    ],
)
def test_hello_and_done_come_back_as_they_were(message: Hello | Done) -> None:
    assert decode(encode(RUN, message)) == message


def test_the_body_is_raw_little_endian_and_exactly_eight_bytes_a_number() -> None:
    assert encode(RUN, release())[2] == np.arange(4.0).astype("<f8").tobytes()


def test_topics_put_the_sender_first_and_everybody_is_all_ones() -> None:
    assert topic(3) == b"\0\0\0\x03\xff\xff\xff\xff"
    assert topic(3, 1) == b"\0\0\0\x03\0\0\0\x01"
    assert own_name(5) == b"\xff\xff\xff\xff\0\0\0\x05"


def test_a_good_release_is_taken_once_and_then_is_a_repeat() -> None:
    ear = receiver()
    parts = encode(RUN, release(2))
    taken = take(ear, parts)
    assert isinstance(taken, Release)
    assert taken.vector.tobytes() == parts[2]
    assert take(ear, parts) is None
    assert (ear.received, ear.repeats, dict(ear.dropped)) == (1, 1, {})


def test_gaps_are_counted_and_can_be_filled_late() -> None:
    ear = receiver()
    for index in (0, 3):
        take(ear, encode(RUN, release(index)))
    assert ear.missing(3, 4) == (1, 2, 4)
    assert ear.missing(3, 4, skipped=(2,)) == (1, 4)
    take(ear, encode(RUN, release(1)))
    assert (ear.missing(3, 3), ear.late, ear.newest(3)) == ((2,), 1, 3)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((topic(3), header()), "parts"),
        ((topic(3), header(), b"", b""), "parts"),
        ((topic(9), header(), b""), "sender"),
        ((topic(2), header(), bytes(32)), "sender"),
        ((topic(3, 1), header(), bytes(32)), "sender"),
        ((topic(3), b"", bytes(32)), "header unreadable"),
        ((topic(3), b"\xc1", bytes(32)), "header unreadable"),
        ((topic(3), msgpack.packb([1, 2]), bytes(32)), "header unreadable"),
        ((topic(3), b"\x91" * 5000, bytes(32)), "header unreadable"),
        ((topic(3), b"\xdd\xff\xff\xff\xff", bytes(32)), "header unreadable"),
        ((topic(3), bytes(wire.HEADER_LIMIT + 1), bytes(32)), "header too long"),
        ((topic(3), header(v=2), bytes(32)), "version"),
        ((topic(3), header(run=bytes(16)), bytes(32)), "run"),
        ((topic(3), header(run="x"), bytes(32)), "header fields"),
        ((topic(3), header(index=-1), bytes(32)), "header fields"),
        ((topic(3), header(index=True), bytes(32)), "header fields"),
        ((topic(3), header(index="absent"), bytes(32)), "header fields"),
        ((topic(3), header(extra=1), bytes(32)), "header fields"),
        ((topic(3), header(kind="goodbye"), bytes(32)), "header fields"),
        ((topic(3), header(kind=None), bytes(32)), "header fields"),
        ((topic(3), header(used=[1]), bytes(32)), "header fields"),
        ((topic(3), header(**{"from": 1 << 40}), bytes(32)), "header fields"),
        ((topic(3), header(index=10), bytes(32)), "index"),
        ((topic(3), header(index=1 << 62), bytes(32)), "index"),
        ((topic(3), header(), bytes(31)), "length"),
        ((topic(3), header(), bytes(40)), "length"),
        ((topic(3), header(), np.array([0, np.nan, 0, 0]).tobytes()), "not finite"),
        ((topic(3), header(), np.array([0, 0, -np.inf, 0]).tobytes()), "not finite"),
    ],
)
def test_what_fails_a_check_is_dropped_and_counted(parts: tuple[bytes, ...], reason: str) -> None:
    ear = receiver()
    assert take(ear, parts) is None
    assert dict(ear.dropped) == {reason: 1}
    assert isinstance(take(ear, encode(RUN, release())), Release), "a good frame after a bad one is still taken"


def test_huge_but_finite_values_are_taken() -> None:
    assert isinstance(take(receiver(), encode(RUN, release(vector=np.full(4, 1e300)))), Release)


numbers = st.floats(-8.0, 8.0) | st.floats() | st.sampled_from([4.0, -4.0, np.nextafter(4.0, 5.0), 2.0**0.5, 1e200])


@given(st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=6), st.sampled_from([4.0, 1e300]))
def test_of_frames_that_came_together_each_is_judged_by_its_own_numbers(rows: list[list[float]], most: float) -> None:
    ear = Receiver(RUN, 1, [2, 3], dimension=4, releases=10, largest=most)
    releases, _ = ear.take([encode(RUN, release(k, vector=np.array(row))) for k, row in enumerate(rows)])
    good = [k for k, row in enumerate(rows) if all(abs(number) <= most for number in row)]
    assert [r.index for r in releases] == good
    assert ear.dropped.total() == len(rows) - len(good)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
headers = st.one_of(
    st.binary(max_size=200),
    values.map(msgpack.packb),
    st.fixed_dictionaries({}, optional=dict.fromkeys(sorted(wire.RELEASE_KEYS | wire.DONE_KEYS), values)).map(
        lambda changes: header(**changes)
    ),
)


@pytest.mark.thorough
@given(
    st.lists(st.binary(max_size=64), max_size=5)
    | st.tuples(st.sampled_from([topic(3), topic(3, 1), topic(2)]), headers, st.binary(max_size=48))
)
@settings(max_examples=300, deadline=None)
def test_no_input_raises_and_nothing_is_taken_that_is_not_a_message_of_this_run(parts: list[bytes]) -> None:
    ear = receiver()
    message = take(ear, parts)
    if message is None:
        assert sum(ear.dropped.values()) == 1
        return
    fields = decode_header(parts[1])
    assert parts[0] == topic(fields["from"], fields["to"])
    assert fields["run"] == RUN
    assert fields.keys() == wire.KEYS[fields["kind"]] or (fields["kind"], fields.keys()) == ("hello", wire.HELLO_KEYS)
    if isinstance(message, Release):
        assert len(parts[2]) == 32
        assert np.isfinite(message.vector).all()
        assert 0 <= message.index < 10


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_a_log_reader_meets_garbage_with_a_reason(garbage: bytes) -> None:
    with pytest.raises(Refused):
        decode((topic(3), garbage, b""))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_one_changed_byte_never_raises(data: st.DataObject) -> None:
    parts = [bytearray(part) for part in encode(RUN, release(round=3))]
    part = data.draw(st.integers(0, 2))
    place = data.draw(st.integers(0, len(parts[part]) - 1))
    parts[part][place] ^= data.draw(st.integers(1, 255))
    take(receiver(), [bytes(p) for p in parts])
