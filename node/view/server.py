"""The page's server: what it answers, and to whom.

Rules that hold here:
- It answers on the loopback interface alone, and only under an address that holds a random token.
- It reads and never writes, and nothing that a browser sends changes anything.
- The page may load and connect to nothing but this server; other pages may neither frame nor read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from node.view.moment import Watched
from node.view.release import release_shown

PAGE: Final = Path(__file__).parent / "page"
HOST: Final = "127.0.0.1"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Lets through what comes from this machine's own page, and adds the headers that keep the page to itself.

    Parameters
    ----------
    app
        What answers under ``/TOKEN/``.
    token
        The secret part of the address.
    port
        The port of the server. A request must name it with a loopback host, so that a name on the Internet that leads
        here (DNS rebinding) is refused.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(f"{name}:{port}".encode() for name in (HOST, "localhost"))
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or one WebSocket."""
        if scope["type"] not in ("http", "websocket") or self._admits(scope):
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse("not found\n", 404)(scope, receive, _with_headers(send))

    def _admits(self, scope: Scope) -> bool:
        given = [(name, value) for name, value in scope["headers"] if name in (b"host", b"origin")]
        hosts = [value for name, value in given if name == b"host"]
        origins = [value for name, value in given if name == b"origin"]
        token = scope["path"].encode(errors="replace").split(b"/")[1:2] or [b""]
        return (
            len(hosts) == 1
            and hosts[0] in self._hosts
            and all(origin in self._origins for origin in origins)
            and secrets.compare_digest(token[0], self._token)
        )


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in HEADERS}
            kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
            message["headers"] = [*kept, *HEADERS]
        await send(message)

    return sending


def application(watched: Watched, token: str, port: int) -> App:
    """The ASGI application that shows ``watched`` under ``/TOKEN/`` on ``port``."""
    routes: list[BaseRoute] = [
        Route("/", lambda _: FileResponse(PAGE / "index.html"), methods=["GET"]),
        Route("/network.json", _answer(lambda _: watched.network()), methods=["GET"]),
        Route("/agent/{agent:int}", _answer(lambda asked: watched.agent(asked.path_params["agent"])), methods=["GET"]),
        Route("/budgets", _answer(lambda _: watched.budgets()), methods=["GET"]),
        Route("/release/{row:int}", _answer(lambda asked: _release(watched, asked)), methods=["GET"]),
        WebSocketRoute("/feed", _feeding(watched)),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    return Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)]), token, port)


def _release(watched: Watched, asked: Request) -> dict[str, Any]:
    return release_shown(watched.feed.frame(asked.path_params["row"]))


def _answer(find: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that gives what ``find`` finds, in a thread: it may read files."""

    async def answer(request: Request) -> Response:
        try:
            return JSONResponse(await asyncio.to_thread(find, request))
        except LookupError:
            return PlainTextResponse("not found\n", 404)
        except (ValueError, OSError) as error:
            return PlainTextResponse(f"{error}\n", 409)

    return answer


def _feeding(watched: Watched) -> Callable[[WebSocket], Awaitable[None]]:
    """The WebSocket: every batch from the first on as a binary message, and what changes as JSON."""

    async def feed(websocket: WebSocket) -> None:
        await websocket.accept()
        sending = asyncio.create_task(_send_all(watched, websocket))
        try:
            while (await websocket.receive())["type"] != "websocket.disconnect":
                pass
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, RuntimeError, OSError):
                await sending

    return feed


async def _send_all(watched: Watched, websocket: WebSocket) -> None:
    sent, told = 0, None
    events = 0
    while True:
        batches = watched.feed.batches
        state = watched.state()
        while sent < len(batches):
            await websocket.send_bytes(batches[sent])
            sent += 1
            await asyncio.sleep(0)  # a page that went away is noticed here
        new = watched.feed.events[events:]
        if new:
            events += len(new)
            await websocket.send_json({"events": new})
        if state != told:
            told = state
            await websocket.send_json({"state": state})
        await watched.changed(sent, told)
