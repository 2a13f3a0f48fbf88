"""Traffic from Python: read a log of any run, or listen to endpoints."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import zmq
import zmq.asyncio

from node.sockets.agent_sockets import TransportError
from node.sockets.receiving import configure, heartbeats
from node.traffic.export import arrow_table
from node.traffic.reader import TrafficLogReader
from node.wire import Message, Refused, decode

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_PART = 64 << 20
"""Bytes of a frame's longest part; ZeroMQ hangs up on the sender of a longer one."""


@dataclass(frozen=True)
class ReceivedFrame:
    """One frame, and the message in it.

    Attributes
    ----------
    time_ns
        When it was received, nanoseconds since 1970 by the listener's clock.
    message
        A `Release`, `Hello` or `Done`; None where the frame is no message.
    refused
        Why the frame is no message; None where it is one.
    parts
        The frame as it was received.
    """

    time_ns: int
    message: Message | None
    refused: str | None
    parts: tuple[bytes, ...]


def read_log(path: Path | str) -> Iterator[ReceivedFrame]:
    """Read the frames of a traffic log one by one, in the order in which they were received.

    A log that is cut or damaged is read as far as it goes; `node.traffic.reader.TrafficLogReader` says what is missing.

    Raises
    ------
    TrafficLogError
        At once, if the file is no traffic log.
    """
    reader = TrafficLogReader(path)
    return (_received(frame.time_ns, frame.parts) for frame in reader)


def log_table(path: Path | str) -> pa.Table:
    """The frames of a traffic log as an Arrow table, the columns of ``sottovoce log cat``.

    Raises
    ------
    TrafficLogError
        If the file is no traffic log.
    ValueError
        Where pyarrow is not installed.
    """
    return arrow_table(TrafficLogReader(path))


async def listen(endpoints: Sequence[str]) -> AsyncIterator[ReceivedFrame]:
    """Listen to agents or to a replay, and give each frame as it arrives; nothing is sent.

    The iteration ends when it is closed or its task is cancelled.

    Parameters
    ----------
    endpoints
        ``tcp://HOST:PORT`` or ``ipc://PATH`` of each.

    Raises
    ------
    TransportError
        For an endpoint that cannot be connected to.
    """
    context = zmq.asyncio.Context(io_threads=1)
    socket = context.socket(zmq.SUB)
    try:
        configure(socket, LONGEST_PART)
        socket.rcvhwm = 0
        socket.subscribe(b"")
        for endpoint in endpoints:
            if endpoint.startswith("tcp:"):
                heartbeats(socket)
            try:
                socket.connect(endpoint)
            except zmq.ZMQError as error:
                raise TransportError(f"cannot listen at {endpoint!r}: {error.strerror or error}") from None
        while True:
            parts = await socket.recv_multipart()
            yield _received(time.time_ns(), tuple(parts))
    finally:
        socket.close(0)
        with contextlib.suppress(zmq.ZMQError):
            context.term()


def _received(time_ns: int, parts: tuple[bytes, ...]) -> ReceivedFrame:
    try:
        return ReceivedFrame(time_ns, decode(parts), None, parts)
    except Refused as refused:
        return ReceivedFrame(time_ns, None, refused.reason, parts)
