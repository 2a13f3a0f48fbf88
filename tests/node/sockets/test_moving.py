"""Agents that come back at another endpoint are received there, and no longer at the old one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from node.sockets import agent_sockets
from node.sockets.agent_sockets import FileEndpoints, Post
from node.sockets.ear import Ear
from node.wire import own_name


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_sockets, "WATCH_SECONDS", 0.0)


@pytest.fixture
def posts() -> Iterator[dict[int, Post]]:
    """Agent 0 receives from agents 1 and 2; agent 3 stands for agent 1 at its new endpoint."""
    made = {agent: Post(agent, expected=[own_name(0)], dimension=1) for agent in range(4)}
    yield made
    for post in made.values():
        post.close()


def bound(post: Post) -> str:
    return post.bind("tcp://127.0.0.1:*")


def listened_to(*posts: Post) -> None:
    for post in posts:
        while not post.notice_listeners():
            post.wait(1.0)


def forgotten(post: Post, receiver: Post) -> None:
    while post.listeners:
        receiver.drain(1)  # ZeroMQ hangs up in calls of the receiver
        post.wait(0.02)
        post.notice_listeners()


def test_an_endpoint_that_was_published_again_is_told_once(tmp_path: Path) -> None:
    written, read = FileEndpoints(tmp_path), FileEndpoints(tmp_path)
    written.publish(1, "tcp://10.0.0.1:700")
    written.publish(2, "tcp://10.0.0.1:701")
    assert read.lookup(1) == "tcp://10.0.0.1:700"
    assert read.moved() is None
    written.publish(1, "tcp://10.0.0.9:700")
    written.publish(2, "tcp://10.0.0.9:701")  # which nothing looked up
    assert read.moved() == (1, "tcp://10.0.0.9:700")
    assert read.moved() is None
    (tmp_path / "agent-0001").unlink()
    assert read.moved() is None


def test_a_folder_that_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoints = FileEndpoints(tmp_path)
    endpoints.publish(1, "tcp://10.0.0.1:700")
    endpoints.lookup(1)
    for _ in range(2):
        endpoints.moved()
    monkeypatch.setattr(FileEndpoints, "_read", lambda *_: pytest.fail("read"))
    assert endpoints.moved() is None


def test_a_folder_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    endpoints = FileEndpoints(tmp_path / "endpoints")
    assert endpoints.moved() is None


def test_an_agent_follows_a_neighbour_and_leaves_its_old_endpoint(posts: dict[int, Post]) -> None:
    old, new = bound(posts[1]), bound(posts[3])
    posts[0].follow(1, new)  # it was not connected, so it is none of agent 0's business
    posts[0].connect(old, 1)
    listened_to(posts[1])
    posts[0].follow(1, new)
    listened_to(posts[3])
    forgotten(posts[1], posts[0])


def test_two_neighbours_that_exchange_their_endpoints_are_both_received(posts: dict[int, Post]) -> None:
    first, second = bound(posts[1]), bound(posts[2])
    posts[0].connect(first, 1)
    posts[0].connect(second, 2)
    listened_to(posts[1], posts[2])
    posts[0].follow(1, second)
    posts[0].follow(2, first)
    received: set[bytes] = set()
    while received != {b"1", b"2"}:
        for sender in (1, 2):
            posts[sender].send((b"new", b"%d" % sender, b""))  # the first ones may come before the connection
        posts[0].wait(0.02)
        received |= {parts[1] for parts in posts[0].drain(8)}


def test_the_eavesdropper_counts_a_moved_agent_as_one_connection(posts: dict[int, Post]) -> None:
    ear = Ear(None, 1000)
    try:
        ear.connect(bound(posts[1]), 1)
        listened_to_by(ear, 1)
        ear.connect(bound(posts[3]), 1)
        listened_to_by(ear, 2)
        assert ear.connected == 1
    finally:
        ear.close()


def listened_to_by(ear: Ear, endpoints: int) -> None:
    """Wait until the eavesdropper has been connected to so many endpoints."""
    while len(ear.met) < endpoints:
        ear._monitor.poll(1000, zmq.POLLIN)
        ear.notice()
