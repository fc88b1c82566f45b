"""Spans of OpenTelemetry: one for each request, as a child of the client's, and one for each batch.

They come from opentelemetry-api, in programs that have imported it, for others can record no spans. The client's span
is in the header `traceparent`. If a framework has begun a span for the request already, that is the parent. A batch has
no parent, since it serves many requests: it has a link to each. A request that runs alone has its own span only.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aioflow.serving.record import Record
from aioflow.serving.request import Request
from aioflow.version import __version__

_API: Final = "opentelemetry.trace"
_SERVER_ERROR: Final = 500


def open_span(request: Request) -> "RequestSpan | None":
    """Begin the span of a request; None if this program records no spans."""
    return RequestSpan(request) if _API in sys.modules else None


class RequestSpan:
    """The span of a request, which is the current one until it ends."""

    def __init__(self, request: Request) -> None:
        from opentelemetry import context, propagate, trace

        has_parent = trace.get_current_span().get_span_context().is_valid
        parent = None if has_parent else propagate.extract(request.headers)
        attributes = {"http.request.method": request.method, "url.path": request.path}
        kind = trace.SpanKind.INTERNAL if has_parent else trace.SpanKind.SERVER
        tracer = trace.get_tracer("aioflow", __version__)
        self._span: Final = tracer.start_span(request.method, parent, kind=kind, attributes=attributes)
        self._token: Final[Any] = context.attach(trace.set_span_in_context(self._span, parent))

    def end(self, record: Record) -> None:
        """End it, with what is known of the request."""
        from opentelemetry import context, trace

        context.detach(self._token)
        if record.model is not None:  # so that clients cannot make names
            self._span.update_name(f"{record.method} {record.path}")
            self._span.set_attribute("aioflow.model", record.model)
            self._span.set_attribute("aioflow.version", record.version or 0)
            self._span.set_attribute("aioflow.rows", record.rows)
        self._span.set_attribute("http.response.status_code", record.status)
        if record.status >= _SERVER_ERROR:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()


class BatchSpans:
    """Gives the batches of a signature spans, with links to the spans of their callers."""

    def __init__(self, signature: str) -> None:
        self._signature: Final = signature

    def note_caller(self) -> Any:
        """Return the current span; None if this program records no spans."""
        trace = sys.modules.get(_API)
        return None if trace is None else trace.get_current_span()

    @contextlib.contextmanager
    def around(self, callers: Sequence[Any], calls: int, rows: int) -> Iterator[None]:
        """Inside the block, the span of a batch of so many calls is the current one, if a caller has a span."""
        contexts = [caller.get_span_context() for caller in callers if caller is not None]
        if not any(each.is_valid for each in contexts):
            yield
            return
        from opentelemetry import context, trace

        links = [trace.Link(each) for each in contexts if each.is_valid]
        attributes: dict[str, str | int] = {"aioflow.signature": self._signature, "aioflow.rows": rows}
        attributes["aioflow.calls"] = calls
        tracer = trace.get_tracer("aioflow", __version__)
        with tracer.start_as_current_span("batch", context.Context(), links=links, attributes=attributes):
            yield
