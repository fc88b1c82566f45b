"""Metrics of requests and batches, as Prometheus reads them."""

import asyncio
import sys

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.serving.service import Service
from aioflow.serving.tokens import Tokens
from tests.serving.doubles import Models, affine, answer
from tests.serving.test_service import PREDICT, SECRET


async def shown(service, **headers):
    """The samples of `GET /metrics`, by name with labels."""
    status, found, body = await answer(service, "GET", "/metrics", headers=headers)
    assert (status, found["content-type"].partition(";")[0]) == (200, "text/plain")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_requests_are_counted_by_model_version_and_status_and_the_process_is_shown():
    service = Service(Models(affine(3), metrics=af.serving.Metrics()), tokens=Tokens.of(SECRET))
    token = {"authorization": f"Bearer {SECRET}"}
    await answer(service, "POST", PREDICT, b'{"instances": [[1, 2], [3, 4]]}', token)
    await answer(service, "POST", PREDICT, b"{", token)
    await answer(service, "GET", "/anything/at/all", headers=token)
    assert (await answer(service, "GET", "/metrics"))[0] == 401
    assert (await answer(service, "HEAD", "/metrics", headers={"authorization": f"Bearer {SECRET}"}))[0] == 200
    samples = await shown(service, **token)
    assert samples['aioflow_requests_total{model="affine",status="200",version="3"}'] == 1
    assert samples['aioflow_requests_total{model="affine",status="400",version="3"}'] == 1
    assert samples['aioflow_requests_total{model="",status="404",version=""}'] == 1
    assert samples['aioflow_rows_total{model="affine"}'] == 2
    assert samples['aioflow_request_seconds_count{model="affine"}'] == 2
    if sys.platform == "linux":
        assert samples["process_resident_memory_bytes"] > 1e6


async def test_without_metrics_there_is_no_such_path():
    assert (await answer(Service(Models(affine())), "GET", "/metrics"))[0] == 404


@pytest.mark.parametrize("published", [False, True])
async def test_batches_are_measured_with_their_rows_reasons_and_times(published, tmp_path):
    metrics = af.serving.Metrics()
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2], name="x")
        signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
    batching = af.serving.Batching(max_rows=2, max_delay=1.0)
    async with af.Session(graph=graph) as session, af.serving.Models(metrics=metrics) as models:
        if published:
            await models.publish("double", session, {"serving_default": signature}, batching=batching)
        else:
            await af.saved_model.save(session, tmp_path, {"serving_default": signature}, version=1)
            await models.add("double", tmp_path, batching=batching)
        row, infer = {"x": np.ones((1, 2), np.float32)}, models.find("double").infer
        await asyncio.gather(*[infer(row) for _ in range(3)])
        samples = await shown(Service(models))
    assert samples['aioflow_batches_total{model="double",reason="idle"}'] == 1
    assert samples['aioflow_batches_total{model="double",reason="full"}'] == 1
    assert samples['aioflow_batch_rows_sum{model="double"}'] == 3
    assert samples['aioflow_queue_seconds_count{model="double"}'] == 3
    assert samples['aioflow_run_seconds_count{model="double"}'] == 2


async def test_the_lag_of_the_event_loop_is_measured_until_it_is_cancelled():
    metrics = af.serving.Metrics()
    watching = asyncio.ensure_future(metrics.watch_loop())
    await asyncio.sleep(1.05)
    watching.cancel()
    await asyncio.wait([watching])
    samples = await shown(Service(Models(metrics=metrics)))
    assert samples["aioflow_event_loop_lag_seconds_count"] == 10
    assert samples["aioflow_event_loop_lag_seconds_sum"] == pytest.approx(0)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[metrics\]"):
        af.serving.Metrics()
