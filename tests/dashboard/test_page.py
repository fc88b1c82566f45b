"""The application: who may read it, what its responses allow, how it treats pages that are slow or gone."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

import aioflow as af
from aioflow.dashboard import access
from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Event, Graph, GraphNode, Points, Step
from aioflow.dashboard.monitor import Monitor
from aioflow.dashboard.page import serve

pytestmark = pytest.mark.sockets
SECRET = "a token of the page"
TOKEN = SECRET.replace(" ", "-")
STEP = Step(7, 0.0, 1.0, 0.5, 0.25, 0.25, (), (), (), (), (), ())


@pytest.fixture
def monitor():
    return Monitor("a thing", "session", [], ["run"])


class UntilTheEnd:
    """A source that says when nobody looks any more."""

    def __init__(self, ended):
        self.ended = ended

    async def watch(self, board):
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def received(socket):
    return json.loads((await socket.receive()).data)


async def test_a_page_gets_the_state_and_then_changes():
    ended = asyncio.Event()
    monitor = Monitor("a thing", "session", [UntilTheEnd(ended)], ["run"])
    async with serve(monitor) as page, aiohttp.ClientSession(page.url) as client:
        assert page.url.startswith("http://127.0.0.1:")
        async with client.ws_connect("updates") as socket:
            subject = (await received(socket))[-1]
            assert subject["kind"] == "Subject"
            assert subject["title"] == "a thing"
            assert monitor.is_watching
            monitor.board.post(Event(1.0, "info", "<b>hello</b>"))
            assert (await received(socket))[0]["text"] == "<b>hello</b>"
        async with asyncio.timeout(60):
            await ended.wait()


async def test_every_response_forbids_all_that_is_not_of_the_page(monitor):
    monitor.board.post(Graph(1, (GraphNode("a", "add", (), (), (), "", ""),)))
    monitor.board.post(STEP)
    async with serve(monitor) as page, aiohttp.ClientSession(page.url) as client:
        for path, status in {
            "": 200, "main.js": 200, "vendor/uplot.js": 200, "style.css": 200, "graph.json": 200, "steps/7.json": 200,
            "steps/7/trace.json": 200, "steps/8.json": 404, "nothing.js": 404, "../page.js": 404, "app.py": 404,
            f"steps/{'9' * 5000}.json": 404,
        }.items():  # fmt: skip
            async with client.get(path) as response:
                assert response.status == status, path
                for name, value in access.HEADERS.items():
                    assert response.headers[name] == value, path
        policy = access.HEADERS["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        async with client.get("steps/7/trace.json") as response:
            assert "traceEvents" in await response.json()


async def test_a_page_without_a_token_is_for_this_machine_and_this_page_alone(monitor):
    with pytest.raises(af.errors.FailedPreconditionError, match="token"):
        async with serve(monitor, host="0.0.0.0"):
            pass
    async with serve(monitor) as page, aiohttp.ClientSession(page.url) as client:
        async with client.get("", headers={"host": "evil.example:80"}) as response:
            assert response.status == 403
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as error:
                await client.ws_connect("updates", headers={"origin": origin})
            assert error.value.status == 403
        async with client.ws_connect("updates", headers={"origin": page.url.rstrip("/")}) as socket:
            assert await received(socket)
        for method in ("post", "put", "delete", "patch"):
            async with client.request(method, "graph.json") as response:
                assert response.status == 405
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await client.ws_connect("updates", headers={"origin": "http://["})
        assert error.value.status == 403
        async with client.get("", headers={"host": "["}) as response:
            assert response.status == 403
        async with client.get(f"{'a' * 1000}.js") as response:
            assert response.status == 404


async def test_a_token_is_asked_for_by_a_form_and_kept_in_a_cookie_that_no_script_reads(monitor):
    async with serve(monitor, token=TOKEN) as page:
        async with aiohttp.ClientSession(page.url) as client:
            for path in ("graph.json", "main.js", "updates", "vendor/uplot.js"):
                async with client.get(path) as response:
                    assert response.status == 401, path
            async with client.get("") as response:
                assert response.status == 401
                assert "password" in await response.text()
            async with client.post("sign-in", data={"token": "wrong"}) as response:
                assert response.status == 401
            async with client.get("main.js", headers={"authorization": f"Bearer {TOKEN}"}) as response:
                assert response.status == 200
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address
        async with aiohttp.ClientSession(page.url, cookie_jar=jar) as client:
            async with client.post(
                "sign-in", data={"token": TOKEN}, headers={"origin": "http://evil.example"}
            ) as response:
                assert response.status == 403
            async with client.post("sign-in", data={"token": f" {TOKEN}\n"}, allow_redirects=False) as response:
                assert response.status == 303
                cookie = response.headers["set-cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
                assert TOKEN not in cookie
            another = {"token": "another-secret-of-the-host"}
            async with serve(monitor, **another) as other, client.post(f"{other.url}sign-in", data=another) as response:
                assert response.status == 200
            for kind in ("multipart/form-data", "application/x-www-form-urlencoded; charset=none"):
                async with client.post("sign-in", data=b"token=a", headers={"content-type": kind}) as response:
                    assert response.status == 400, kind
            async with client.ws_connect("updates") as socket:
                assert await received(socket)


async def test_a_page_that_does_not_read_holds_up_nothing_and_no_queue(monitor):
    async with serve(monitor) as page, aiohttp.ClientSession(page.url) as client:
        async with client.ws_connect("updates", max_msg_size=0) as socket:
            await received(socket)
            text = "x" * 300
            for number in range(3000):  # the page does not read meanwhile
                for _ in range(20):
                    monitor.board.post(Event(float(number), "info", text))
                if number % 100 == 0:
                    await asyncio.sleep(0.001)
            monitor.board.post(Points(1.0, {"rate:steps": 42.0}))
            messages = []
            async with asyncio.timeout(60):
                while not any(
                    each["kind"] in ("Points", "History") and "42.0" in json.dumps(each) for each in messages
                ):
                    messages += await received(socket)
        assert len(messages) < 60_000 / 10


async def test_pages_are_closed_with_the_server(monitor):
    async with aiohttp.ClientSession() as client:
        async with serve(monitor) as page:
            reading = await client.ws_connect(f"{page.url}updates")
            idle = await client.ws_connect(f"{page.url}updates")
            await received(reading)
        assert (await reading.receive()).type in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.CLOSING,
        )
        await idle.close()
    assert not monitor.is_watching


async def test_it_is_mounted_in_an_application():
    with af.Graph().as_default() as graph:
        af.constant(1.0)
    async with af.Session(graph=graph) as session:
        app = web.Application()
        app.add_subapp("/live", af.dashboard.aiohttp_app(session))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}/live/") as client:
            async with client.get("", headers={"host": "of.the.application"}) as response:
                assert "main.js" in await response.text()
            async with client.ws_connect("updates") as socket:
                assert any(each["kind"] == "Subject" for each in await received(socket))
        await runner.cleanup()


async def test_a_port_that_is_taken_is_an_error(monitor):
    async with serve(monitor) as page:
        port = int(page.url.rsplit(":", 1)[1].strip("/"))
        with pytest.raises(af.errors.UnavailableError, match=f"127.0.0.1:{port} cannot be bound"):
            async with serve(Monitor("x", "session", [], []), port=port):
                pass


def test_other_things_have_no_page():
    with pytest.raises(TypeError, match="live page shows"):
        serve(Board())
