"""Answers requests to models, whatever carries them: which handler, who may ask, how many at a time, what is recorded.

A transport hands in a `Request` and sends the `Response` inside the block of `Service.answer`:

    async with service.answer(request) as response:
        ...  # send it
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from aioflow import errors
from aioflow.net.transport.credentials import Token
from aioflow.serving import open_inference, tensorflow_rest
from aioflow.serving.exchange import Exchange, Handler
from aioflow.serving.failures import RequestRefusedError, error_response
from aioflow.serving.limits import Limits
from aioflow.serving.models import Models
from aioflow.serving.request import Request, Response
from aioflow.serving.web_pages import WebPages

_CLIENT_GONE: Final = 499
"""The recorded status of a request whose client left before its response was sent."""
_OPEN_TO_ALL: Final = frozenset({"/v2/health/live", "/v2/health/ready"})
"""The paths that need no token: probes have none."""
_PROTOCOLS: Final = {"v1": tensorflow_rest.find_handlers, "v2": open_inference.find_handlers}


class Record(NamedTuple):
    """One request that has ended.

    Attributes:
        method: its method.
        path: its path.
        status: the status of the response; 499 if the client left before.
        seconds: from the headers until the response was sent.
        model: the name of the model that answered; None if there was none.
        version: its version.
        rows: the rows of the inputs.
        size: the bytes of the response.
    """

    method: str
    path: str
    status: int
    seconds: float
    model: str | None
    version: int | None
    rows: int
    size: int


Observer: TypeAlias = Callable[[Record], None]


class Service:
    """Models behind requests of HTTP.

    Attributes:
        models: the models.
        limits: the bounds of requests.
        ready: whether readiness requests are told yes; set it to False before the server ends.
        observers: are told of each request that has ended.

    Args:
        models: the models. They are not closed with the service.
        limits: the bounds of requests.
        token: what each request must show as `Authorization: Bearer ...`, except those for health; None for nothing.
        origins: the web pages that may send requests, such as `https://example.org`; None for any.
        observers: are told of each request that has ended.
    """

    def __init__(
        self, models: Models, limits: Limits | None = None, *, token: Token | None = None,
        origins: Collection[str] | None = None, observers: Sequence[Observer] = (),
    ) -> None:  # fmt: skip
        self.models: Final = models
        self.limits: Final = limits or Limits()
        self.ready = True
        self.observers: Final = observers
        self._token: Final = token
        self._pages: Final = WebPages(origins)
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """The inferences that run now."""
        return self._running

    @contextlib.asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Response]:
        """The response, which must be sent inside the block. Cancelling the block cancels the inference."""
        exchange = Exchange(request, self.models, self.limits, self.ready)
        start, status, size = time.perf_counter(), _CLIENT_GONE, 0
        try:
            with contextlib.ExitStack() as stack:
                response = self._pages.mark(request, await self._respond(exchange, stack))
                size = response.size
                async with _closing(response):
                    yield response
                status = response.status
        finally:
            self._record(exchange, status, time.perf_counter() - start, size)

    async def drain(self) -> None:
        """Wait until no inference runs."""
        await self._idle.wait()

    async def _respond(self, exchange: Exchange, stack: contextlib.ExitStack) -> Response:
        try:
            self._pages.check(exchange.request)
            if self._pages.asks_first(exchange.request):
                return self._pages.permission()
            self._admit(exchange.request)
            handler = _find_handler(exchange.request)
            if exchange.request.method == "POST":
                stack.enter_context(self._place())
            return await handler(exchange)
        except Exception as error:
            return error_response(error)

    def _admit(self, request: Request) -> None:
        """Raise RequestRefusedError for a client without the token."""
        if self._token is None or request.path in _OPEN_TO_ALL:
            return
        if not self._token.matches(request.headers.get("authorization", "")):
            text = "the request must show the server's token, as Authorization: Bearer TOKEN"
            raise RequestRefusedError(401, text, {"www-authenticate": "Bearer"})

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        """Inside the block, one more inference runs. ResourceExhaustedError if there are too many."""
        if self._running >= self.limits.requests:
            text = f"{self._running} requests run already, the most that the server takes at a time; try again"
            raise errors.ResourceExhaustedError(text)
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _record(self, exchange: Exchange, status: int, seconds: float, size: int) -> None:
        if not self.observers:
            return
        request, served = exchange.request, exchange.served
        name, version = (None, None) if served is None else (served.name, served.version)
        record = Record(request.method, request.path, status, seconds, name, version, exchange.rows, size)
        for observer in self.observers:
            observer(record)


def _find_handler(request: Request) -> Handler:
    """Return the handler of a request. RequestRefusedError if there is no such path, or not with this method."""
    protocol, *path = request.path.strip("/").split("/")
    find = _PROTOCOLS.get(protocol)
    handlers = None if find is None else find(path)
    if handlers is None:
        raise RequestRefusedError(404, f"there is no {request.path}; models are below /v2/models and /v1/models")
    handler = handlers.get("GET" if request.method == "HEAD" else request.method)
    if handler is None:
        allowed = ", ".join(handlers)
        raise RequestRefusedError(405, f"{request.path} takes {allowed}, not {request.method}", {"allow": allowed})
    return handler


@contextlib.asynccontextmanager
async def _closing(response: Response) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if response.stream is not None:
            await response.stream.aclose()
