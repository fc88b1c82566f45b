"""The time of a request, for clients that ask for it."""

import asyncio
import re

import aioflow as af
from aioflow.serving.service import Service
from tests.serving.doubles import Models, affine, answer

PREDICT = "/v1/models/{}:predict"
BODY = b'{"instances": [[1, 2], [3, 4]]}'
WISH = {"prefer": "respond-async, Server-Timing"}
FORM = re.compile(r'queue;dur=([\d.]+), run;dur=([\d.]+), total;dur=([\d.]+), batch;desc="(\d+) rows"')


def times(headers):
    *seconds, rows = FORM.fullmatch(headers["server-timing"]).groups()
    return [*map(float, seconds)], int(rows)


async def test_a_request_that_runs_alone_never_waits_and_one_that_does_not_ask_is_told_nothing():
    service = Service(Models(affine()))
    path = PREDICT.format("affine")
    assert "server-timing" not in (await answer(service, "POST", path, BODY))[1]
    (queue, run, total), rows = times((await answer(service, "POST", path, BODY, WISH))[1])
    assert (queue, rows) == (0, 2)
    assert 0 < run <= total
    assert "server-timing" in (await answer(service, "POST", path, b"{", WISH))[1]


async def test_requests_that_share_a_run_are_told_of_its_rows(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2], name="x")
        signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
    async with af.Session(graph=graph) as session:
        await af.saved_model.save(session, tmp_path, {"serving_default": signature}, version=1)
    async with af.serving.Models() as models:
        await models.add("double", tmp_path)
        service, path = Service(models), PREDICT.format("double")
        found = await asyncio.gather(*[answer(service, "POST", path, BODY, WISH) for _ in range(3)])
        for status, headers, _ in found:
            (queue, run, total), rows = times(headers)
            assert (status, rows) == (200, 6)
            assert 0 < queue <= queue + run <= total + 0.002
