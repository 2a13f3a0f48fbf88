"""The socket of the eavesdropper: one SUB that receives from every agent, and counts the agents that are there.

Rules that hold here:
- It subscribes to everything and never sends: that it listens is known to agents only by its subscription.
- What is waiting to be read is not bounded: a frame that is dropped here would be missing from the log.
"""

from __future__ import annotations

import contextlib
import struct
import time
from typing import Final

import zmq

from node.folder.keys import Keys
from node.sockets.agent_sockets import TransportError
from node.sockets.receiving import configure, drain, heartbeats
from node.wire import EAVESDROPPER

_MONITORED: Final = struct.Struct("=Hi")
"""A monitor's event and its value (zmq_socket_monitor). pyzmq's own reader brings asyncio with it."""


class Ear:
    """A SUB socket connected to many agents. ``met`` are the endpoints that ever were connected."""

    def __init__(self, keys: Keys | None, longest: int) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.SUB)
        self._keys = keys
        self._connected: dict[int, str] = {}
        if keys is not None:
            self._socket.curve_publickey, self._socket.curve_secretkey = keys.public, keys.private
        configure(self._socket, longest)
        self._socket.rcvhwm = 0
        self._socket.ipv6 = True  # it is also given names
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
        self._socket.subscribe(EAVESDROPPER)
        self._socket.subscribe(b"")
        self._open: set[bytes] = set()
        self.met: set[bytes] = set()

    def connect(self, endpoint: str, agent: int) -> None:
        """Listen to ``agent`` there, and no longer where it was. Raises `TransportError` for no endpoint."""
        # Key and heartbeats hold for the connections that are made from here on, so one socket can hear all agents.
        if self._keys is not None:
            self._socket.curve_serverkey = self._keys.agents[agent]
        if endpoint.startswith("tcp:"):
            heartbeats(self._socket)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise TransportError(f"cannot listen at {endpoint!r}: {error.strerror or error}") from None
        before = self._connected.get(agent, endpoint)
        self._connected[agent] = endpoint
        if before not in self._connected.values():
            self.notice()
            with contextlib.suppress(zmq.ZMQError):
                self._socket.disconnect(before)
            self._open.discard(before.encode())  # ZeroMQ tells nothing of a connection that its owner closes

    def wait(self, seconds: float) -> None:
        """Wait until something arrives, at most so long."""
        self._socket.poll(max(1, round(1000 * seconds)))

    def drain(self, most: int) -> list[tuple[int, list[bytes]]]:
        """Take what arrived, at most ``most`` frames, each with the monotonic time (ns) at which it was taken."""
        clock = time.monotonic_ns
        return [(clock(), parts) for parts in drain(self._socket, most)]

    @property
    def connected(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def notice(self) -> None:
        """Take note of connections that opened or closed."""
        with contextlib.suppress(zmq.Again):
            while True:
                what, endpoint = self._monitor.recv_multipart(zmq.NOBLOCK)
                event, _ = _MONITORED.unpack(what)
                if event == zmq.EVENT_CONNECTED:
                    self._open.add(endpoint)
                    self.met.add(endpoint)
                elif event == zmq.EVENT_DISCONNECTED:
                    self._open.discard(endpoint)

    def close(self) -> None:
        """Hang up."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()
