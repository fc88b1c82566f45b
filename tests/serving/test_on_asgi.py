"""Models behind ASGI, driven by hand: messages in, messages out."""

import asyncio
import json

import pytest

import aioflow as af
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine, counter

PREDICT = "/v1/models/affine:predict"
BODY = b'{"instances": [[1, 2]]}'


class Client:
    """One request: the messages that it sends, and those that come back."""

    def __init__(self, method="POST", path=PREDICT, headers=(), root_path=""):
        self.scope = {"type": "http", "method": method, "path": path, "root_path": root_path, "headers": list(headers)}
        self.back = []
        self._messages = asyncio.Queue()

    def send_body(self, body, more=False):
        self._messages.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self):
        self._messages.put_nowait({"type": "http.disconnect"})

    async def ask(self, app):
        async def send(message):
            self.back.append(message)

        await app(self.scope, self._messages.get, send)
        return self

    @property
    def status(self):
        return self.back[0]["status"]

    @property
    def body(self):
        assert [message["more_body"] for message in self.back[1:]] == [True] * (len(self.back) - 2) + [False]
        return b"".join(message["body"] for message in self.back[1:])


@pytest.mark.parametrize(("root_path", "path"), [("", PREDICT), ("/models", PREDICT), ("/models", f"/models{PREDICT}")])
async def test_a_request_is_answered_wherever_the_callable_is_mounted(root_path, path):
    client = Client(path=path, root_path=root_path)
    client.send_body(BODY[:9], more=True)
    client.send_body(BODY[9:])
    await client.ask(af.serving.asgi_app(Models(affine())))
    assert (client.status, json.loads(client.body)) == (200, {"predictions": [[3.0, 5.0]]})
    headers = dict(client.back[0]["headers"])
    assert headers == {b"content-type": b"application/json", b"content-length": str(len(client.body)).encode()}


async def test_a_request_without_a_body_is_answered_and_a_large_one_refused_unread():
    app = af.serving.asgi_app(Models(affine()), af.serving.Limits(body=1000))
    assert (await Client("GET", "/v2/health/ready").ask(app)).status == 200
    assert (await Client(headers=[(b"Content-Length", b"1001")]).ask(app)).status == 413


async def test_a_client_that_leaves_at_any_stage_is_answered_no_longer():
    version = affine()
    version.gate = Gate()
    app = af.serving.asgi_app(Models(version))
    for sent in (None, BODY[:5]):
        client = Client()
        if sent:
            client.send_body(sent, more=True)
        client.leave()
        assert (await client.ask(app)).status == 400  # which its server throws away
    client = Client()
    client.send_body(BODY)
    asking = asyncio.ensure_future(client.ask(app))
    await version.gate.arrived(1)
    client.leave()
    await asking
    assert (client.back, version.cancelled, version.holders) == ([], 1, 0)


async def test_cancelling_the_callable_cancels_the_inference():
    version = affine()
    version.gate = Gate()
    app = af.serving.asgi_app(Models(version))
    client = Client()
    client.send_body(BODY)
    asking = asyncio.ensure_future(client.ask(app))
    await version.gate.arrived(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (client.back, version.cancelled, version.holders) == ([], 1, 0)


async def test_a_stream_is_sent_as_it_is_made_and_ends_when_its_client_leaves():
    version = counter()
    app = af.serving.asgi_app(Models(version))
    client = Client(path="/v2/models/counter/generate_stream")
    client.send_body(b'{"n": [3]}')
    await client.ask(app)
    assert client.body.count(b"data: ") == 3
    version.gate = Gate()
    client = Client(path="/v2/models/counter/generate_stream")
    client.send_body(b'{"n": [3]}')
    asking = asyncio.ensure_future(client.ask(app))
    await version.gate.arrived(1)
    client.leave()
    await asking
    assert (version.cancelled, version.holders) == (1, 0)


async def test_the_events_of_the_life_of_a_server_are_answered():
    app = af.serving.asgi_app(Models(affine()))
    client = Client()
    client.scope = {"type": "lifespan"}
    for kind in ("startup", "shutdown"):
        client._messages.put_nowait({"type": f"lifespan.{kind}"})
    await client.ask(app)
    assert client.back == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]
