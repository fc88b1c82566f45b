"""The commands that serve: `worker`, `cluster`, `ca`. Tasks are processes, as users start them."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import numpy as np
import pytest

import aioflow as af
from aioflow import cli, errors
from aioflow.cli.worker import loop_factory, read_cluster
from aioflow.launch.functions import load_functions
from aioflow.launch.resolvers import RESOLVERS
from aioflow.net.transport.channel import ClosedError, receive
from aioflow.net.transport.websocket_server import dial
from aioflow.net.wire.codec import announcement
from aioflow.net.wire.control_verbs import VERSIONS, Hello
from aioflow.net.wire.limits import Limits
from tests.support.cluster_processes import LONGEST
from tests.support.net_frames import frames

ROOT = Path(__file__).parents[2]
SECRET = "correct-horse-battery"
ONE = {"worker": ["127.0.0.1:1"]}


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def running(*arguments, cwd=ROOT):
    """A command as a process, which has to end by itself."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("AIOFLOW_TOKEN", None)
    command = [sys.executable, "-W", "error", "-m", "aioflow", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd
    )
    with process:
        try:
            yield process
            process.wait(LONGEST)
        finally:
            process.kill()


@pytest.fixture
def one(tmp_path):
    """The file of a cluster of one task."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"worker": [f"127.0.0.1:{free_ports(1)[0]}"]}))
    return path


def run(target, build, config=None):
    async def main():
        with af.Graph().as_default() as graph:
            fetch = build()
        async with af.Session(target, graph=graph, config=config) as session:
            return await session.run(fetch)

    return asyncio.run(main())


# worker


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "number"),
    [
        ("uvloop", signal.SIGTERM),
        pytest.param("asyncio", signal.SIGINT, marks=pytest.mark.long),
        pytest.param("uvloop", signal.SIGINT, marks=pytest.mark.long),
        pytest.param("asyncio", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_a_worker_says_when_it_listens_and_stops_at_a_signal(one, loop, number):
    with running("worker", "--cluster", one, "--job", "worker", "--loop", loop) as worker:
        line = worker.stdout.readline()
        target = re.fullmatch(r"/job:worker/replica:0/task:0 listens: (ws://127\.0\.0\.1:\d+)\n", line)[1]
        assert run(target, lambda: af.constant(2.0) * 3.0) == 6
        worker.send_signal(number)
        assert (worker.wait(LONGEST), worker.stdout.read(), worker.stderr.read()) == (0, "", "")


@pytest.mark.sockets
@pytest.mark.slow
def test_the_page_of_a_cluster_is_shown_by_a_worker_and_from_outside(one):
    with running("worker", "--cluster", one, "--dashboard", "0") as worker:
        target, page = (worker.stdout.readline().split()[-1] for _ in range(2))
        with running("dashboard", target, "--port", "0") as shown:
            other = shown.stdout.readline().split()[-1]
            assert asyncio.run(tasks_on(page)) == asyncio.run(tasks_on(other)) == {"/job:worker/replica:0/task:0": "up"}
            shown.send_signal(signal.SIGTERM)
            assert (shown.wait(LONGEST), shown.stderr.read()) == (0, "")
        worker.send_signal(signal.SIGTERM)
        assert (worker.wait(LONGEST), worker.stderr.read()) == (0, "")


async def tasks_on(page):
    """The tasks that a page shows, with their states."""
    async with (
        asyncio.timeout(LONGEST),
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{page}updates") as socket,
    ):
        async for message in socket:
            for each in json.loads(message.data):
                if each["kind"] == "Cluster":
                    return {task["name"]: task["state"] for task in each["tasks"]}
    return {}


@pytest.mark.parametrize("target", ["http://host:1", "ws://", "nothing.json"])
def test_other_targets_have_no_page(target, capsys):
    assert cli.main(["dashboard", target]) == 1
    assert target in capsys.readouterr().err


@pytest.mark.sockets
@pytest.mark.slow
def test_a_worker_has_a_token_functions_and_files_and_is_stopped_over_the_wire(one, tmp_path):
    (tmp_path / "helpers.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("text")
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(SECRET)
    options = ["--token-file", "token", "--py-funcs", "helpers", "--file-root", "data"]
    config = af.Config(token_file=tmp_path / "token")
    with running("worker", "--cluster", one, "--job", "worker", *options, cwd=tmp_path) as worker:
        target = worker.stdout.readline().split()[-1]
        assert run(target, lambda: af.py_func("double", [2.0], af.float32), config) == 4
        assert run(target, lambda: af.read_file(str(tmp_path / "data" / "a")), config) == b"text"
        with pytest.raises(errors.PermissionDeniedError):
            run(target, lambda: af.read_file(str(tmp_path / "token")), config)
        with pytest.raises(errors.UnauthenticatedError):
            run(target, lambda: af.constant(1))
        assert cli.main(["cluster", "down", "--cluster", str(one), "--token-file", str(tmp_path / "token")]) == 0
        assert worker.wait(LONGEST) == 0
        assert SECRET not in worker.stdout.read() + worker.stderr.read()


BAD = {
    "is not JSON": ("{", []),
    "a cluster is an object of jobs": ("[]", []),
    "have one address": (json.dumps({"ps": ["a:1"], "worker": ["a:1"]}), []),
    "there is no job 'worker'": (json.dumps({"ps": ["127.0.0.1:1"]}), []),
    "has no task 3": (json.dumps(ONE), ["--task", "3"]),
    "there is no job ''": (json.dumps(ONE), ["--job", ""]),
    "No module named 'nonesuch'": (json.dumps(ONE), ["--py-funcs", "nonesuch"]),
    "the module has no functions": (json.dumps(ONE), ["--py-funcs", "antigravity_of_ours"]),
    "token file nowhere cannot be read": (json.dumps(ONE), ["--token-file", "nowhere"]),
    "certificates in nowhere cannot be used": (json.dumps(ONE), ["--tls", "nowhere"]),
    "clients need no credential": (json.dumps(ONE), ["--host", "0.0.0.0"]),
    "'..x' is not a module name": (json.dumps(ONE), ["--py-funcs", "..x"]),
    "'' is not a module name": (json.dumps(ONE), ["--py-funcs", ""]),
    "the token file short: a token has at least": (json.dumps(ONE), ["--token-file", "short"]),
    "--file-root nowhere: there is no such folder": (json.dumps(ONE), ["--file-root", "nowhere"]),
    "is not an address": (json.dumps({"worker": ["nohost"]}), []),
    "cannot be bound": (json.dumps({"worker": ["192.0.2.1:2222"]}), ["--token-file", "token"]),
}


@pytest.mark.parametrize("text", BAD)
def test_a_worker_that_cannot_be_says_why_and_ends_with_1(text, tmp_path, monkeypatch, capsys):
    content, options = BAD[text]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIOFLOW_TOKEN", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "cluster.json").write_text(content)
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "short").touch(0o600)
    (tmp_path / "short").write_text("short")
    (tmp_path / "antigravity_of_ours.py").write_text("x = 1\n")
    assert cli.main(["worker", "--cluster", "cluster.json", "--job", "worker", *options]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("aioflow: ")
    assert text in err
    assert SECRET not in err


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.long
def test_a_worker_gives_up_a_peer_that_is_silent_for_as_long_as_it_is_told(one):
    async def silent(address):
        """The worker's answer to the greeting. Says nothing more until the worker closes the connection."""
        channel = await dial(address, None, None, Limits())
        channel.send(*frames(Hello("client", VERSIONS, 1)))
        welcome = announcement(await receive(channel), Limits())
        with contextlib.suppress(ClosedError):
            while True:
                await receive(channel)
        await channel.close()
        return welcome.envelope([]).message

    with running("worker", "--cluster", one, "--heartbeat-timeout", "0.3") as worker:
        address = worker.stdout.readline().split()[-1].removeprefix("ws://")
        welcome = asyncio.run(silent(address))
        assert welcome.heartbeat == pytest.approx(0.3, rel=0.2)  # by default it would be 5
        worker.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("text", ["0", "-1", "inf", "soon"])
def test_how_long_silence_is_borne_with_is_a_number_above_0(text, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["worker", "--heartbeat-timeout", text])
    assert ended.value.code == 2
    assert f"invalid seconds value: '{text}'" in capsys.readouterr().err


def test_without_a_file_the_environment_tells_which_task_it_is(monkeypatch, capsys):
    for variable in RESOLVERS:
        monkeypatch.delenv(variable, raising=False)
    assert cli.main(["worker"]) == 1
    assert "the environment describes no cluster" in capsys.readouterr().err
    spec = {"cluster": {"worker": ["192.0.2.1:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(spec))
    assert cli.main(["worker", "--host", "192.0.2.2"]) == 1
    assert "192.0.2.2 can be reached from other machines" in capsys.readouterr().err


def test_a_worker_without_a_certificate_of_its_own_says_what_is_missing(one, tmp_path, capsys):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    assert cli.main(["ca", "init", str(tmp_path / "ca")]) == 0
    (tmp_path / "ca" / "node.pem").unlink()
    assert cli.main(["worker", "--cluster", str(one), "--tls", str(tmp_path / "ca")]) == 1
    assert f"aioflow: {tmp_path / 'ca'} has no node.pem, which a task shows to others" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--job", "ps"], ["--task", "0"], ["--job", "worker", "--task", "7"]])
def test_which_task_of_a_file_it_is_needs_the_file(options, monkeypatch, capsys):
    spec = {"cluster": {"worker": ["192.0.2.1:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(spec))
    assert cli.main(["worker", *options]) == 1
    assert "aioflow: --job and --task select a task of --cluster FILE" in capsys.readouterr().err


def test_a_cluster_whose_file_is_missing_is_named(capsys):
    assert cli.main(["worker", "--cluster", "nowhere.json", "--job", "worker"]) == 1
    assert "nowhere.json" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError):
        read_cluster("nowhere.json")


def test_the_functions_of_a_module_are_its_public_ones_or_those_it_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "funcs_all.py").write_text("from os.path import join\n__all__ = ['join']\ndef other(): ...\n")
    (tmp_path / "funcs_own.py").write_text("from os import system\ndef one(): ...\ndef _two(): ...\nclass C: ...\n")
    assert list(load_functions("funcs_all")) == ["join"]
    assert list(load_functions("funcs_own")) == ["one"]


def test_the_loop_is_uvloop_unless_asyncio_is_wanted():
    for name, module in (("uvloop", "uvloop"), ("asyncio", "asyncio")):
        loop = loop_factory(name)()
        loop.close()
        assert type(loop).__module__.startswith(module)


# cluster


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc to find child processes in")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGINT])
def test_a_cluster_starts_names_a_dead_task_and_ends_with_its_status_or_by_a_signal(number):
    with running("cluster", "up", "-n", "2", "--ps", "1") as cluster:
        lines = [cluster.stdout.readline().strip() for _ in range(5)]
        tasks = [re.fullmatch(r"(/job:\w+/replica:0/task:\d) at 127\.0\.0\.1:\d+", line)[1] for line in lines[:3]]
        assert tasks == [f"/job:{name}" for name in ("ps/replica:0/task:0", "worker/replica:0/task:0",
                                                     "worker/replica:0/task:1")]  # fmt: skip
        target, file = lines[3].removeprefix("target "), lines[4].removeprefix("token file ")
        assert os.stat(file).st_mode & 0o777 == 0o600
        assert Path(file).read_text() not in "".join(lines)

        def build():
            with af.device("/job:ps"):
                x = af.constant(np.ones(3))
            with af.device("/job:worker/task:1"):
                return af.reduce_sum(x)

        assert run(target, build, af.Config(token_file=file)) == 3
        children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
        if number == signal.SIGKILL:
            os.kill(int(children[2]), signal.SIGKILL)
            told = "/job:worker/replica:0/task:1 was lost: its process was ended by SIGKILL"
            assert told in cluster.stderr.readline()
            assert cluster.wait(LONGEST) == 128 + signal.SIGKILL
        else:
            cluster.send_signal(signal.SIGINT)
            assert cluster.wait(LONGEST) == 0
        assert cluster.stderr.read() == ""
    assert not Path(file).exists()
    assert not any(Path(f"/proc/{child}").exists() for child in children)


@pytest.mark.long
@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc to find child processes in")
def test_a_cluster_restarts_dead_tasks_with_the_option_restart():
    with running("cluster", "up", "-n", "2", "--restart") as cluster:
        _, _, target, file = [cluster.stdout.readline().split()[-1] for _ in range(4)]
        children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
        for task in (1, 0):
            os.kill(int(children[task]), signal.SIGKILL)
            name = f"/job:worker/replica:0/task:{task}"
            assert f"{name} died: its process was ended by SIGKILL" in cluster.stderr.readline()
            assert f"{name} is back at 127.0.0.1:" in cluster.stderr.readline()

        def build():
            with af.device("/job:worker/task:1"):
                return af.reduce_sum(af.constant(np.ones(3)))

        assert run(target, build, af.Config(token_file=file, operation_timeout=60)) == 3
        cluster.send_signal(signal.SIGINT)
        assert cluster.wait(LONGEST) == 0


@pytest.mark.sockets
@pytest.mark.slow
def test_a_cluster_has_certificates_functions_and_files(tmp_path, capsys):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    assert cli.main(["ca", "init", str(tmp_path / "ca")]) == 0
    (tmp_path / "helpers.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "data").write_text("text")
    options = ["--tls", "ca", "--py-funcs", "helpers", "--file-root", "."]
    with running("cluster", "up", *options, cwd=tmp_path) as cluster:
        _, target, file = [cluster.stdout.readline().strip() for _ in range(3)]
        assert target.startswith("target wss://127.0.0.1:")
        config = af.Config(token_file=file.removeprefix("token file "), ssl=tmp_path / "ca")
        target = target.removeprefix("target ")
        assert run(target, lambda: af.py_func("double", [2.0], af.float32), config) == 4
        assert run(target, lambda: af.read_file(str(tmp_path / "data")), config) == b"text"
        cluster.send_signal(signal.SIGINT)
        assert (cluster.wait(LONGEST), cluster.stderr.read()) == (0, "")


def test_a_cluster_without_workers_is_refused(capsys):
    assert cli.main(["cluster", "up", "-n", "0"]) == 1
    assert "--workers must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--py-funcs", "..x"], "aioflow: '..x' is not a module name"),
        (["--file-root", "nowhere"], "aioflow: --file-root nowhere: there is no such folder"),
        (["--token-file", "short"], "aioflow: the token file short: a token has at least 16"),
    ],
)
def test_a_cluster_is_refused_before_any_task_is_started(options, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").touch(0o600)
    (tmp_path / "short").write_text("short")
    assert cli.main(["cluster", "up", *options]) == 1
    assert capsys.readouterr().err.startswith(text)


def test_tasks_that_cannot_be_asked_to_stop_are_named(tmp_path, capsys):
    (tmp_path / "cluster.json").write_text(json.dumps({"worker": {"4": "name-that-nobody-has.invalid:1"}}))
    assert cli.main(["cluster", "down", "--cluster", str(tmp_path / "cluster.json")]) == 1
    assert "of 1 tasks 1 could not be asked: /job:worker/replica:0/task:4 at name-that" in capsys.readouterr().err


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.long
def test_a_cluster_goes_down_though_one_task_is_already_dead(tmp_path, caplog):
    ports = free_ports(2)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"worker": [f"127.0.0.1:{port}" for port in ports]}))
    with running("worker", "--cluster", file, "--job", "worker", "--task", "1") as worker:
        worker.stdout.readline()
        assert cli.main(["cluster", "down", "--cluster", str(file)]) == 0
        assert worker.wait(LONGEST) == 0
    assert f"/job:worker/replica:0/task:0 at 127.0.0.1:{ports[0]} is down already" in caplog.text


# ca


def test_certificates_are_made_for_hosts(tmp_path, capsys):
    folder = tmp_path / "ca"
    assert cli.main(["ca", "init", str(folder), "--host", "head"]) == 0
    assert cli.main(["ca", "issue", str(folder), "gpu", "--host", "gpu1"]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert names == ["ca.key", "ca.pem", "node.key", "node.pem", "gpu.key", "gpu.pem"]
    assert cli.main(["ca", "init", str(folder)]) == 1
    assert "exists, and is left as it is" in capsys.readouterr().err
