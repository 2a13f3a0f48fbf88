"""The sockets of one agent: one XPUB to send, one SUB to receive from its neighbours, and how agents find each other.

Rules that hold here:
- A publisher knows its listeners: every subscriber also subscribes to its own name (`node.wire.own_name`).
- An agent connects to a neighbour only once its endpoint is published: connections to nothing would be tried for long.
- What is waiting to be sent is bounded by the agent's own clock, what is waiting to be read by a finite queue.
- No frame above the limit is ever held in memory.
- With keys every neighbour has a SUB of its own, because a SUB does not tell by which connection a message came; what
  comes by a neighbour's connection and names another sender is dropped and counted.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import zmq

from node.folder.keys import Keys
from node.folder.whole import write_whole
from node.sockets.admission import Admission, guard
from node.sockets.receiving import configure, drain, heartbeats
from node.wire import HEADER_LIMIT, Parts, own_name, topic

IPC_PATH_LIMIT = 107
"""Bytes that the path of a unix socket may have on Linux."""
RECEIVE_QUEUE = 2000
"""Messages of one neighbour that may wait to be read; more are lost, and counted as gaps."""

WATCH_SECONDS = 2.0
"""Between two looks whether an agent has moved to another endpoint."""
LOOK = 0.5
"""Seconds between two looks of an agent that hangs up at its open connections: a thousand may hang up together."""
MOST_PARTS = 4
"""Parts of one message that are kept: one more than any good message has."""

_DONTWAIT, _MORE = int(zmq.DONTWAIT), int(zmq.SNDMORE)
_send = zmq.backend.Socket.send


class TransportError(ValueError):
    """An endpoint that cannot be used; one line."""


class Endpoints(Protocol):
    """Where agents can be connected to."""

    def lookup(self, agent: int) -> str | None:
        """The endpoint of an agent, None if it is not known yet."""

    def moved(self) -> tuple[int, str] | None:
        """An agent and its endpoint where it is not what `lookup` gave; each change once, None if there is none."""


class FixedEndpoints:
    """Endpoints known beforehand: service names, hosts."""

    def __init__(self, endpoints: Mapping[int, str]) -> None:
        self._endpoints = dict(endpoints)

    def lookup(self, agent: int) -> str | None:
        """Return the endpoint, None where none was given."""
        return self._endpoints.get(agent)

    def moved(self) -> None:
        """Return None: no endpoint changes."""


class FileEndpoints:
    """Endpoints published as one small file per agent in a folder that all can read.

    An agent of another host may come back at another endpoint (`node.worlds.exchange`). The folder's time tells that a
    file has changed, so that nothing else is read while none has.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given: dict[int, str] = {}
        self._moved: deque[tuple[int, str]] = deque()
        self._look_at = 0.0
        self._changed_ns = -1
        self._unsure = True

    def lookup(self, agent: int) -> str | None:
        """Return the published endpoint, None before it is there."""
        endpoint = self._read(agent)
        if endpoint is not None:
            self._given[agent] = endpoint
        return endpoint

    def moved(self) -> tuple[int, str] | None:
        """Return an agent that `lookup` found elsewhere, and where it is now; looks every `WATCH_SECONDS`."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + WATCH_SECONDS
            self._compare()
        return self._moved.popleft() if self._moved else None

    def _compare(self) -> None:
        try:
            changed = os.stat(self._folder).st_mtime_ns  # noqa: PTH116 - as in _read
        except OSError:
            return  # the folder is gone, which is no reason to end what is connected
        known, self._unsure = not self._unsure, changed != self._changed_ns
        if known and not self._unsure:
            return  # two changes may have one time, so the look after a change reads too
        self._changed_ns = changed
        for agent, before in self._given.items():
            now = self._read(agent)
            if now is not None and now != before:
                self._given[agent] = now
                self._moved.append((agent, now))

    def _read(self, agent: int) -> str | None:
        # Asked by every agent for every neighbour until all are there: bare system calls are a tenth of a Path's cost.
        try:
            descriptor = os.open(self._path(agent), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return os.read(descriptor, 4096).decode()
        finally:
            os.close(descriptor)

    def publish(self, agent: int, endpoint: str) -> None:
        """Make an endpoint known, whole or not at all."""
        write_whole(Path(self._path(agent)), endpoint.encode(), 0o644)

    def _path(self, agent: int) -> str:
        return f"{self._folder}/agent-{agent:04d}"


def ipc_endpoint(folder: Path, agent: int) -> str:
    """The ipc endpoint of an agent; raises `TransportError` where the path is too long for a unix socket."""
    path = str(folder / f"{agent:04d}")
    if len(os.fsencode(path)) > IPC_PATH_LIMIT:
        raise TransportError(
            f"network.folder = {str(folder)!r}: the socket path {path!r} has {len(os.fsencode(path))} bytes; "
            f"a unix socket takes at most {IPC_PATH_LIMIT}: choose a shorter folder, or network.transport = 'tcp'"
        )
    return f"ipc://{path}"


class Post:
    """Both sockets of one agent, and with keys one more for each neighbour. Owned by one thread.

    ``expected`` are the names of the listeners to take note of; ``addressed`` the neighbours whose messages are
    filtered at the publisher (empty: receive everything). With ``keys`` all is encrypted, and only processes that the
    keys name are connected. Counts: ``dropped`` by reason.
    """

    def __init__(
        self,
        agent: int,
        *,
        expected: Iterable[bytes],
        dimension: int,
        addressed: Iterable[int] = (),
        keys: Keys | None = None,
    ) -> None:
        self._not_ours = _open_sockets()
        self._context = zmq.Context(io_threads=1)
        self._admission: Admission | None = None
        self._speaker = self._context.socket(zmq.XPUB)
        self._speaker.sndhwm = 0
        subscriptions = [own_name(agent)]
        peers = list(addressed)
        for peer in peers:
            subscriptions += [topic(peer), topic(peer, agent)]
        if not peers:
            subscriptions.append(b"")
        self._ears: dict[int | None, zmq.Socket[bytes]] = {}
        if keys is None:
            self._ears[None] = self._context.socket(zmq.SUB)
        else:
            self._context.set(zmq.MAX_SOCKETS, max(self._context.get(zmq.MAX_SOCKETS), len(keys.agents) + 8))
            self._admission = Admission(self._context, keys.admitted)
            guard(self._speaker, keys.public, keys.private)
            for neighbour, key in keys.agents.items():
                ear = self._ears[neighbour] = self._context.socket(zmq.SUB)
                ear.curve_publickey, ear.curve_secretkey, ear.curve_serverkey = keys.public, keys.private, key
        for socket in (self._speaker, *self._ears.values()):
            configure(socket, max(8 * dimension, HEADER_LIMIT))
        for ear in self._ears.values():
            ear.rcvhwm = RECEIVE_QUEUE
            for subscription in subscriptions:
                ear.subscribe(subscription)
        self._expected = frozenset(expected)
        self._connected: dict[int, str] = {}
        self.listeners: set[bytes] = set()
        self.dropped: Counter[str] = Counter()
        self.settled = False
        """Whether listeners that come and go may be noted without a word: true once no hello depends on them."""
        self._watched = [*self._ears.values(), self._speaker]
        if self._admission is not None:
            self._watched.append(self._admission.socket)
        self._poller = select.poll()
        for socket in self._watched:
            self._poller.register(self._descriptor(socket), select.POLLIN)

    def watch(self, descriptor: int) -> None:
        """End any wait early when this file descriptor becomes readable (a signal came)."""
        self._poller.register(descriptor, select.POLLIN)

    def bind(self, endpoint: str) -> str:
        """Listen for subscribers; returns the endpoint with its port filled in. Raises `TransportError`."""
        if endpoint.startswith("tcp:"):
            self._speaker.ipv6 = "[" in endpoint
            for socket in (self._speaker, *self._ears.values()):
                heartbeats(socket)
        try:
            self._speaker.bind(endpoint)
        except zmq.ZMQError as error:
            raise TransportError(f"cannot bind {endpoint}: {error.strerror or error}") from error
        bound = self._speaker.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return bound.rstrip(b"\0").decode()

    def connect(self, endpoint: str, neighbour: int) -> None:
        """Receive from ``neighbour`` there, and no longer where it was. Raises `TransportError` for no endpoint."""
        before = self._connected.get(neighbour)
        if before == endpoint:
            return
        ear = self._ears[None if self._admission is None else neighbour]
        if endpoint.startswith("tcp:"):
            ear.ipv6 = "[" in endpoint
        try:
            ear.connect(endpoint)
        except zmq.ZMQError as error:
            raise TransportError(f"cannot connect to {endpoint}: {error.strerror or error}") from error
        self._connected[neighbour] = endpoint
        if before is not None and (self._admission is not None or before not in self._connected.values()):
            with contextlib.suppress(zmq.ZMQError):
                ear.disconnect(before)

    def follow(self, neighbour: int, endpoint: str) -> None:
        """Receive from a connected neighbour at its new endpoint; do nothing where it was not connected."""
        if neighbour in self._connected:
            self.connect(endpoint, neighbour)

    @staticmethod
    def _descriptor(socket: zmq.Socket[bytes]) -> int:
        return int(socket.getsockopt(zmq.FD))

    def send(self, parts: Parts) -> None:
        """Send; never blocks."""
        send(self._speaker, parts, _DONTWAIT)

    def drain(self, limit: int) -> list[list[bytes]]:
        """What has arrived, at most ``limit`` messages, and with keys at most an equal share of each neighbour."""
        if self._admission is None:
            return list(drain(self._ears[None], limit, MOST_PARTS))
        self._admission.answer()
        messages: list[list[bytes]] = []
        for neighbour, ear in self._ears.items():
            assert neighbour is not None
            name = topic(neighbour)[:4]
            for message in drain(ear, max(1, limit // len(self._ears)), MOST_PARTS):
                if message[0].startswith(name):
                    messages.append(message)
                else:
                    self.dropped["speaks for another"] += 1
        return messages

    def notice_listeners(self) -> bool:
        """Take note of listeners that came or went; True if one came."""
        began = False
        if self._admission is not None:
            self._admission.answer()
        with contextlib.suppress(zmq.Again):
            while True:
                event = self._speaker.recv(zmq.NOBLOCK)
                name = event[1:]
                if name not in self._expected:
                    continue
                if event[0] == 1:
                    began |= name not in self.listeners
                    self.listeners.add(name)
                else:
                    self.listeners.discard(name)
        return began

    def wait(self, seconds: float) -> None:
        """Until something may have arrived on any socket, a signal came, or the time is up."""
        # The descriptors are edge-triggered: what is already there has to be asked for, not waited for.
        for socket in self._watched:
            if int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                if socket is self._speaker and self.settled:
                    self.notice_listeners()  # a neighbour that disconnects would end every wait from here on
                    continue
                return
        self._poller.poll(max(0.0, seconds) * 1000)

    def close(self, linger: float = 0.0) -> None:
        """Hang up once everything has gone out, or no connection is left, or after ``linger`` seconds.

        libzmq alone waits its whole linger for a listener that hung up in the same moment (its I/O thread then learns
        of both at once, and the listener's part of the socket keeps what was not sent). So the end is left to a thread
        of its own, and is over too where it is about nobody: no connection is open any more.
        """
        for ear in self._ears.values():
            ear.close(0)
        if self._admission is not None:
            self._admission.socket.close(0)
        self._speaker.close(round(1000 * linger))
        ending = threading.Thread(target=self._context.term, name="hanging up", daemon=True)
        ending.start()
        ending.join(LOOK)
        while ending.is_alive() and _open_sockets() - self._not_ours:
            ending.join(LOOK)


def _open_sockets() -> set[str]:
    """The operating system's names of the sockets that this process holds."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 - procfs, names only
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return {name for name in found if name.startswith("socket:")}


def send(socket: zmq.Socket[bytes], parts: Parts, flags: int = 0) -> None:
    """What send_multipart does, without its checks of each part, and past what DRAFT sockets need."""
    *first, last = parts
    for part in first:
        _send(socket, part, flags | _MORE)
    _send(socket, last, flags)
