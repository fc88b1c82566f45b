"""Spans of OpenTelemetry: one for each request, as a child of the client's.

They come from opentelemetry-api, in programs that have imported it, for others can record no spans. The client's span is
in the header `traceparent`. If a framework has begun a span for the request already, that is the parent.
"""

import sys
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
            facts = {"model": record.model, "version": record.version or 0, "rows": record.rows}
            self._span.set_attributes({f"aioflow.{name}": fact for name, fact in facts.items()})
        self._span.set_attribute("http.response.status_code", record.status)
        if record.status >= _SERVER_ERROR:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()
