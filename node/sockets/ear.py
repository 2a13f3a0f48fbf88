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
    """A SUB socket connected to many agents. ``connected`` counts open connections, ``met`` all that ever were."""

    def __init__(self, keys: Keys | None, longest: int) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.SUB)
        self._keys = keys
        self._agents: dict[str, int] = {}
        if keys is not None:
            self._socket.curve_publickey, self._socket.curve_secretkey = keys.public, keys.private
        configure(self._socket, longest)
        self._socket.rcvhwm = 0
        self._socket.ipv6 = True  # it is also given names
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
        self._socket.subscribe(EAVESDROPPER)
        self._socket.subscribe(b"")
        self.connected = 0
        self.met: set[bytes] = set()

    def connect(self, endpoint: str, agent: int) -> None:
        """Listen to ``agent`` there. Raises `TransportError` for an endpoint that cannot be."""
        self._agents[endpoint] = agent
        # Key and heartbeats hold for the connections that are made from here on, so one socket can hear all agents.
        if self._keys is not None:
            self._socket.curve_serverkey = self._keys.agents[agent]
        if endpoint.startswith("tcp:"):
            heartbeats(self._socket)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise TransportError(f"cannot listen at {endpoint!r}: {error.strerror or error}") from None

    def follow(self, old: str, new: str) -> None:
        """Listen at ``new`` to the agent that was at ``old``."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(old)
        self.connect(new, self._agents.pop(old))

    def wait(self, seconds: float) -> None:
        """Wait until something arrives, at most so long."""
        self._socket.poll(max(1, round(1000 * seconds)))

    def drain(self, most: int) -> list[tuple[int, list[bytes]]]:
        """Take what arrived, at most ``most`` frames, each with the monotonic time (ns) at which it was taken."""
        clock = time.monotonic_ns
        return [(clock(), parts) for parts in drain(self._socket, most)]

    def notice(self) -> None:
        """Count the connections."""
        with contextlib.suppress(zmq.Again):
            while True:
                what, endpoint = self._monitor.recv_multipart(zmq.NOBLOCK)
                event, _ = _MONITORED.unpack(what)
                if event == zmq.EVENT_CONNECTED:
                    self.connected += 1
                    self.met.add(endpoint)
                elif event == zmq.EVENT_DISCONNECTED:
                    self.connected -= 1

    def close(self) -> None:
        """Hang up."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()
