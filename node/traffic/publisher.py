"""The socket that a replay publishes on.

Rules that hold here:
- It binds and never connects: a replay cannot send frames to the agents of a run.
- It never takes an endpoint away from another process.
- No frame is dropped: a subscriber that cannot keep up makes the replay wait.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

import zmq

from node.sockets.agent_sockets import send
from node.traffic.format import Frame
from node.traffic.pacer import ReplayError
from node.wire import EVERYBODY

QUEUE: Final = 10_000
"""Frames that are queued for one subscriber before the replay waits for that subscriber."""
LINGER_SECONDS: Final = 30
"""Seconds for which queued frames are still sent after the replay."""
LOOK_SECONDS: Final = 0.1
_ACCEPTED: Final = "accepted: tcp://ADDRESS:PORT or ipc://PATH that no process uses"


class Publisher:
    """An XPUB socket at ``endpoint``, as a context manager.

    Raises
    ------
    ReplayError
        If the endpoint cannot be bound, or another process uses it.
    """

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.sndhwm = QUEUE
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._socket.ipv6 = endpoint.startswith("tcp://[")
        self.endpoint = ""
        self._everything = 0
        self._names = 0
        try:
            _check(endpoint)
            _refuse_occupied(endpoint)
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._end(0)
            raise ReplayError(f"--to {endpoint}: cannot be bound: {error.strerror or error} ({_ACCEPTED})") from None
        except ReplayError:
            self._end(0)
            raise
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self.endpoint = bound.rstrip(b"\0").decode()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(0 if kind is not None else 1000 * LINGER_SECONDS)

    def _end(self, linger_ms: int) -> None:
        self._socket.close(linger_ms)
        self._context.term()
        path = _ipc_path(self.endpoint)
        if path is not None:
            path.unlink(missing_ok=True)

    @property
    def subscribers(self) -> int:
        """Number of subscribers: subscriptions to everything or to an own name, whichever are more.

        Agents and eavesdroppers subscribe to their own name; other programs subscribe to everything.
        """
        return max(self._everything, self._names)

    def notice(self, seconds: float = 0.0) -> None:
        """Count subscriptions that began or ended, after a wait for the first of at most ``seconds``."""
        if seconds > 0 and not self._socket.poll(round(1000 * seconds)):
            return
        with contextlib.suppress(zmq.Again):
            while True:
                event = self._socket.recv(zmq.NOBLOCK)
                change = 1 if event[:1] == b"\1" else -1
                if event[1:] == b"":
                    self._everything += change
                elif len(event) == 9 and int.from_bytes(event[1:5], "big") == EVERYBODY:
                    self._names += change

    def wait_for(self, subscribers: int, tick: Callable[[], None] = lambda: None) -> None:
        """Wait for this number of subscribers; ``tick`` is called a few times a second."""
        while self.subscribers < subscribers:
            self.notice(LOOK_SECONDS)
            tick()

    def publish(self, frame: Frame) -> None:
        """Send a frame; wait while the queue of a subscriber is full."""
        send(self._socket, frame.parts)


def _ipc_path(endpoint: str) -> Path | None:
    """The path of an ipc endpoint; none where a leading "@" makes it an abstract name."""
    path = endpoint.removeprefix("ipc://")
    return Path(path) if endpoint.startswith("ipc://") and not path.startswith("@") else None


def _check(endpoint: str) -> None:
    """Raise `ReplayError` for what a subscriber in another process cannot connect to, or ZeroMQ would misread."""
    scheme, separator, rest = endpoint.partition("://")
    port = rest.rpartition(":")[2]
    if separator and scheme not in ("tcp", "ipc"):
        raise ReplayError(f"--to {endpoint}: cannot be bound: {scheme}:// reaches no other process; {_ACCEPTED}")
    if scheme == "tcp" and port != "*" and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ReplayError(f"--to {endpoint}: cannot be bound: port {port!r} is not from 0 to 65535; {_ACCEPTED}")


def _refuse_occupied(endpoint: str) -> None:
    """Refuse an ipc path at which a process answers: binding would take it away from that process."""
    path = _ipc_path(endpoint)
    if path is None or not path.exists():
        return
    if not path.is_socket():
        raise ReplayError(f"--to {endpoint}: {path} exists and is not a socket; give a path that does not exist")
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.connect(str(path))
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise ReplayError(f"--to {endpoint}: {path} exists and cannot be tried ({error.strerror})") from None
    raise ReplayError(
        f"--to {endpoint}: another process publishes there, perhaps an agent of a run; give another endpoint"
    )
