"""Hostile frames: does anything raise, does anything pass that should not, does memory grow?

    python benchmarks/fuzz/frames.py [--frames 10000000] [--seed 1]

A seeded generator mutates good frames where their structure is: parts, topics, header fields and their types, msgpack
lengths and nesting, bytes, bodies, repeats, other runs, indices out of the window. Each batch is given to a `Receiver`
and to an oracle (`wire.decode`, then neighbour, recipient, length, window, repeats, finite values); what they accept
must be the same, in order. Prints one JSON document; exit status 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgpack
import numpy as np

from coordinator_free.release import Release
from node.hello import Hello, Receipt
from node.wire import Done, Message, Receiver, Refused, decode, encode, topic

RUN, OTHER_RUN = bytes(range(16)), bytes(16)
ME, NEIGHBOURS, STRANGER = 1, (2, 3), 9
DIMENSION, RELEASES = 4, 200
FRESH: Final = 2000
"""Frames after which the receiver is a new one, so that its window is never all seen."""
GROWTH_MB: Final = 5.0

Frame = list[bytes]
_EXTREMES = (0, 1, -1, 127, 128, 255, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1, -(2**63))
_VALUES: tuple[Any, ...] = (
    *_EXTREMES,
    None,
    True,
    False,
    1.0,
    float("nan"),
    "",
    "release",
    b"",
    bytes(16),
    [],
    [1],
    {},
)
_KEYS = ("v", "run", "from", "to", "kind", "index", "round", "used", "digest", "last", "skipped", "heard", "extra", "")
_KEYS += ("receipt", "asks", "echoes")
_LENGTHS = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\x7f\xff\xff\xff", b"\xc1")


def good(draw: random.Random) -> Frame:
    """A frame that a neighbour could have sent."""
    sender, kind = draw.choice(NEIGHBOURS), draw.random()
    if kind < 0.1:
        receipt = Receipt(draw.randrange(9), draw.randrange(99), draw.randbytes(16)) if kind < 0.05 else None
        echoes = ((ME, Receipt(draw.randrange(9), draw.randrange(99), draw.randbytes(16))),) * draw.randrange(3)
        return list(encode(RUN, Hello(sender, draw.randbytes(32), receipt, draw.random() < 0.5, echoes)))
    if kind < 0.2:
        return list(encode(RUN, Done(sender, draw.randrange(-1, RELEASES), (1, 2), (ME,))))
    vector = np.frombuffer(struct.pack(f"<{DIMENSION}d", *(draw.gauss(0, 1) for _ in range(DIMENSION))))
    number = draw.choice((None, draw.randrange(RELEASES)))
    used = tuple((j, draw.randrange(RELEASES)) for j in range(draw.randrange(4)))
    to = draw.choice((None, None, ME))
    return list(encode(RUN, Release(sender, draw.randrange(RELEASES), vector, used, number, to)))


def flip(frame: Frame, draw: random.Random) -> Frame:
    place = draw.randrange(len(frame))
    part = bytearray(frame[place])
    for _ in range(draw.choice((1, 1, 2, 8))):
        if part:
            part[draw.randrange(len(part))] ^= 1 << draw.randrange(8)
    return [*frame[:place], bytes(part), *frame[place + 1 :]]


def cut(frame: Frame, draw: random.Random) -> Frame:
    place = draw.randrange(len(frame))
    part = frame[place][: draw.randrange(len(frame[place]) + 1)]
    return [*frame[:place], part + draw.randbytes(draw.choice((0, 0, 1, 8))), *frame[place + 1 :]]


def parts(frame: Frame, draw: random.Random) -> Frame:
    shuffled = frame * draw.choice((1, 1, 2, 50))
    draw.shuffle(shuffled)
    return shuffled[: draw.randrange(1, len(shuffled) + 1)]


def field(frame: Frame, draw: random.Random) -> Frame:
    fields = msgpack.unpackb(frame[1])
    key = draw.choice(_KEYS)
    if draw.random() < 0.2:
        fields.pop(key, None)
    elif draw.random() < 0.2:
        items = list(fields.items())
        draw.shuffle(items)
        fields = dict(items)
    elif key == "used":
        fields[key] = [draw.choice(_VALUES) for _ in range(draw.randrange(5))]
    else:
        fields[key] = draw.choice(_VALUES)
    sender, to = fields.get("from"), fields.get("to")
    begins = frame[0]
    if draw.random() < 0.5 and all(type(n) is int and 0 <= n < 2**32 for n in (sender, 0 if to is None else to)):
        begins = topic(sender, to)
    return [begins, msgpack.packb(fields), frame[2]]


def deep(frame: Frame, draw: random.Random) -> Frame:
    nest = b"\x91" * draw.choice((10, 1000, 5000)) + b"\xc0"
    header = draw.choice((nest, frame[1][:-1] + nest, frame[1][:-1] + draw.choice(_LENGTHS), draw.choice(_LENGTHS)))
    return [frame[0], header, frame[2]]


def elsewhere(frame: Frame, draw: random.Random) -> Frame:
    """A good frame of another run, another sender, or to somebody else, in topic and header."""
    message = decode(frame)
    if draw.random() < 0.3:
        return list(encode(OTHER_RUN, message))
    fields = msgpack.unpackb(frame[1])
    fields["from"] = draw.choice((*NEIGHBOURS, STRANGER, ME))
    fields["to"] = draw.choice((None, ME, STRANGER, 2))
    return [topic(fields["from"], fields["to"]), msgpack.packb(fields), frame[2]]


def body(frame: Frame, draw: random.Random) -> Frame:
    values = [
        draw.choice((0.0, -0.0, 5e-324, 1e308, float("nan"), float("inf"), -float("inf"))) for _ in range(DIMENSION)
    ]
    packed = struct.pack(f"<{DIMENSION}d", *values)
    return [frame[0], frame[1], packed * draw.choice((1, 1, 1, 0, 2, 100))]


def noise(_: Frame, draw: random.Random) -> Frame:
    return [draw.randbytes(draw.choice((0, 1, 8, 40))) for _ in range(draw.randrange(1, 5))]


MUTATIONS: tuple[Callable[[Frame, random.Random], Frame], ...] = (flip, cut, parts, field, deep, elsewhere, body, noise)


class Frames:
    """Good frames, mutated ones, and repeats of what came before."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._before: list[Frame] = [good(self._draw)]

    def batch(self) -> list[Frame]:
        return [self._next() for _ in range(self._draw.randrange(1, 33))]

    def _next(self) -> Frame:
        draw = self._draw
        kind = draw.random()
        if kind < 0.05:
            return draw.choice(self._before)
        frame = good(draw)
        if kind < 0.9:
            frame = draw.choice(MUTATIONS)(frame, draw)
        if len(self._before) < 100:
            self._before.append(frame)
        else:
            self._before[draw.randrange(100)] = frame
        return frame


class Oracle:
    """What may be accepted, said another way than `Receiver` does."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def accepts(self, frames: list[Frame]) -> tuple[list[Message], list[Message]]:
        releases: list[Message] = []
        others: list[Message] = []
        spoilt: set[tuple[int, int]] = set()
        for frame in frames:
            try:
                message = decode(frame, RUN)
            except Refused:
                continue
            to = struct.unpack(">I", frame[0][4:])[0]
            if message.sender not in NEIGHBOURS or to not in (2**32 - 1, ME):
                continue
            if not isinstance(message, Release):
                others.append(message)
                continue
            key = (message.sender, message.index)
            if len(message.vector) != DIMENSION or message.index >= RELEASES or key in self._seen:
                continue
            self._seen.add(key)
            if np.isfinite(message.vector).all():
                releases.append(message)
            else:
                spoilt.add(key)  # holds its index until the batch is over
        self._seen -= spoilt
        return releases, others


def fingerprint(messages: list[Any]) -> list[Any]:
    return [
        (m.sender, m.index, m.round, m.recipient, m.vector.tobytes()) if isinstance(m, Release) else m for m in messages
    ]


def megabytes() -> float:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - procfs
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    frames = Frames(options.seed)
    given = accepted = exceptions = differences = 0
    examples: list[str] = []
    dropped: Counter[str] = Counter()
    taking = 0.0
    settled: float | None = None
    began = time.monotonic()
    while given < options.frames:
        receiver, oracle = Receiver(RUN, ME, NEIGHBOURS, DIMENSION, RELEASES), Oracle()
        until = min(given + FRESH, options.frames)
        while given < until:
            batch = frames.batch()
            given += len(batch)
            wanted = tuple(map(fingerprint, oracle.accepts(batch)))
            start = time.perf_counter()
            try:
                taken = receiver.take(batch)
            except Exception as error:  # what this program looks for
                exceptions += 1
                examples.append(f"{error!r}: {batch}")
                break
            taking += time.perf_counter() - start
            if tuple(map(fingerprint, taken)) != wanted:
                differences += 1
                examples.append(f"receiver and oracle differ: {batch}")
                break
            accepted += len(wanted[0]) + len(wanted[1])
        dropped += receiver.dropped
        dropped["repeat"] += receiver.repeats
        if settled is None and given >= options.frames // 20:
            settled = megabytes()
    growth = megabytes() - (settled or 0.0)
    seconds = time.monotonic() - began
    report = {
        "frames": given,
        "seed": options.seed,
        "exceptions": exceptions,
        "differences": differences,
        "accepted": accepted,
        "dropped": dict(dropped.most_common()),
        "memory_growth_mb": round(growth, 2),
        "seconds": round(seconds, 1),
        "frames_per_s": round(given / seconds),
        "receiver_frames_per_s": round(given / taking) if taking else None,
        "examples": examples[:3],
    }
    print(json.dumps(report, indent=1))
    return int(bool(exceptions or differences or growth > GROWTH_MB))


if __name__ == "__main__":
    sys.exit(main())
