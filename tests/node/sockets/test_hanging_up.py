"""Hanging up: what was said goes out first, and nobody waits for who has hung up already."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from node.sockets.agent_sockets import Post
from node.wire import Parts, own_name
from tests.helpers.places import ROOT

PATIENCE = 300.0
"""Seconds after which a `close` that may linger for ten times as long hangs; a busy machine needs some of them."""
PARTS: Parts = (b"topic", b"header", bytes(800))


@pytest.fixture
def busy_processor() -> Iterator[int]:
    """A processor of this machine on which somebody else is always at work."""
    processor = min(os.sched_getaffinity(0))
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(worker.pid, {processor})
        yield processor
    finally:
        worker.kill()
        worker.wait()


def connected(
    folder: Path, processor: int | None = None
) -> tuple[Post, zmq.Context[zmq.Socket[bytes]], zmq.Socket[bytes]]:
    """A sender and its listener. The ZeroMQ threads of the sender get only what is left of ``processor``."""
    before = threads()
    post = Post(0, expected=[own_name(1)], dimension=100)
    endpoint = post.bind(f"ipc://{folder}/0")
    speakers = threads() - before
    context = zmq.Context()
    ear = context.socket(zmq.SUB)
    for subscription in (own_name(1), b""):
        ear.subscribe(subscription)
    ear.connect(endpoint)
    while own_name(1) not in post.listeners:
        post.wait(1.0)
        post.notice_listeners()
    if processor is not None:
        for thread in speakers:
            os.sched_setaffinity(thread, {processor})
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    return post, context, ear


def threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208 - procfs, names only


def hang_up_on_who_has_hung_up(folder: Path, processor: int) -> None:
    """Twelve times; a process of its own, so that it is seen to end."""
    for trial in range(12):
        place = folder / str(trial)
        place.mkdir()
        post, context, ear = connected(place, processor)
        ear.close(0)
        context.term()
        for _ in range(5):
            post.send(PARTS)
        post.close(10 * PATIENCE)


def test_all_that_was_said_is_heard_by_who_reads_it_late(tmp_path: Path) -> None:
    post, context, ear = connected(tmp_path)
    for _ in range(5000):
        post.send(PARTS)
    closing = threading.Thread(target=post.close, args=(10 * PATIENCE,))
    closing.start()
    heard = 0
    while heard < 5000 and ear.poll(1000 * PATIENCE):
        assert ear.recv_multipart() == list(PARTS)
        heard += 1
    closing.join(PATIENCE)
    assert heard == 5000
    assert not closing.is_alive()
    ear.close(0)
    context.term()


def test_who_hung_up_in_the_same_moment_is_not_waited_for(tmp_path: Path, busy_processor: int) -> None:
    """The I/O thread gets no turn between the two, so that it learns of both at once: of twelve times about six."""
    call = f"from {__name__} import *; hang_up_on_who_has_hung_up(Path({str(tmp_path)!r}), {busy_processor})"
    subprocess.run([sys.executable, "-c", call], cwd=ROOT, timeout=PATIENCE, check=True)


def test_a_listener_that_disconnects_does_not_end_every_wait_of_its_neighbour(tmp_path: Path) -> None:
    post, context, ear = connected(tmp_path)
    try:
        post.settled = True
        ear.close(0)
        context.term()
        waits = 0
        while own_name(1) in post.listeners:  # without being asked: a wait takes note of it
            post.wait(0.2)
            waits += 1
            assert waits < 1000
        assert not post.notice_listeners(), "nothing is left that would end the next wait"
    finally:
        post.close()
