"""Places of inferences: of the server, and of each client."""

import asyncio
import json
import math

import pytest

from aioflow import errors
from aioflow.serving import places as places_module
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.limits import Limits
from aioflow.serving.places import Places
from aioflow.serving.service import Service
from aioflow.serving.tokens import Tokens
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine, received, request

PREDICT = "/v1/models/affine:predict"
BODY = b'{"instances": [[1, 2]]}'


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(places_module, "time", found)
    return found


def test_a_client_begins_as_many_requests_a_second_as_it_may(clock):
    places = Places(Limits(client_rate=2))
    for _ in range(3):
        for _ in range(2):
            places.take("a")
            places.leave("a")
        with pytest.raises(RequestRefusedError, match=r"may send 2 requests a second; try again in 1 s") as caught:
            places.take("a")
        assert (caught.value.status, caught.value.headers) == (429, {"retry-after": "1"})
        places.take("b")
        places.leave("b")
        clock.now += 1
    for number in range(1000):  # accounts of clients that have left are not kept
        clock.now += 1
        places.take(f"client {number}")
        places.leave(f"client {number}")
    assert len(places._clients._resting) < 5


@pytest.mark.parametrize("limits", [Limits(client_requests=2), Limits(client_rate=2)])
def test_accounts_of_clients_that_have_left_are_dropped_while_others_stay(limits, clock):
    places = Places(limits)
    for client in ("long", "longer"):
        places.take(client)
    for number in range(100):
        clock.now += 1
        places.take(f"client {number}")
        places.leave(f"client {number}")
    assert places._clients._running.keys() == {"long", "longer"}
    assert len(places._clients._resting) < 5


def test_a_refused_client_that_runs_nothing_stays_refused(clock):
    places = Places(Limits(client_rate=1))
    places.take("a")
    places.leave("a")
    for _ in range(2):
        with pytest.raises(RequestRefusedError, match="may send 1 requests a second"):
            places.take("a")
    clock.now = 1
    places.take("a")


@pytest.mark.parametrize("wrong", [{"body": 1.5}, {"json": math.inf}, {"requests": 2.0}])
def test_limits_of_bytes_and_requests_are_whole_numbers(wrong):
    with pytest.raises(ValueError, match=r"must be a whole number"):
        Limits(**wrong)


def test_a_client_that_is_slower_than_one_request_a_second_is_told_how_long_it_waits(clock):
    places = Places(Limits(client_rate=0.1))
    places.take("a")
    with pytest.raises(RequestRefusedError) as caught:
        places.take("a")
    assert caught.value.headers == {"retry-after": "10"}
    clock.now = 10
    places.take("a")


def test_a_client_waits_for_as_long_as_its_rows_take(clock):
    places = Places(Limits(client_rows=10))
    for rows in (4, 40):  # it may begin as long as something is left of a second's rows
        places.take("a")
        places.charge("a", rows)
        places.leave("a")
    with pytest.raises(RequestRefusedError, match="may send 10 rows a second; try again in 4 s") as caught:
        places.take("a")
    assert (caught.value.status, caught.value.headers, places.taken) == (429, {"retry-after": "4"}, 0)
    for _ in range(2):
        places.take("b")
    places.charge("b", 10)
    with pytest.raises(RequestRefusedError, match="10 rows a second; try again in 1 s"):
        places.charge("b", 1)  # of a request that began before
    for _ in range(2):
        places.leave("b")
    clock.now = 3.5
    for number in range(100):  # the account of a client that must wait is kept, and holds up no other
        places.take(f"client {number}")
        places.leave(f"client {number}")
        clock.now += 0.001
    assert "a" in places._clients._resting
    clock.now += 2
    for _ in range(100):
        places.take("b")
        places.leave("b")
    assert places._clients._resting.keys() == {"b"}
    places.take("a")


def test_the_places_of_a_client_and_those_of_the_server():
    places = Places(Limits(requests=3, client_requests=2))
    places.take("a")
    places.take("a")
    with pytest.raises(RequestRefusedError, match="2 requests of this client run already"):
        places.take("a")
    places.take("b")
    with pytest.raises(errors.ResourceExhaustedError, match="3 requests run already"):
        places.take("b")
    places.leave("a")
    places.take("a")
    assert places.taken == 3


async def test_a_client_beyond_its_quota_is_refused_unread_and_others_are_served():
    version = affine()
    version.gate = Gate()
    service = Service(Models(version), Limits(client_requests=1))

    def ask(client):
        return asyncio.ensure_future(service.answer(request("POST", PREDICT, BODY)._replace(client=client), received))

    running = [ask("a"), ask("b")]
    await version.gate.arrived(2)
    status, headers, body = await ask("a")
    assert (status, headers["retry-after"]) == (429, "1")
    assert "of this client" in json.loads(body)["error"]
    version.gate.open()
    assert [(await task)[0] for task in running] == [200, 200]
    assert (await ask("a"))[0] == 200


@pytest.mark.parametrize("path", [PREDICT, "/v2/models/affine/infer", "/v2/models/affine/generate"])
async def test_a_client_is_a_token_where_there_are_several(path):
    first, second = "the first of the two".replace(" ", "-"), "the second of the two".replace(" ", "-")
    service = Service(Models(affine()), Limits(client_rows=2), tokens=Tokens.of([first, second]))
    body = {"instances": [[1, 2]] * 3, "x": [[1, 2]] * 3}
    body["inputs"] = [{"name": "x", "shape": [3, 2], "datatype": "FP32", "data": body["x"]}]
    kept = {PREDICT: ["instances"], "/v2/models/affine/infer": ["inputs"]}.get(path, ["x"])
    encoded = json.dumps({key: body[key] for key in kept}).encode()

    async def ask(token, client):
        asked = request("POST", path, encoded, {"authorization": f"Bearer {token}"})._replace(client=client)
        return (await service.answer(asked, received))[0]

    assert [await ask(first, "a"), await ask(first, "b"), await ask(second, "b"), await ask("x" * 20, "c")] == [
        200, 429, 200, 401
    ]  # fmt: skip
    with pytest.raises(ValueError, match="empty list"):
        Tokens.of([])


async def test_a_response_that_is_not_read_takes_no_place_and_is_given_up():
    version, service = affine(), None
    service = Service(Models(version), Limits(requests=1, answer_seconds=30))
    reading = Gate()

    async def slow(response):
        await reading.wait()

    loop = asyncio.get_running_loop()
    large = json.dumps({"instances": [[1, 2]] * 10_000}).encode()
    start = loop.time()
    sending = asyncio.ensure_future(service.answer(request("POST", PREDICT, large), slow))
    await reading.arrived(1)
    assert (await service.answer(request("POST", PREDICT, BODY), received))[0] == 200
    drained = asyncio.ensure_future(service.drain())
    with pytest.raises(ConnectionAbortedError, match="within 30 s"):
        await sending
    assert loop.time() - start == pytest.approx(30)
    await drained
