"""Starts the page's server and ends it when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import Callable

import uvicorn

from node.view.moment import Watched
from node.view.server import HOST, application
from node.view.subject import Subject


def bound(port: int) -> socket.socket:
    """A socket that listens on the loopback interface; ``port`` 0: the system chooses.

    Raises
    ------
    ValueError
        If the port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise ValueError(f"--port {port}: {error.strerror}; accepted is a free port, or 0 for any") from None
    return listening


async def serve(
    subject: Subject, listening: socket.socket, tell: Callable[[str], None], over: asyncio.Event | None = None
) -> None:
    """Show a subject until ``over`` is set, or by default until SIGINT or SIGTERM.

    Parameters
    ----------
    subject
        What is shown.
    listening
        The socket of the server, which is closed at the end.
    tell
        Is given the address once it answers.
    over
        Ends the server.
    """
    token = secrets.token_urlsafe(24)
    port = listening.getsockname()[1]
    watched = Watched(subject)
    server = uvicorn.Server(
        uvicorn.Config(
            application(watched, token, port),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            http="h11",
            ws="websockets-sansio",
            ws_max_size=1024,
            timeout_graceful_shutdown=1,
        )
    )
    over = over or _told_to_end()
    watching = asyncio.create_task(watched.watch())
    ending = asyncio.create_task(over.wait())
    for task in (watching, ending):
        task.add_done_callback(lambda _: setattr(server, "should_exit", True))
    try:
        with contextlib.closing(listening):
            listening.listen(128)
            tell(f"http://{HOST}:{port}/{token}/")
            await server._serve([listening])  # `serve` would take the signals of the process
    finally:
        ending.cancel()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


def _told_to_end() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told
