"""Servers over real sockets: credentials, functions and files of a task, who takes part, and how one stops."""

import asyncio
import contextlib
import json
import logging
import socket

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.peer import statuses
from aioflow.net.transport.authority import init

pytestmark = pytest.mark.sockets
SECRET = "correct-horse-battery"
ALONE = {"worker": ["127.0.0.1:0"]}


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.delenv("AIOFLOW_TOKEN", raising=False)
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(f"{SECRET}\n")
    return path


@contextlib.asynccontextmanager
async def session(target, config=None):
    async with af.Session(target, config=config) as session:
        yield session


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def spec(**jobs):
    ports = iter(free_ports(sum(jobs.values())))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}


# Credentials


async def test_who_shows_the_token_of_a_file_is_let_in_and_nobody_else(token_file, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.touch(0o600)
    other.write_text("another-token-entirely")
    y = af.constant(2.0) * 3.0
    async with af.train.Server(ALONE, "worker", config=af.Config(token_file=token_file)) as server:
        async with session(server.target, af.Config(token_file=token_file)) as allowed:
            assert await allowed.run(y) == 6
        for config, text in (
            (None, "asks for a token, and none is set: AIOFLOW_TOKEN"),
            (af.Config(token_file=str(other)), "does not accept the token"),
        ):
            async with session(server.target, config) as refused:
                with pytest.raises(errors.UnauthenticatedError, match=text) as caught:
                    await refused.run(y)
                assert SECRET not in str(caught.value)
        monkeypatch.setenv("AIOFLOW_TOKEN", SECRET)
        async with session(server.target) as allowed:
            assert await allowed.run(y) == 6


async def test_the_token_is_in_no_text_and_no_log(token_file, caplog):
    caplog.set_level(logging.DEBUG)
    config = af.Config(token_file=token_file)
    async with af.train.Server(ALONE, "worker", config=config) as server, session(server.target, config) as allowed:
        await allowed.run(af.constant(1))
        shown = [repr(each) for each in (config, server, allowed, server._network, server._network.token)]
    assert SECRET not in "".join([*shown, caplog.text])
    assert str(token_file) not in repr(config)


async def test_tasks_that_share_a_directory_of_certificates_speak_tls(tmp_path, caplog):
    init(tmp_path / "ca")
    init(tmp_path / "strange")
    config, strange = af.Config(ssl=tmp_path / "ca"), af.Config(ssl=str(tmp_path / "strange"))
    jobs = spec(ps=1, worker=1)
    with af.device("/job:ps"):
        w = af.Variable(np.ones(3), name="w")
    with af.device("/job:worker"):
        total = af.reduce_sum(w * 2.0)
    async with (
        af.train.Server(jobs, "ps", config=config),
        af.train.Server(jobs, "worker", config=config) as server,
    ):
        assert server.target.startswith("wss://127.0.0.1:")
        async with session(server.target, config) as allowed:
            await allowed.run(w.initializer)
            assert await allowed.run(total) == 6
        for other in (strange, None):
            async with session(server.target, other) as refused:
                with pytest.raises(errors.UnauthenticatedError, match="TLS"):
                    await refused.run(total)


@pytest.mark.parametrize("config", [None, "server certificate alone"])
async def test_an_address_that_others_reach_is_not_bound_without_a_credential(config, tmp_path):
    if config is not None:
        init(tmp_path)
        config = af.Config(ssl=(_context(tmp_path, mutual=False), _context(tmp_path, server=False)))
    server = af.train.Server(ALONE, "worker", config=config, host="0.0.0.0")
    with pytest.raises(errors.FailedPreconditionError, match=r"0\.0\.0\.0 can be reached from other machines"):
        await server.__aenter__()


def _context(directory, server=True, mutual=True):
    from aioflow.net.transport.credentials import client_tls, server_tls

    return server_tls(directory, mutual=mutual) if server else client_tls(directory)


async def test_with_a_token_a_server_listens_at_every_address(token_file):
    config = af.Config(token_file=token_file)
    (port,) = free_ports(1)
    jobs = {"worker": [f"127.0.0.1:{port}"]}
    async with af.train.Server(jobs, "worker", config=config, host="0.0.0.0") as server:
        assert server.target == f"ws://127.0.0.1:{port}"
        async with session(server.target, config) as allowed:
            assert await allowed.run(af.constant(1)) == 1


@pytest.mark.parametrize("told", [3, ("a", "b")])
async def test_certificates_that_are_none_are_refused(told):
    with pytest.raises(TypeError, match="ssl is a directory, an SSLContext or a pair"):
        af.train.Server(ALONE, "worker", config=af.Config(ssl=told))


async def test_a_server_needs_to_know_how_to_listen_by_tls(tmp_path):
    init(tmp_path)
    with pytest.raises(TypeError, match="a server listens and dials"):
        af.train.Server(ALONE, "worker", config=af.Config(ssl=_context(tmp_path, server=False)))
    with pytest.raises(errors.FailedPreconditionError, match=r"certificates in .* cannot be used"):
        af.train.Server(ALONE, "worker", config=af.Config(ssl=tmp_path / "nowhere"))


# Functions


async def test_a_function_is_called_by_the_name_under_which_the_worker_has_it():
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    functions = {"double": lambda x: x * 2, "later": later}
    x = af.placeholder(af.float32, [None])
    y = af.py_func("later", [af.py_func("double", [x], af.float32)], af.float32)
    async with (
        af.train.Server(ALONE, "worker", py_funcs=functions) as server,
        session(server.target) as allowed,
    ):
        np.testing.assert_array_equal(await allowed.run(y, {x: [1, 2]}), [3, 5])


async def test_other_functions_are_refused_when_the_graph_is_registered_and_nothing_runs():
    called = []
    x = af.placeholder(af.float32, [])

    def body(i):
        return af.py_func("os.system", [i], af.float32, name="call")

    first = af.py_func("seen", [x], af.float32)
    looped = af.while_loop(lambda i: i < 3.0, body, [x], shape_invariants=[af.TensorShape(None)])
    async with (
        af.train.Server(ALONE, "worker", py_funcs={"seen": called.append}) as server,
        session(server.target) as refused,
    ):
        with pytest.raises(errors.PermissionDeniedError, match=r"no py_func 'os\.system' is registered") as caught:
            await refused.run([first, looped], {x: 1.0})
        assert caught.value.task == server.name or server.name in caught.value.message
        assert caught.value.op.endswith("call")
        assert called == []
        with pytest.raises(errors.InvalidArgumentError, match="pass the name under which the server"):
            await refused.run(af.py_func(called.append, [x], af.float32), {x: 1.0})


async def test_in_a_session_of_the_process_nothing_is_registered():
    async with session("") as local:
        with pytest.raises(errors.PermissionDeniedError, match="no py_func 'f' is registered with /job:localhost"):
            await local.run(af.py_func("f", [1.0], af.float32))


@pytest.mark.parametrize("functions", [{"f": 3}, {3: abs}, {"": abs}])
def test_functions_have_names(functions):
    with pytest.raises(TypeError, match="py_funcs are functions by their names"):
        af.train.Server(ALONE, "worker", py_funcs=functions)


# Files


async def test_a_server_opens_no_file_unless_it_is_told_so(tmp_path):
    (tmp_path / "a").write_bytes(b"inside")
    name = str(tmp_path / "a")
    queue = af.FIFOQueue(1, [af.string], shapes=[[]])
    uses = {
        "read": af.read_file(name),
        "write": af.write_file(str(tmp_path / "b"), "new"),
        "match": af.matching_files(str(tmp_path / "*")),
        "reader": af.WholeFileReader().read(queue)[1],
    }
    put = queue.enqueue(name)
    async with af.train.Server(ALONE, "worker") as server, session(server.target) as confined:
        await confined.run(put)
        for use in uses.values():
            with pytest.raises(errors.PermissionDeniedError, match="not below a root that Config"):
                await confined.run(use)
    assert not (tmp_path / "b").exists()
    config = af.Config(file_roots=[tmp_path])
    async with af.train.Server(ALONE, "worker", config=config) as server, session(server.target) as allowed:
        await allowed.run(put)
        await allowed.run(uses["write"])
        assert await allowed.run(uses["read"]) == b"inside"
        assert await allowed.run(uses["reader"]) == b"inside"
        assert [bytes(found) for found in await allowed.run(uses["match"])] == [
            str(tmp_path / found).encode() for found in "ab"
        ]


async def test_a_session_of_the_process_may_be_confined_too(tmp_path):
    (tmp_path / "a").write_bytes(b"inside")
    text = af.read_file(str(tmp_path / "a"))
    for roots, allowed in ((None, True), ([tmp_path], True), ([tmp_path / "a" / "b"], False), ([], False)):
        async with session("", af.Config(file_roots=roots)) as local:
            if allowed:
                assert await local.run(text) == b"inside"
            else:
                with pytest.raises(errors.PermissionDeniedError):
                    await local.run(text)


# Who takes part


async def test_a_session_needs_only_the_tasks_that_its_filters_name():
    jobs = spec(ps=1, worker=2)
    with af.device("/job:ps"):
        y = af.constant(2.0) * 3.0
    with af.device("/job:worker/task:1"):
        absent = af.placeholder(af.float32, [])
    async with af.train.Server(jobs, "ps"), af.train.Server(jobs, "worker") as server:
        with pytest.raises(errors.UnavailableError, match="/job:worker/replica:0/task:1 at"):
            async with session(server.target) as whole:
                await whole.run(y)
        config = af.Config(device_filters=("/job:ps", "/job:worker/task:0"))
        async with session(server.target, config) as some:
            assert await some.run(y) == 6
            assert len(some.list_devices()) == 2
            with pytest.raises(errors.InvalidArgumentError, match="task:1"):
                await some.run(absent + 1.0, {absent: 1.0})
        for filters, text in ((["/job:chief"], "match no task of the cluster"), (["/jub:ps"], "malformed device")):
            with pytest.raises(errors.InvalidArgumentError, match=text):
                async with session(server.target, af.Config(device_filters=filters)) as none:
                    await none.run(y)


async def test_tasks_start_in_any_order_within_the_limit_of_who_waits_for_them(monkeypatch):
    asked, status = asyncio.Event(), statuses._status

    async def tell(*arguments):
        found = await status(*arguments)
        if isinstance(found, errors.UnavailableError):
            asked.set()
        return found

    monkeypatch.setattr(statuses, "_status", tell)
    jobs = spec(ps=1, worker=1)
    with af.device("/job:ps"):
        y = af.constant(2.0) * 3.0
    config = af.Config(operation_timeout=240.0)
    async with af.train.Server(jobs, "worker") as server, session(server.target, config) as client:
        run = asyncio.create_task(client.run(y))
        await asked.wait()
        async with af.train.Server(jobs, "ps"):
            assert await run == 6


async def test_tasks_that_know_other_clusters_or_are_others_say_so():
    jobs = spec(ps=1, worker=1)
    swapped = {"ps": jobs["worker"], "worker": jobs["ps"]}
    y = af.constant(1)
    async with af.train.Server(jobs, "worker") as server, session(server.target) as client:
        async with af.train.Server({"ps": jobs["ps"], "worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "ps"):
            with pytest.raises(errors.FailedPreconditionError, match="has another cluster spec than /job:worker"):
                await client.run(y)
        async with af.train.Server(swapped, "worker"):
            with pytest.raises(errors.FailedPreconditionError, match=r"this is /job:worker/.*, not /job:ps/"):
                await client.run(y)
        with pytest.raises(errors.UnavailableError, match="cannot be bound: "):
            await af.train.Server(swapped, "ps").__aenter__()


# Stopping


async def test_a_server_that_is_asked_to_stop_answers_and_then_ends_what_runs(caplog):
    caplog.set_level(logging.INFO, "aioflow.net")
    jobs = spec(worker=2)
    queue = af.FIFOQueue(1, [af.float32], shapes=[[]])
    waiting = queue.dequeue()

    async def serve(task):
        async with af.train.Server(jobs, "worker", task) as server:
            targets.append(server.target)
            ready.release()
            await server.join()

    targets, ready = [], asyncio.Semaphore(0)
    serving = [asyncio.create_task(serve(task)) for task in range(2)]
    for _ in serving:
        await ready.acquire()
    async with session(targets[0]) as client:
        run = asyncio.create_task(client.run(waiting))
        await client.run(queue.size())
        await af.train.stop_servers(jobs, reason="done")
        with pytest.raises(errors.UnavailableError):
            await run
        await asyncio.gather(*serving)
    assert "/job:worker/replica:0/task:1 is to stop: client" in caplog.text
    assert "'done'" in caplog.text
    await af.train.stop_servers(jobs)
    assert caplog.text.count("is down already: no process listens there") == 2


async def test_a_server_that_nobody_joins_is_stopped_by_its_owner():
    async with af.train.Server(ALONE, "worker") as server:
        server.ask_to_stop()
        await server.join()
        async with session(server.target) as client:
            assert await client.run(af.constant(1)) == 1
        await server.stop()
        await server.stop()
        await server.join()


def test_a_cluster_is_read_from_a_file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"ps": ["a:1"], "worker": {"1": "b:2"}}))
    found = af.train.ClusterSpec.from_json(path)
    assert found == af.train.ClusterSpec({"ps": ["a:1"], "worker": {1: "b:2"}})
    assert found.task_address("worker", 1) == "b:2"
