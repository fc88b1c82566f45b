"""Answers requests to models, whatever carries them: which route, who may ask, how many at a time, what is recorded.

A transport hands in a `Request`, and a function that sends the `Response`: `await service.answer(request, send)`.

This is the way of each request. So it is one coroutine with one `try`: each context manager, generator and timer on it
costs a busy server more than the headers do.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from aioflow.config import expect
from aioflow.graph.operation import items_of
from aioflow.serving import open_inference, tensorflow_rest
from aioflow.serving.exchange import Exchange, Route, Routes
from aioflow.serving.failures import RequestRefusedError, error_response
from aioflow.serving.limits import Limits
from aioflow.serving.metrics import Metrics
from aioflow.serving.models import Models
from aioflow.serving.places import Places
from aioflow.serving.record import Observer, Record
from aioflow.serving.request import WEBSOCKET, Request, Response
from aioflow.serving.spans import RequestSpan, open_span
from aioflow.serving.timing import HEADER, begin_timing
from aioflow.serving.tokens import Tokens
from aioflow.serving.web_pages import WebPages, permission

T = TypeVar("T")
_CLIENT_GONE: Final = 499
"""The recorded status of a request whose client left before its response was sent."""
_INFERRING: Final = ("POST", WEBSOCKET)
"""The methods of requests that run models."""
_QUICK: Final = 64 * 1024
"""The most bytes of a response that the buffers of a connection take, even if its client does not read."""
_PATHS: Final = 256
"""Paths whose handlers are remembered: those of a request to infer need longer to be found than the model."""
_PROTOCOLS: Final = {"v1": tensorflow_rest.find_handlers, "v2": open_inference.find_handlers}


@functools.lru_cache(_PATHS)
def _find_route(method: str, path: str) -> Route:
    """Return the route of a request of REST. RequestRefusedError if there is no such path, or not with this method."""
    protocol, *rest = path.strip("/").split("/")
    find = _PROTOCOLS.get(protocol)
    handlers = None if find is None else find(rest)
    if handlers is None:
        raise RequestRefusedError(404, f"there is no {path}; models are below /v2/models and /v1/models")
    handler = handlers.get("GET" if method == "HEAD" else method)
    if handler is None:
        allowed = ", ".join(each for each in handlers if each != WEBSOCKET)
        raise RequestRefusedError(405, f"{path} takes {allowed}, not {method}", {"allow": allowed})
    return Route(handler, infers=method in _INFERRING)


_REST: Final = Routes(_find_route, error_response)


class Service:
    """Models behind requests of HTTP and gRPC. If the models have metrics, it measures its requests, and shows them.

    Attributes:
        models: the models.
        limits: the bounds of requests.
        ready: whether readiness requests are told yes; set it to False before the server ends.
        observers: are told of each request that has ended.

    Args:
        models: the models. They are not closed with the service.
        limits: the bounds of requests.
        tokens: those of which each request must show one as `Authorization: Bearer ...`, except those for health.
        origins: the web pages that may send requests, such as `https://example.org`; None for any.
        observers: are told of each request that has ended.
    """

    def __init__(
        self, models: Models, limits: Limits | None = None, *, tokens: Tokens | None = None,
        origins: Collection[str] | None = None, observers: Sequence[Observer] = (),
    ) -> None:  # fmt: skip
        expect("models", models, Models)
        expect("limits", limits, Limits)
        self.models: Final = models
        self.limits: Final = limits or Limits()
        self.ready = True
        metrics = models.metrics
        self.observers: Final = observers if metrics is None else (*observers, metrics.observe_request)
        self._shown: Final[Mapping[tuple[str, str], Route]] = (
            {} if metrics is None else {("GET", "/metrics"): Route(functools.partial(_show, metrics), infers=False)}
        )
        self._tokens: Final = tokens or Tokens()
        self._pages: Final = WebPages(None if origins is None else frozenset(items_of("origins", origins)))
        self._places: Final = Places(self.limits)
        self._charge: Final = self._places.charge if self._places.counts_rows else None
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """The inferences that run now."""
        return self._places.taken

    async def answer(self, request: Request, send: Callable[[Response], Awaitable[T]], routes: Routes = _REST) -> T:
        """Send the response, and return what `send` returns. Cancelling cancels the inference."""
        exchange = Exchange(request, self.models, self.limits, self.ready, self._charge)
        start, status, size, has_place = time.perf_counter(), _CLIENT_GONE, 0, False
        timing, span = begin_timing(request.headers), open_span(request)
        self._enter()
        try:
            try:
                route = self._route_of(exchange, routes)
                if route.infers:
                    self._places.take(exchange.client)
                    has_place = True
                response = await route.handler(exchange)
            except Exception as error:
                response = routes.fail(error)
            if has_place and response.stream is None:
                self._places.leave(exchange.client)
                has_place = False
            response = self._pages.mark(request, response)
            if timing is not None:
                response = response.with_headers({HEADER: timing.describe(exchange.rows)})
            size = response.size
            sent = await (send(response) if size <= _QUICK and response.stream is None else self._send(response, send))
            status = response.status
            return sent
        finally:
            if has_place:
                self._places.leave(exchange.client)
            self._leave()
            if span is not None or self.observers or self.models.observers:
                self._record(exchange, status, time.perf_counter() - start, size, span)

    async def _send(self, response: Response, send: Callable[[Response], Awaitable[T]]) -> T:
        """Send a stream, which is closed at the end, or a large response. ConnectionError for a slow reader of that."""
        if response.stream is None:
            try:
                async with asyncio.timeout(self.limits.answer_seconds):
                    return await send(response)
            except TimeoutError:
                text = f"the client did not read its response within {self.limits.answer_seconds:g} s"
                raise ConnectionAbortedError(text) from None
        try:
            return await send(response)
        finally:
            await response.stream.aclose()

    async def drain(self) -> None:
        """Wait until no request is being answered."""
        await self._idle.wait()

    def _route_of(self, exchange: Exchange, routes: Routes) -> Route:
        """Return the route of a request. RequestRefusedError for a client that may not ask, or an unknown path."""
        request = exchange.request
        self._pages.check(request)
        if self._pages.asks_first(request):
            return Route(_permit, infers=False)
        exchange.client = self._tokens.client_of(request)
        method = "GET" if request.method == "HEAD" else request.method
        return self._shown.get((method, request.path)) or routes.find(request.method, request.path)

    def _enter(self) -> None:
        self._open += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._open -= 1
        if not self._open:
            self._idle.set()

    def _record(self, exchange: Exchange, status: int, seconds: float, size: int, span: RequestSpan | None) -> None:
        request, served = exchange.request, exchange.served
        name, version = (None, None) if served is None else (served.name, served.version)
        record = Record(request.method, request.path, status, seconds, name, version, exchange.rows, size)
        if span is not None:
            span.end(record)
        for observer in (*self.observers, *self.models.observers):
            observer(record)


async def _permit(exchange: Exchange) -> Response:
    return permission()


async def _show(metrics: Metrics, exchange: Exchange) -> Response:
    return metrics.show()
