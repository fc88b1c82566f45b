"""`aioflow trace`: what tasks do for a while, as one trace."""

import asyncio
import json
import signal

import numpy as np
import pytest

import aioflow as af
from aioflow import cli, errors
from aioflow.cli.trace import record_trace
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.cli.test_cluster import free_ports, one, running  # noqa: F401 - a fixture

PS, FIRST, SECOND = (
    f"/job:{task}" for task in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")
)
SPEC = {"ps": 1, "worker": 2}


@pytest.fixture
async def cluster():
    async with SimulatedCluster(SPEC, latency=1e-3) as cluster:
        yield cluster


async def train(cluster, until):
    """Run steps over all tasks until that is done; how many there were."""
    with af.Graph().as_default() as graph:
        with af.device(PS):
            weights = af.Variable(np.ones(1000, np.float32), name="weights")
        with af.device(FIRST):
            doubled = af.multiply(weights, 2.0, name="doubled")
        with af.device(SECOND):
            total = af.reduce_sum(doubled, name="total")
    steps = 0
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(weights.initializer)
        while not until.done():
            assert await session.run(total) == 2000.0
            steps += 1
            await asyncio.sleep(0.05)
    return steps


async def traced(cluster, seconds):
    """What the tasks wrote down while steps ran, and how many there were."""
    tracing = asyncio.ensure_future(record_trace("worker0", cluster.network.at("client"), seconds))
    steps = await train(cluster, tracing)
    return await tracing, steps


async def test_the_traces_of_all_tasks_are_one_on_one_clock(cluster):
    written, steps = await traced(cluster, 2.0)
    assert written.tasks == (PS, FIRST, SECOND)
    assert written.absent == ()
    found = written.metadata.step_stats
    by_task = {name: {stats.device.partition("/device:")[0] for stats in found if stats.name == name}
               for name in ("weights", "doubled", "total")}  # fmt: skip
    assert by_task["doubled"] == {FIRST}
    assert by_task["total"] == {SECOND}
    assert 1 < sum(stats.name == "total" for stats in found) <= steps
    assert {(t.source.partition("/device:")[0], t.target.partition("/device:")[0])
            for t in written.metadata.transfers} >= {(PS, FIRST), (FIRST, SECOND)}  # fmt: skip
    processes = [event["args"]["name"] for event in written.metadata.chrome_trace()["traceEvents"]
                 if event["name"] == "process_name"]  # fmt: skip
    assert len(processes) == len(set(processes)) == 3
    assert str(written).endswith(f"transfers, of {PS}, {FIRST}, {SECOND}")


async def test_each_thread_has_one_lane_and_each_arrow_leads_forward_however_many_steps_there_were(
    exact_offsets, cluster
):
    written, steps = await traced(cluster, 2.0)
    events = written.metadata.chrome_trace()["traceEvents"]
    lanes = [(event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"]
    assert steps > 10
    assert len(lanes) == len(set(lanes))
    assert all(transfer.sent is not None for transfer in written.metadata.transfers)
    assert all(transfer.sent <= transfer.arrived for transfer in written.metadata.transfers)


async def test_only_what_ends_in_that_time_is_written_down(cluster):
    started = asyncio.get_running_loop().time()
    written = await record_trace("worker0", cluster.network.at("client"), 3.0)
    assert 3.0 <= asyncio.get_running_loop().time() - started < 4.0
    assert written.metadata.step_stats == []
    assert written.metadata.chrome_trace() == {"traceEvents": []}


async def test_who_does_not_answer_is_told_and_all_others_are_traced(cluster):
    await cluster.crash("worker", 1)
    written = await record_trace("worker0", cluster.network.at("client"), 1.0)
    assert written.tasks == (PS, FIRST)
    (text,) = written.absent
    assert text.startswith(f"{SECOND} at worker1: ")


async def test_a_task_that_is_lost_meanwhile_is_told(cluster):
    tracing = asyncio.ensure_future(record_trace("worker0", cluster.network.at("client"), 5.0))
    await asyncio.sleep(1.0)
    await cluster.crash("ps", 0)
    written = await tracing
    assert written.tasks == (FIRST, SECOND)
    assert written.absent[0].startswith(f"{PS} at ps0: ")


async def test_nobody_at_the_address_is_an_error(cluster):
    with pytest.raises(errors.UnavailableError, match="nowhere"):
        await record_trace("nowhere", cluster.network.at("client"), 1.0)


async def test_it_is_an_error_if_no_task_tells_anything(cluster):
    tracing = asyncio.ensure_future(record_trace("worker0", cluster.network.at("client"), 5.0))
    await asyncio.sleep(1.0)
    for job, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        await cluster.crash(job, index)
    with pytest.raises(errors.UnavailableError, match=f"no task was traced: {PS} at ps0: "):
        await tracing


async def test_whoever_stops_waiting_leaves_nothing(cluster):
    tracing = asyncio.ensure_future(record_trace("worker0", cluster.network.at("client"), 100.0))
    await asyncio.sleep(1.0)
    tracing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await tracing
    await asyncio.sleep(1.0)
    assert not any(server.worker._recorders for server in cluster.servers.values())


# The command


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("a:1", "target 'a:1': it must be the address of a task, ws://host:2222"),
        ("http://a:1", "target 'http://a:1'"),
        ("ws://", "target 'ws://'"),
    ],
)
def test_what_is_no_address_ends_with_1(target, text, capsys):
    assert cli.main(["trace", target]) == 1
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "long", "3601"])
def test_for_how_long_is_a_number_of_seconds_up_to_an_hour(text, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["trace", "ws://a:1", "--seconds", text])
    assert caught.value.code == 2
    assert f"--seconds: invalid span value: {text!r}" in capsys.readouterr().err


@pytest.mark.sockets
@pytest.mark.slow
def test_a_running_task_is_traced_to_a_file_that_viewers_open(one, tmp_path, capsys):  # noqa: F811
    with running("worker", "--cluster", one) as worker:
        worker.stdout.readline()
        output = tmp_path / "trace.json"
        options = ["--seconds", "0.05", "-o", str(output)]
        (address,) = json.loads(one.read_text())["worker"]
        assert cli.main(["trace", f"ws://{address}", *options]) == 0
        assert capsys.readouterr().out == f"{output}: 0 executions and 0 transfers, of {FIRST}\n"
        assert json.loads(output.read_text()) == {"traceEvents": []}
        assert cli.main(["trace", f"ws://{address}", "--seconds", "0.05", "-o", str(tmp_path)]) == 1
        assert "Is a directory" in capsys.readouterr().err
        worker.send_signal(signal.SIGTERM)


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.long
def test_tasks_that_are_not_there_are_named_and_the_others_are_traced(tmp_path, capsys):
    there, absent = (f"127.0.0.1:{port}" for port in free_ports(2))
    (tmp_path / "cluster.json").write_text(json.dumps({"worker": [there, absent]}))
    with running("worker", "--cluster", tmp_path / "cluster.json") as worker:
        worker.stdout.readline()
        arguments = ["trace", f"ws://{there}", "--seconds", "0.05", "-o", str(tmp_path / "trace.json")]
        assert cli.main(arguments) == 1
        assert f"aioflow: not traced: {SECOND} at {absent}: " in capsys.readouterr().err
        assert (tmp_path / "trace.json").exists()
        worker.send_signal(signal.SIGTERM)
