"""`aioflow top` and `aioflow explain`: what the tasks of a cluster do, and who waits for whom."""

import asyncio
import os
import pty
import signal
import subprocess
import sys

import pytest

import aioflow as af
from aioflow import cli, errors
from aioflow.cli.cluster_view import short
from aioflow.cli.top import snapshot
from aioflow.dashboard.cluster_source import ClusterSource
from aioflow.dashboard.watched import monitor_of_cluster
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.cli.test_cluster import ROOT, one, running  # noqa: F401 - a fixture
from tests.support.cluster_processes import LONGEST

PS = "/job:ps/replica:0/task:0"


@pytest.fixture
async def cluster():
    async with SimulatedCluster({"ps": 1, "worker": 2}, latency=1e-3) as cluster:
        yield cluster


def deadlock():
    """Two runs that wait for each other, and one that counts."""
    with af.Graph().as_default() as graph, af.device(PS):
        first, second = (af.FIFOQueue(1, [af.float32], shapes=[[]], name=name) for name in ("first", "second"))
        there = second.enqueue(first.dequeue(name="take_first"), name="put_second")
        back = first.enqueue(second.dequeue(name="take_second"), name="put_first")
        step = af.identity(1.0)
    return graph, step, there, back


async def view(cluster, address="worker0"):
    lines = await snapshot(monitor_of_cluster(address, cluster.network.at("client")))
    return lines, "\n".join(lines)


async def test_tasks_queues_and_waits_are_shown_and_a_deadlock_is_explained(cluster):
    graph, step, *runs = deadlock()
    source = ClusterSource("worker1", cluster.network.at("client"))
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(step)
        lines, text = await view(cluster)
        assert "3 tasks" in lines[0]
        assert "going on" in lines[0]
        assert {line.split("  ")[0] for line in lines} >= {"ps 0", "worker 0", "worker 1"}
        assert not (await source.explain()).cycles

        tasks = [asyncio.create_task(session.run(run)) for run in runs]
        await asyncio.sleep(2)
        lines, text = await view(cluster)
        assert "DEADLOCK" in lines[0]
        assert [line.split() for line in lines if line.split()[:1] in (["first"], ["second"])] == [
            ["first", "0"], ["second", "0"]
        ]  # fmt: skip
        assert "take_first (queue_dequeue) waits to take an element of" in text
        found, known = await source.explain(), await session.explain()
        assert [[edge.operation for edge in cycle.edges] for cycle in found.cycles] == [["take_first", "take_second"]]
        assert [(wait.operation, wait.task, wait.what, wait.line) for wait in found.waits] == [
            (wait.operation, wait.task, wait.what, wait.line) for wait in known.waits
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lost_task_is_named_with_the_reason(cluster):
    await cluster.crash("worker", 1)
    lines, _ = await view(cluster)
    assert "1 of them lost" in lines[0]
    (row,) = [line for line in lines if line.startswith("worker 1")]
    assert "lost" in row
    assert "no server listens at worker1" in row
    report = await ClusterSource("worker0", cluster.network.at("client")).explain()
    assert report.absent[0].startswith("/job:worker/replica:0/task:1: ")


async def test_nobody_at_the_address_is_an_error(cluster):
    with pytest.raises(errors.UnavailableError, match="nowhere"):
        await view(cluster, "nowhere")
    with pytest.raises(errors.UnavailableError, match="nowhere"):
        await ClusterSource("nowhere", cluster.network.at("client")).explain()


def test_names_of_tasks_and_devices_are_short():
    assert short(f"{PS}/device:CPU:0") == "ps 0 CPU:0"
    assert short("my/queue") == "my/queue"


@pytest.mark.parametrize("command", ["top", "explain"])
@pytest.mark.parametrize(("target", "more"), [("host:1", []), ("ws://", []), ("ws://host:1", ["--tls", "folder"])])
def test_what_is_no_address_ends_with_1(command, target, more, capsys):
    assert cli.main([command, target, *more]) == 1
    assert f"target {target!r}" in capsys.readouterr().err


@pytest.mark.sockets
@pytest.mark.slow
def test_a_terminal_shows_a_cluster_until_q_is_pressed(one, capsys):  # noqa: F811
    with running("worker", "--cluster", one) as worker:
        target = worker.stdout.readline().split()[-1]
        assert cli.main(["top", target, "--once"]) == 0
        assert "worker 0" in capsys.readouterr().out
        assert cli.main(["explain", target]) == 0
        assert capsys.readouterr().out == "no step is running\n"
        status, text = in_terminal("top", target)
        worker.send_signal(signal.SIGTERM)
    assert status == 0
    assert text.startswith(b"\x1b[?1049h")
    assert text.endswith(b"\x1b[?1049l")


def in_terminal(*arguments):
    """Run a command in a terminal, press q when it shows a task. Its status and what it has written."""
    ours, its = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "aioflow", *arguments]
    written = b""
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        try:
            while b"worker 0" not in written:
                written += os.read(ours, 4096)
            os.write(ours, b"q")
            while not written.endswith(b"\x1b[?1049l"):
                written += os.read(ours, 4096)
            return process.wait(LONGEST), written
        finally:
            process.kill()
            os.close(ours)
