"""What a service refuses, and what it records: bodies beyond the limits, places, tokens, pages, errors."""

import asyncio
import gzip
import json
import zlib

import pytest

from aioflow import errors
from aioflow.serving.failures import http_error
from aioflow.serving.limits import Limits
from aioflow.serving.service import Service
from aioflow.serving.tokens import Tokens
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine, answer, request

PREDICT = "/v1/models/affine:predict"
BODY = b'{"instances": [[1, 2]]}'
FAILED = "the server failed to compute the answer; its log has the reason"
SECRET = "a secret of 16 letters or more".replace(" ", "-")


def error_of(body):
    (item,) = json.loads(body).items()
    assert item[0] == "error"
    return item[1]


async def kept(response):
    return response


async def test_a_length_beyond_the_limit_is_refused_before_the_body_is_read():
    asked = request("POST", PREDICT, BODY, {"content-length": "65"})
    response = await Service(Models(affine()), Limits(body=64)).answer(asked, kept)
    assert response.status == 413
    assert error_of(b"".join(response.body)) == "the body has 65 bytes or more; at most 64 are taken"
    assert b"".join([chunk async for chunk in asked.body]) == BODY  # nobody has read it


async def test_a_body_that_turns_out_too_long_is_cut_off_also_when_it_unpacks_to_more():
    service = Service(Models(affine()), Limits(body=1000))
    unsaid = {"content-length": "10"}
    assert (await answer(service, "POST", PREDICT, b" " * 1001, unsaid, chunk=400))[0] == 413
    assert (await answer(service, "POST", PREDICT, b" " * 1000, unsaid, chunk=400))[0] == 400  # not JSON
    bomb = gzip.compress(b" " * 10_000_000)
    assert (
        await answer(
            Service(Models(affine()), Limits(body=100_000)), "POST", PREDICT, bomb, {"content-encoding": "gzip"}
        )
    )[0] == 413


@pytest.mark.parametrize(
    ("packing", "body", "status", "text"),
    [
        ("gzip", gzip.compress(BODY, mtime=0), 200, ""),
        ("deflate", zlib.compress(BODY), 200, ""),
        ("gzip", gzip.compress(BODY, mtime=0)[:-1], 400, "ends too early"),
        ("gzip", gzip.compress(BODY, mtime=0) + b"x", 400, "goes on behind its end"),
        ("gzip", BODY, 400, "cannot be unpacked"),
        ("br", BODY, 415, "none of gzip, deflate, identity"),
    ],
)
@pytest.mark.parametrize("chunk", [None, 5, len(gzip.compress(BODY, mtime=0))])
async def test_packed_bodies_are_unpacked_and_damaged_ones_refused(packing, body, status, text, chunk):
    found, _, body = await answer(
        Service(Models(affine())), "POST", PREDICT, body, {"content-encoding": packing}, chunk
    )
    assert found == status
    assert status == 200 or text in error_of(body)


async def test_a_body_that_does_not_arrive_is_given_up():
    async def chunks():
        yield BODY[:5]
        await asyncio.Event().wait()

    service = Service(Models(affine()), Limits(body_seconds=20))
    start = asyncio.get_running_loop().time()
    response = await service.answer(request("POST", PREDICT)._replace(body=chunks()), kept)
    assert (response.status, response.headers["connection"]) == (408, "close")
    assert asyncio.get_running_loop().time() - start == pytest.approx(20)


async def test_more_requests_than_places_are_refused_unread_and_drain_waits_for_the_others():
    version, service = affine(), None
    version.gate = Gate()
    service = Service(Models(version), Limits(requests=2))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(answer(service, "POST", PREDICT, BODY)) for _ in range(2)]
        await version.gate.arrived(2)
        asked = request("POST", PREDICT, BODY)
        response = await service.answer(asked, kept)
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert b"".join([chunk async for chunk in asked.body]) == BODY
        assert (await answer(service, "GET", "/v1/models/affine"))[0] == 200  # which needs no place
        drained = group.create_task(service.drain())
        await asyncio.sleep(1)
        assert not drained.done()
        version.gate.open()
    assert [task.result()[0] for task in running] == [200, 200]
    assert service.running == 0


@pytest.mark.parametrize("path", [PREDICT, "/v2/models/affine/infer", "/v2/models/affine/generate"])
async def test_a_full_queue_refuses_a_request_before_its_body_is_read(path):
    version = affine()
    version.full = True
    asked = request("POST", path, BODY)
    response = await Service(Models(version)).answer(asked, kept)
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert error_of(response.body[0]) == "4096 rows wait"
    assert b"".join([chunk async for chunk in asked.body]) == BODY
    assert version.holders == 0


async def test_a_body_that_is_there_already_is_taken_as_one_that_arrives():
    service = Service(Models(affine()), Limits(body=64))
    packed = gzip.compress(BODY, mtime=0)
    for body, headers, status in [
        (BODY, {}, 200), (packed, {"content-encoding": "gzip"}, 200), (b" " * 65, {}, 413),
        (packed[:-1], {"content-encoding": "gzip"}, 400),
    ]:  # fmt: skip
        response = await service.answer(request("POST", PREDICT, headers=headers)._replace(body=body), kept)
        assert response.status == status


async def test_a_thousand_requests_that_are_cancelled_leave_nothing():
    version, records = affine(), []
    version.gate = Gate()
    service = Service(Models(version), observers=[records.append])
    tasks = [asyncio.ensure_future(answer(service, "POST", PREDICT, BODY)) for _ in range(1000)]
    await version.gate.arrived(1000)
    assert (service.running, version.holders) == (1000, 1000)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert (service.running, version.holders, version.cancelled) == (0, 0, 1000)
    assert {record.status for record in records} == {499}
    version.gate = None
    assert (await answer(service, "POST", PREDICT, BODY))[0] == 200


async def test_a_token_is_asked_for_except_for_health():
    service = Service(Models(affine()), tokens=Tokens.of(SECRET))
    status, headers, body = await answer(service, "POST", PREDICT, BODY)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert SECRET not in body.decode()
    assert (await answer(service, "POST", PREDICT, BODY, {"authorization": "Bearer other"}))[0] == 401
    for shown, status in [("Bearer", 200), ("bearer", 200), ("BEARER ", 200), ("Basic", 401), ("", 401)]:
        asked = {"authorization": f"{shown} {SECRET}"}
        assert (await answer(service, "POST", PREDICT, BODY, asked))[0] == status
    assert (await answer(service, "GET", "/v2/health/ready"))[0] == 200
    assert (await answer(service, "GET", "/v1/models/affine"))[0] == 401


async def test_web_pages_are_refused_unless_they_are_listed():
    page = {"origin": "https://example.org"}
    for origins, status in [(None, 200), (["https://example.org"], 200), ([], 403)]:
        service = Service(Models(affine()), origins=origins)
        found, headers, _ = await answer(service, "POST", PREDICT, BODY, page)
        assert (found, headers.get("access-control-allow-origin")) == (status, page["origin"] if origins else None)
        found, headers, _ = await answer(service, "POST", PREDICT, BODY)
        assert (found, "access-control-allow-origin" in headers) == (200, False)


async def test_a_browser_that_asks_first_is_told_what_a_listed_page_may_send_without_the_token():
    service = Service(Models(affine()), tokens=Tokens.of(SECRET), origins=["https://example.org"])
    status, headers, body = await answer(service, "OPTIONS", PREDICT, headers={"origin": "https://example.org"})
    assert (status, body) == (204, b"")
    assert "authorization, content-type" in headers["access-control-allow-headers"]
    assert headers["access-control-allow-origin"] == "https://example.org"
    assert (await answer(service, "OPTIONS", PREDICT, headers={"origin": "https://example.com"}))[0] == 403
    refused = await answer(service, "POST", PREDICT, BODY, {"origin": "https://example.org"})
    assert (refused[0], refused[1]["access-control-allow-origin"]) == (401, "https://example.org")  # it can read why


async def test_head_is_answered_where_get_is():
    service = Service(Models(affine()))
    assert (await answer(service, "HEAD", "/v2/health/ready"))[0] == 200
    assert (await answer(service, "HEAD", PREDICT))[0] == 405


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (errors.ResourceExhaustedError("4096 rows wait"), 503, "4096 rows wait"),
        (errors.InvalidArgumentError("bad").at("y", "matmul", line="secret.py:3", device=None, shapes=()), 400, "bad"),
        (errors.UnavailableError("it has ended"), 503, "it has ended"),
        (errors.DeadlineExceededError("late"), 504, "late"),
        (errors.InternalError("/home/me/secret.py"), 500, FAILED),
        (OSError("/home/me/secret.py"), 500, FAILED),
    ],
)
async def test_an_error_of_the_client_tells_its_text_and_one_of_the_server_is_in_the_log(error, status, text, caplog):
    version = affine()
    version.error = error
    found, headers, body = await answer(Service(Models(version)), "POST", PREDICT, BODY)
    assert (found, error_of(body)) == (status, text)
    assert ("retry-after" in headers) is (status == 503)
    assert ("secret.py" in caplog.text) is (status == 500)
    assert http_error(error) == (status, text)


def test_wrong_arguments_are_refused_by_name():
    for wrong, text in [
        (({"affine": affine()},), "models must be Models, not "),
        ((Models(), 5), "limits must be Limits, not 5"),
    ]:
        with pytest.raises(TypeError, match=text):
            Service(*wrong)
    with pytest.raises(TypeError, match=r"origins must be a list, not 'https://example\.org'"):
        Service(Models(), origins="https://example.org")


async def test_each_request_is_recorded():
    records = []
    service = Service(Models(affine(4)), observers=[records.append])
    await answer(service, "POST", PREDICT, b'{"instances": [[1, 2], [3, 4]]}')
    await answer(service, "GET", "/v9")
    seen, lost = records
    assert seen == ("POST", PREDICT, 200, seen.seconds, "affine", 4, 2, len('{"predictions":[[3.0,5.0],[7.0,9.0]]}'))
    assert (lost.status, lost.model) == (404, None)


def test_limits_are_numbers_above_0():
    with pytest.raises(ValueError, match=r"Limits\(requests=\) must be a number above 0, not 0"):
        Limits(requests=0)
