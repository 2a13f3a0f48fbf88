"""Hostile frames over real sockets: they are dropped and counted, and they stop nobody else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq

from coordinator_free.release import Release
from node.folder.keys import Keys, make_keys, read_keys
from node.hello import Hello
from node.places import agent_folder
from node.sockets.agent_sockets import MOST_PARTS, Post
from node.wire import HEADER_LIMIT, Receiver, encode, own_name, topic
from tests.helpers.places import ROOT

RUN = bytes(range(16))
ME, LIAR, HONEST = 1, 2, 3
RELEASES, DIMENSION = 60, 4
FLOOD = """
import sys, zmq
topic, header, body, ours, secret = (bytes.fromhex(word) for word in sys.argv[1:6])
context = zmq.Context()
speaker = context.socket(zmq.XPUB)
if ours:
    speaker.curve_server, speaker.curve_publickey, speaker.curve_secretkey = True, ours, secret
port = speaker.bind_to_random_port("tcp://127.0.0.1")
print(port, flush=True)
while True:
    speaker.send_multipart([topic, header, body])
"""


def release(sender: int, index: int) -> Release:
    return Release(sender=sender, index=index, vector=np.arange(4.0), used=())


def until(condition: Callable[[], bool], post: Post) -> None:
    """Let the post work until a condition holds; the bound is only for a test that fails."""
    for _ in range(20_000):
        if condition():
            return
        post.wait(0.01)
    raise AssertionError("it never came to that")


@pytest.fixture
def keys(tmp_path: Path) -> Callable[[int], Keys]:
    for agent in (ME, LIAR, HONEST):
        agent_folder(tmp_path, agent).mkdir(parents=True)
    make_keys(tmp_path, [ME, LIAR, HONEST])
    return lambda agent: read_keys(tmp_path, agent, {ME, LIAR, HONEST} - {agent})


@pytest.fixture
def liar() -> Iterator[zmq.Socket[bytes]]:
    """A publisher that says what it wants; `ME` is the only one who listens."""
    context = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.linger = 0
    socket.sndhwm = 0
    yield socket
    socket.close()
    context.term()


def hostile(count: int) -> list[list[bytes]]:
    """Frames of which none may be taken, each in a way of its own."""
    draw = random.Random(7)
    good = list(encode(RUN, release(LIAR, 5)))
    fields = msgpack.unpackb(good[1])
    fixed = [
        [b""],
        [good[0]],
        good[:2],
        [*good, b""],
        good * 1000,
        [bytes(HEADER_LIMIT), *good[1:]],
        [good[0], bytes(HEADER_LIMIT), good[2]],
        [good[0], b"\x91" * 100_000, good[2]],
        [good[0], b"\xdd\xff\xff\xff\xff", good[2]],
        [good[0], good[1], bytes(8 * DIMENSION + 8)],
        [good[0], good[1], b""],
        [good[0], good[1], np.full(DIMENSION, np.nan).tobytes()],
        list(encode(bytes(16), release(LIAR, 5))),
        list(encode(RUN, release(LIAR, RELEASES))),
        list(encode(RUN, release(LIAR, 1 << 62))),
        list(encode(RUN, Release(LIAR, 5, np.arange(4.0), (), None, HONEST))),
        [topic(LIAR, HONEST), *good[1:]],
        [good[0], msgpack.packb(fields | {"v": True}), good[2]],
        [good[0], msgpack.packb(fields | {"used": [1.5, -1]}), good[2]],
    ]
    noise = [[draw.randbytes(draw.choice((0, 1, 8, 300))) for _ in range(draw.randrange(1, 7))] for _ in range(count)]
    return fixed + noise


def test_hostile_frames_over_a_socket_are_dropped_and_the_good_one_after_them_is_heard(
    liar: zmq.Socket[bytes],
) -> None:
    port = liar.bind_to_random_port("tcp://127.0.0.1")
    post = Post(ME, expected=(), dimension=DIMENSION)
    try:
        post.connect(f"tcp://127.0.0.1:{port}", LIAR)
        while liar.recv() != b"\x01" + b"":
            pass  # its subscription to everything is the last
        frames = hostile(500)
        for frame in frames:
            liar.send_multipart(frame)
        for _ in range(2):
            liar.send_multipart(list(encode(RUN, release(LIAR, 5))))
        liar.send_multipart(list(encode(RUN, Hello(LIAR, bytes(32)))))
        receiver = Receiver(RUN, ME, (LIAR, HONEST), DIMENSION, RELEASES)
        heard: list[object] = []

        def hello_was_heard() -> bool:
            arrived = post.drain(64)
            assert all(len(frame) <= MOST_PARTS for frame in arrived)
            releases, others = receiver.take(arrived)
            heard.extend(("release", one.index) for one in releases)
            heard.extend("hello" for _ in others)
            return "hello" in heard

        until(hello_was_heard, post)
        assert heard == [("release", 5), "hello"]
        assert receiver.repeats == 1
        assert sum(receiver.dropped.values()) == len(frames)
        assert {"parts", "header unreadable", "length", "not finite", "run", "index", "sender"} <= set(receiver.dropped)
    finally:
        post.close()


def test_an_active_neighbour_ends_no_agent_and_changes_no_charge() -> None:
    # The long form is benchmarks/fuzz/neighbour.py with its default of a million messages.
    program = ROOT / "benchmarks" / "fuzz" / "neighbour.py"
    done = subprocess.run(
        [sys.executable, program, "--messages", "10000", "--seed", "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["messages"] == 10_000
    assert all(case["releases"] for case in report["cases"])
    assert {"too large", "not finite", "round", "index"} <= {why for case in report["cases"] for why in case["dropped"]}


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.processes
def test_a_neighbour_that_floods_stops_nobody_else(keys: Callable[[int], Keys], encrypted: bool) -> None:
    own = keys(LIAR) if encrypted else None
    words = [part.hex() for part in encode(RUN, release(LIAR, 0))]
    words += [own.public.hex(), own.private.hex()] if own else ["", ""]
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, *words], stdout=subprocess.PIPE, text=True)
    honest = Post(HONEST, expected=[own_name(ME)], dimension=DIMENSION, keys=keys(HONEST) if encrypted else None)
    post = Post(ME, expected=(), dimension=DIMENSION, keys=keys(ME) if encrypted else None)
    try:
        assert flood.stdout is not None
        post.connect(f"tcp://127.0.0.1:{int(flood.stdout.readline())}", LIAR)
        post.connect(honest.bind("tcp://127.0.0.1:0"), HONEST)
        receiver = Receiver(RUN, ME, (LIAR, HONEST), DIMENSION, RELEASES)
        heard: list[int] = []
        flooded = 0

        def drain() -> None:
            nonlocal flooded
            honest.notice_listeners()
            frames = post.drain(128)
            flooded += sum(frame[0] == topic(LIAR) for frame in frames)
            heard.extend(one.index for one in receiver.take(frames)[0] if one.sender == HONEST)

        def the_flood_is_on() -> bool:
            drain()
            return own_name(ME) in honest.listeners and flooded > 10_000

        until(the_flood_is_on, post)
        for index in range(RELEASES):
            honest.send(encode(RUN, release(HONEST, index)))
        before = flooded

        def all_were_heard() -> bool:
            drain()
            return len(heard) == RELEASES

        until(all_were_heard, post)
        assert heard == list(range(RELEASES))

        def the_flood_goes_on() -> bool:
            drain()
            return flooded > before

        until(the_flood_goes_on, post)
        assert receiver.missing(HONEST, RELEASES - 1) == ()
    finally:
        post.close()
        honest.close()
        flood.kill()
        flood.communicate()
