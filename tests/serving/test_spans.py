"""Spans of requests and batches: their parents, what they tell, and that they end however the request ends."""

import asyncio
import contextlib
import logging
import sys

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.serving import Batching
from aioflow.serving.service import Service
from aioflow.serving.signature_runner import SignatureRunner
from aioflow.testing import Gate, cluster
from tests.serving.doubles import Models, affine, answer

trace = pytest.importorskip("opentelemetry.trace", reason="the package opentelemetry-api is not installed")

INFER = "/v2/models/affine/infer"
BODY = b'{"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}]}'
CLIENT = {"traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"}
CLIENT_TRACE, CLIENT_SPAN = 0x0123456789ABCDEF0123456789ABCDEF, 0x0123456789ABCDEF


class Span(trace.NonRecordingSpan):
    """A span that remembers what it is told."""

    def __init__(self, number, name, parent, kind, attributes, links=()):
        trace_id = parent.trace_id if parent.is_valid else 99
        super().__init__(trace.SpanContext(trace_id, number, False, trace.TraceFlags(1)))
        self.name, self.parent, self.kind, self.attributes = name, parent, kind, dict(attributes)
        self.ended, self.status, self.links = 0, None, links

    def update_name(self, name):
        self.name = name

    def set_attribute(self, key, value):
        self.attributes[key] = value

    def set_status(self, status, description=None):
        self.status = status

    def end(self, end_time=None):
        self.ended += 1


class Tracer(trace.NoOpTracer):
    """A tracer that remembers its spans."""

    def __init__(self):
        self.spans = []

    def start_span(self, name, context=None, kind=trace.SpanKind.INTERNAL, attributes=None, links=(), **others):
        parent = trace.get_current_span(context).get_span_context()
        self.spans.append(Span(len(self.spans) + 1, name, parent, kind, attributes or {}, links))
        return self.spans[-1]

    @contextlib.contextmanager
    def start_as_current_span(self, name, context=None, **others):
        span = self.start_span(name, context, **others)
        with trace.use_span(span, end_on_exit=True):
            yield span


@pytest.fixture
def tracer(monkeypatch):
    tracer = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda *names: tracer)
    return tracer


async def test_a_request_has_a_span_below_that_of_its_client(tracer, caplog):
    version = affine(version=4)
    inside = []
    version.signatures, infer = version.signatures, version.infer

    async def noting(*arguments):
        inside.append(trace.get_current_span())
        return await infer(*arguments)

    version.infer = noting
    with caplog.at_level(logging.ERROR):
        status, *_ = await answer(Service(Models(version)), "POST", INFER, BODY, CLIENT)
    (span,) = tracer.spans
    assert (status, inside, span.ended, span.status) == (200, [span], 1, None)
    assert (span.name, span.kind) == (f"POST {INFER}", trace.SpanKind.SERVER)
    assert (span.parent.trace_id, span.parent.span_id) == (CLIENT_TRACE, CLIENT_SPAN)
    assert span.attributes == {
        "http.request.method": "POST", "url.path": INFER, "http.response.status_code": 200,
        "aioflow.model": "affine", "aioflow.version": 4, "aioflow.rows": 2,
    }  # fmt: skip
    assert not trace.get_current_span().get_span_context().is_valid
    assert caplog.text == ""


async def test_the_span_of_a_framework_around_is_the_parent(tracer):
    outer = Span(77, "framework", trace.INVALID_SPAN_CONTEXT, trace.SpanKind.SERVER, {})
    with trace.use_span(outer):
        await answer(Service(Models(affine())), "POST", INFER, BODY, CLIENT)
        assert trace.get_current_span() is outer
    (span,) = tracer.spans
    assert (span.parent.span_id, span.kind) == (77, trace.SpanKind.INTERNAL)


async def test_a_failure_is_told_and_a_path_of_nothing_gives_no_name(tracer):
    version = affine()
    service = Service(Models(version))
    version.error = errors.InternalError("broken")
    await answer(service, "POST", INFER, BODY)
    await answer(service, "GET", "/no/such/path")
    failed, lost = tracer.spans
    assert (failed.attributes["http.response.status_code"], failed.status) == (500, trace.StatusCode.ERROR)
    assert not failed.parent.is_valid
    assert (lost.name, lost.attributes["http.response.status_code"], lost.status) == ("GET", 404, None)


async def test_the_span_of_a_request_whose_client_leaves_ends(tracer):
    version = affine()
    version.gate = Gate()
    asking = asyncio.ensure_future(answer(Service(Models(version)), "POST", INFER, BODY))
    await version.gate.arrived(1)
    assert tracer.spans[0].ended == 0
    asking.cancel()
    await asyncio.wait([asking])
    (span,) = tracer.spans
    assert (span.ended, span.attributes["http.response.status_code"]) == (1, 499)


async def test_a_batch_has_a_span_of_its_own_with_links_to_those_of_its_callers(tracer):
    inside = []

    async def note(x):
        inside.append(trace.get_current_span())
        return x

    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None], name="x")
        y = af.py_func(note, [x], af.float32)
        y.set_shape([None])

    async def ask(runner, number):
        with trace.use_span(Span(number, "caller", trace.INVALID_SPAN_CONTEXT, None, {})):
            return (await runner.run({"x": np.full(number - 70, number, np.float32)}, None, 0))["y"].tolist()

    async with af.Session(graph=graph) as session:
        runner = SignatureRunner("twice", af.saved_model.Signature({"x": x}, {"y": y}), session, Batching())
        assert await ask(runner, 71) == [71]
        assert tracer.spans == []  # it ran alone
        results = await asyncio.gather(*[ask(runner, number) for number in (72, 73, 74)])  # the first alone, too
        assert results == [[72] * 2, [73] * 3, [74] * 4]
    (span,) = tracer.spans
    assert [each.get_span_context().span_id for each in inside] == [71, 72, 1]
    assert (span.name, span.ended, span.parent.is_valid) == ("batch", 1, False)
    assert [link.context.span_id for link in span.links] == [73, 74]
    assert span.attributes == {"aioflow.signature": "twice", "aioflow.rows": 7, "aioflow.calls": 2}


async def test_a_program_without_opentelemetry_has_no_spans(tracer, monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert (await answer(Service(Models(affine())), "POST", INFER, BODY))[0] == 200
    assert tracer.spans == []


async def test_the_parts_of_a_step_on_the_tasks_of_a_cluster_are_children_of_the_span_of_its_caller(tracer):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None], name="x")
        with af.device("/job:worker/task:0"):
            y = x * 2.0
        with af.device("/job:worker/task:1"):
            z = y + 1.0
    caller = Span(71, "caller", trace.INVALID_SPAN_CONTEXT, None, {})
    async with cluster({"worker": 2}) as simulated, af.Session(simulated.target("worker", 0), graph=graph) as session:
        assert await session.run(z, {x: [1.0]}) == [3.0]
        assert tracer.spans == []  # no span is current
        for number, options in enumerate((None, af.RunOptions(timeout=9.0), af.RunOptions(trace=True))):
            with trace.use_span(caller):
                assert await session.run(z, {x: [1.0]}, options) == [3.0]
            here, there = tracer.spans[2 * number :]
            assert {here.attributes["aioflow.task"], there.attributes["aioflow.task"]} == {
                "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1",
            }  # fmt: skip
            assert here.attributes["aioflow.step"] == there.attributes["aioflow.step"]
            for span in (here, there):
                assert (span.name, span.ended, span.parent.span_id, span.parent.trace_id) == ("step", 1, 71, 99)
