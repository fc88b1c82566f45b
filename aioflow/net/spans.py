"""Spans of OpenTelemetry for the parts of a step: those of all tasks are children of the caller's span.

The span of the caller travels as `trace` in the headers of messages, as W3C's traceparent. A program that has not
imported opentelemetry-api sends none, and a task that has not imported it records none.
"""

import contextlib
import sys
from contextlib import AbstractContextManager
from typing import Any, Final

from aioflow.version import __version__

_API: Final = "opentelemetry.trace"


def current_trace() -> str:
    """Return the current span as W3C's traceparent; empty if there is none."""
    trace = sys.modules.get(_API)
    if trace is None:
        return ""
    span = trace.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}" if span.is_valid else ""


def step_span(parent: str, task: str, step: int) -> AbstractContextManager[Any]:
    """Return a block whose span is the part of a task in a step. It has no span without a parent."""
    trace = sys.modules.get(_API) if parent else None
    if trace is None:
        return contextlib.nullcontext()
    _, trace_id, span_id, flags = parent.split("-")
    caller = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16)))
    around = trace.set_span_in_context(trace.NonRecordingSpan(caller))
    attributes = {"aioflow.task": task, "aioflow.step": f"{step:x}"}
    tracer = trace.get_tracer("aioflow", __version__)
    span: AbstractContextManager[Any] = tracer.start_as_current_span("step", around, attributes=attributes)
    return span
