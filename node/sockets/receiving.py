"""How a socket of ours receives: its options, and the one loop that takes what has arrived.

Rules that hold here:
- No part above the limit is ever held in memory: ZeroMQ hangs up on the sender of a longer one.
- Heartbeats are for tcp alone. They find hosts that vanished, which never happens on ipc: there the system tells at
  once that a process has ended, and a heartbeat would only hang up on a process that was paused, and lose what waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zmq

RECONNECT_MS, LONGEST_RECONNECT_MS = 100, 2000
HEARTBEAT_MS, DEAD_MS = 5000, 20000

_DONTWAIT = int(zmq.DONTWAIT)


def configure(socket: zmq.Socket[Any], longest: int) -> None:
    """Set what all sockets have in common; ``longest`` are the bytes of a part."""
    socket.linger = 0
    socket.reconnect_ivl = RECONNECT_MS
    socket.reconnect_ivl_max = LONGEST_RECONNECT_MS
    socket.maxmsgsize = longest


def heartbeats(socket: zmq.Socket[Any]) -> None:
    """Look after the connections that are made from here on, at both of their ends."""
    socket.heartbeat_ivl = HEARTBEAT_MS
    socket.heartbeat_timeout = DEAD_MS
    socket.heartbeat_ttl = DEAD_MS


def drain(socket: zmq.Socket[bytes], messages: int, parts: int | None = None) -> Iterator[list[bytes]]:
    """Take what has arrived, without waiting.

    Parameters
    ----------
    socket
        A SUB socket.
    messages
        The number of messages that are taken at most.
    parts
        The number of parts of a message that are kept; the rest is received and dropped. None: keep all.
    """
    receive = socket.recv
    for _ in range(messages):
        # Part by part: asking a part whether more follow costs less than asking the socket.
        try:
            part = receive(_DONTWAIT, False)
        except zmq.Again:
            return
        message = [part.bytes]
        while part.more:
            part = receive(0, False)
            if parts is None or len(message) < parts:
                message.append(part.bytes)
        yield message
