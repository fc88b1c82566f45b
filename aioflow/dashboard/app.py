"""The live page as an application of aiohttp: static files, a websocket of messages, and large messages by request.

It only reads: no request changes anything in the watched program.
"""

import asyncio
import contextlib
import json
import mimetypes
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from aioflow.dashboard.access import HEADERS, Access
from aioflow.dashboard.board import Board
from aioflow.dashboard.chrome_trace import chrome_trace
from aioflow.dashboard.messages import History, Message, Summaries, to_json
from aioflow.dashboard.monitor import Monitor

STATIC: Final = Path(__file__).parent / "static"
SHORTEST: Final = 0.1
"""Seconds between two updates of a page, at least."""
_REST: Final = 50.0
"""The pause after an update, as a multiple of the processor time that its text has taken."""
_LONGEST_REST: Final = 5.0
_HEARTBEAT: Final = 20.0
_MANY: Final = 200
"""The most messages that the event loop writes as JSON; a thread writes longer lists, and graphs and steps."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Pages:
    """The pages that are open on a monitor.

    Attributes:
        app: the application.
    """

    def __init__(self, monitor: Monitor, access: Access) -> None:
        self._monitor: Final = monitor
        self._access: Final = access
        self._open: Final[set[web.WebSocketResponse]] = set()
        self.app: Final = web.Application(middlewares=[self._guard])
        self.app.add_routes(
            [
                web.get("/", self._file),
                web.get("/updates", self._updates),
                web.get("/graph.json", self._graph),
                web.get(r"/steps/{number:\d{1,18}}.json", self._step),
                web.get(r"/steps/{number:\d{1,18}}/trace.json", self._trace),
                web.post("/sign-in", self._sign_in),
                web.get(r"/{path:[\w/-]{1,100}\.(?:js|css|html|svg|txt)}", self._file),
            ]
        )
        self.app.on_shutdown.append(self._shut)
        self.app.on_cleanup.append(self._clean)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests that may come from other sites, or lack the credential; add the headers of all responses."""
        try:
            response = self._refusal(request) or await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _refusal(self, request: web.Request) -> web.StreamResponse | None:
        host = request.host
        if self._access.refuses_host(host):
            return web.Response(status=403, text="this page is for addresses of this machine, such as 127.0.0.1")
        is_open_to_pages = request.method == "GET" and not request.path.endswith("/updates")
        if not is_open_to_pages and self._access.refuses_origin(request.headers.get("origin"), host):
            return web.Response(status=403, text="pages of other sites may not read this one")
        shown = request.headers.get("authorization", ""), request.cookies.get(self._access.cookie_name, "")
        if self._access.is_known(*shown) or request.path.endswith(_OPEN):
            return None
        if request.match_info.get("path") is None and request.path.endswith("/"):
            return _static("sign-in.html", 401)
        return web.Response(status=401, text="sign in first, or send the token as Authorization: Bearer")

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        """Give a browser that shows the token its cookie."""
        try:
            secret = (await request.post()).get("token")
        except (ValueError, LookupError):  # a form without a boundary, or in an unknown encoding
            return _static("sign-in.html", 400)
        if not isinstance(secret, str) or not self._access.signs_in(secret.strip()):
            return _static("sign-in.html", 401)
        response = web.Response(status=303, headers={"location": "./"})
        response.set_cookie(
            self._access.cookie_name,
            self._access.cookie,
            httponly=True,
            samesite="Strict",
            secure=request.secure,
            max_age=7 * 86400,
        )
        return response

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return _static(request.match_info.get("path", "index.html"))

    async def _graph(self, request: web.Request) -> web.StreamResponse:
        return await _document(self._monitor.board.graph)

    async def _step(self, request: web.Request) -> web.StreamResponse:
        return await _document(self._monitor.board.steps.get(int(request.match_info["number"])))

    async def _trace(self, request: web.Request) -> web.StreamResponse:
        """The step as a Chrome trace, to be saved."""
        step = self._monitor.board.steps.get(int(request.match_info["number"]))
        if step is None:
            raise web.HTTPNotFound(text="that step is not kept any more")
        text = await asyncio.to_thread(lambda: json.dumps(chrome_trace(step)))
        name = f"attachment; filename=step-{step.number}.json"
        return web.json_response(text=text, headers={"content-disposition": name})

    async def _updates(self, request: web.Request) -> web.StreamResponse:
        """Send the state of the board, then its changes.

        A page gets at most ten updates a second, and the next one only after it has read the last one.
        """
        socket = web.WebSocketResponse(heartbeat=_HEARTBEAT, compress=False, max_msg_size=1024)
        await socket.prepare(request)
        self._open.add(socket)
        try:
            with self._monitor.viewer() as board:
                sending = asyncio.ensure_future(_send(board, socket))
                try:
                    async for _ in socket:  # pages have nothing to say
                        pass
                finally:
                    sending.cancel()
                    await asyncio.wait([sending])
        finally:
            self._open.discard(socket)
        return socket

    async def _shut(self, app: web.Application) -> None:
        """Close the connections of all pages, without waiting for pages that do not read."""
        sockets = list(self._open)
        closing = [socket.close(code=aiohttp.WSCloseCode.GOING_AWAY, drain=False) for socket in sockets]
        await asyncio.gather(*closing, return_exceptions=True)

    async def _clean(self, app: web.Application) -> None:
        await self._monitor.close()


_OPEN: Final = ("/sign-in", "/style.css")
"""The paths that a browser needs before it has signed in."""


async def _send(board: Board, socket: web.WebSocketResponse) -> None:
    """Send changes until the connection is lost."""
    seen = 0
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        while True:
            await board.changed(seen)
            messages, seen = board.since(seen), board.revision
            text, seconds = await _written(messages)
            await socket.send_str(text)
            await asyncio.sleep(max(SHORTEST, min(seconds * _REST, _LONGEST_REST)))


async def _written(messages: Sequence[Message]) -> tuple[str, float]:
    """The text of an update, and the processor time of writing it. A thread writes long ones."""

    def write() -> tuple[str, float]:
        began = time.thread_time()
        return f"[{','.join(map(to_json, messages))}]", time.thread_time() - began

    is_long = len(messages) > _MANY or any(isinstance(message, (History, Summaries)) for message in messages)
    return await asyncio.to_thread(write) if is_long else write()


async def _document(message: Message | None) -> web.Response:
    if message is None:
        raise web.HTTPNotFound(text="there is no such thing, or it is not kept any more")
    return web.json_response(text=await asyncio.to_thread(to_json, message))


def _static(name: str, status: int = 200) -> web.Response:
    """A file of the page. HTTPNotFound if there is none of that name."""
    path = (STATIC / name).resolve()
    if not path.is_relative_to(STATIC.resolve()) or not path.is_file():
        raise web.HTTPNotFound(text="there is no such file")
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return web.Response(body=path.read_bytes(), status=status, content_type=kind, charset="utf-8")


def page_app(monitor: Monitor, access: Access) -> Any:
    """The application of a monitor, which it closes."""
    return Pages(monitor, access).app
