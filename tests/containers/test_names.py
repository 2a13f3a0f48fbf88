"""Addresses as people write them, and names that move."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.sockets import names
from node.sockets.names import AddressError, NamedEndpoints, endpoint, neighbours_of


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("alpha:7700", "tcp://alpha:7700"),
        ("10.0.0.1:1", "tcp://10.0.0.1:1"),
        ("[::1]:7700", "tcp://[::1]:7700"),
        ("[fe80::1%eth0]:7700", "tcp://[fe80::1%eth0]:7700"),
        ("tcp://agent-3:0", "tcp://agent-3:0"),
        ("ipc:///tmp/x", "ipc:///tmp/x"),
    ],
)
def test_addresses(written: str, meant: str) -> None:
    assert endpoint(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "alpha",
        ":7700",
        "alpha:",
        "alpha:x",
        "alpha:65536",
        "alpha:-1",
        "::1:7700",
        "[::g]:1",
        "udp://a:1",
        "ipc://",
        "a:²",
    ],
)
def test_what_is_no_address_is_named(written: str) -> None:
    with pytest.raises(AddressError, match=r"accepted|brackets|no IPv6|needs a path") as error:
        endpoint(written)
    assert repr(written) in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text())
def test_any_text_is_an_address_or_one_error(written: str) -> None:
    with contextlib.suppress(AddressError):
        assert endpoint(written).partition("://")[0] in {"tcp", "ipc"}


def test_neighbours_by_number_and_by_pattern() -> None:
    given_ = ["1=alpha:1,3=[::1]:3", "host-{}:7700"]
    assert neighbours_of(given_, [1, 3, 12]) == {1: "tcp://alpha:1", 3: "tcp://[::1]:3", 12: "tcp://host-12:7700"}
    assert neighbours_of([], []) == {}


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (["1=a:1"], "no address of agent 2; neighbours: 1, 2"),
        (["1=a:1,2=b:2,7=c:3"], "agent 7 is no neighbour"),
        (["alpha:7700"], "accepted are NUMBER=HOST:PORT"),
        (["x=alpha:7700"], "accepted are NUMBER=HOST:PORT"),
    ],
)
def test_neighbours_that_do_not_fit_are_named(given_: list[str], words: str) -> None:
    with pytest.raises(AddressError, match=words):
        neighbours_of(given_, [1, 2])


class Names:
    """A name server that can be told what to say, and tells when it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str] | None] = {}
        self.asked = threading.Semaphore(0)
        self.known: list[NamedEndpoints] = []

    def endpoints(self, written: dict[int, str]) -> NamedEndpoints:
        self.known.append(NamedEndpoints(written))
        return self.known[-1]

    def getaddrinfo(self, host: str, *_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        self.asked.release()
        found = self.answers.get(host)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in a else socket.AF_INET, 1, 6, "", (a, 0)) for a in found]

    def settle(self) -> None:
        """After two more questions the answer to the first was taken in."""
        for _ in range(3):
            assert self.asked.acquire(timeout=600)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    fake = Names()
    monkeypatch.setattr(names.socket, "getaddrinfo", fake.getaddrinfo)
    monkeypatch.setattr(names, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(names, "WATCH_SECONDS", 0.01)
    yield fake
    for known in fake.known:
        known.close()
    left = [thread for thread in threading.enumerate() if thread.name.startswith("names ")]
    for thread in left:
        thread.join(600)
        assert not thread.is_alive()


def test_a_name_is_known_once_it_resolves_and_followed_where_it_moves(server: Names) -> None:
    known = server.endpoints({4: "tcp://alpha:7700"})
    server.settle()
    assert known.lookup(4) is None
    assert known.problem(4) == "the name of agent 4, alpha, does not resolve (Name or service not known)"
    server.answers["alpha"] = ["10.0.0.1"]
    server.settle()
    server.settle()
    assert known.lookup(4) == "tcp://10.0.0.1:7700"
    assert known.moved() is None
    server.answers["alpha"] = None
    server.settle()
    assert known.lookup(4) == "tcp://10.0.0.1:7700", "one that is gone keeps its last address"
    server.answers["alpha"] = ["10.0.0.2"]
    server.settle()
    server.settle()
    assert known.moved() == (4, "tcp://10.0.0.2:7700")
    assert known.moved() is None


def test_ipv4_goes_before_ipv6_and_addresses_are_not_looked_up(server: Names) -> None:
    server.answers = {"both": ["2001:db8::1", "10.0.0.1"], "six": ["2001:db8::1"]}
    known = server.endpoints({0: "tcp://both:1", 1: "tcp://six:2", 2: "tcp://[::1]:3", 3: "tcp://10.0.0.9:4"})
    assert known.lookup(2) == "tcp://[::1]:3"
    assert known.lookup(3) == "tcp://10.0.0.9:4"
    for _ in range(4):
        server.settle()
    assert known.lookup(0) == "tcp://10.0.0.1:1"
    assert known.lookup(1) == "tcp://[2001:db8::1]:2"
    assert known.problem(9) == "no endpoint of agent 9"


def test_a_thousand_names_take_a_few_threads_and_one_host_one_question(server: Names) -> None:
    server.answers = {f"host-{k}": [f"10.0.{k // 250}.{k % 250}"] for k in range(1000)} | {"all": ["10.1.0.1"]}
    before = threading.active_count()
    known = server.endpoints({k: f"tcp://host-{k}:7700" for k in range(1000)})
    assert threading.active_count() <= before + 8
    for _ in range(1000):
        assert server.asked.acquire(timeout=600)
    known.close()
    together = server.endpoints({k: f"tcp://all:{7000 + k}" for k in range(100)})
    assert threading.active_count() <= before + 9
    while together.lookup(99) is None:
        assert server.asked.acquire(timeout=600)
    assert [together.lookup(k) for k in (0, 99)] == ["tcp://10.1.0.1:7000", "tcp://10.1.0.1:7099"]


def test_a_name_server_that_does_not_answer_for_some_keeps_no_other_name_waiting(
    server: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, real = threading.Event(), server.getaddrinfo

    def slow(host: str, *given: object, **named: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if host.startswith("slow"):
            assert release.wait(600)
        return real(host, *given, **named)

    monkeypatch.setattr(names.socket, "getaddrinfo", slow)
    server.answers = {f"slow-{k}": ["10.0.0.9"] for k in range(7)} | {"quick": ["10.0.0.1"]}
    known = server.endpoints({k: f"tcp://slow-{k}:1" for k in range(7)} | {7: "tcp://quick:2"})
    server.settle()
    assert known.lookup(7) == "tcp://10.0.0.1:2"
    assert known.lookup(0) is None
    release.set()
