"""Reports of who waits for what."""

import asyncio
import re

import pytest

import aioflow as af
from aioflow.graph.operation import describe_line
from aioflow.testing import Gate
from tests.support.doubles import gated, waiting


@pytest.fixture
def graph():
    with af.Graph().as_default() as made:
        yield made


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def ended(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_session_at_rest_has_nothing_to_say(graph):
    async with af.Session(graph=graph) as session:
        report = await session.explain()
    assert (report.waits, report.application, report.idle_runners, report.detached) == ((), (), (), ())
    assert str(report) == "no step is running"


async def test_who_waits_for_a_queue_is_named_with_line_and_time(graph):
    queue = af.FIFOQueue(2, [af.float32], shapes=[[]], name="letters")
    element = queue.dequeue(name="letter")
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(session.run(element))
        await asyncio.sleep(5)
        (wait,) = (await session.explain()).waits
        assert wait.seconds == pytest.approx(5)
        assert (wait.operation, wait.op_type) == ("letter", "queue_dequeue")
        assert "test_explain.py" in wait.line
        assert "take an element of" in wait.what
        assert "'letters'" in wait.what
        assert "waits to take an element of" in str(await session.explain())
        await ended(task)
        assert (await session.explain()).waits == ()


CPUS = [f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in range(2)]


@pytest.fixture
async def pair(graph):
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2}, stall_report=30.0)) as session:
        yield session


async def test_what_another_device_has_not_sent_is_named_with_the_line_that_built_it(pair, caplog):
    gate = Gate()
    with af.device("/cpu:0"):
        value = gated(af.placeholder_with_default(1.0, [], name="x"), gate, name="held")
    with af.device("/cpu:1"):
        result = af.negative(value, name="awaits")
    task = asyncio.create_task(pair.run(result))
    await gate.arrived()
    await asyncio.sleep(5)
    report = await pair.explain()
    (received,) = [wait for wait in report.waits if wait.op_type == "recv"]
    assert received.seconds == pytest.approx(5)
    assert re.fullmatch(rf"receive '\d+ held:0' from {CPUS[0]} on {CPUS[1]}", received.what)
    assert received.line == describe_line(value.op)
    assert f"waits to {received.what}\n    at {received.line}" in str(report)
    assert [wait.op_type for wait in report.waits if wait is not received] == ["test_waiting"]
    await asyncio.sleep(30)
    (record,) = caplog.records
    assert f"waits to {received.what}" in record.getMessage()
    gate.open()
    assert await task == -1.0
    assert (await pair.explain()).waits == ()


async def test_each_iteration_that_waits_for_another_device_is_told_apart(pair):
    gates = [Gate() for _ in range(3)]

    async def hold(value):
        await gates[int(value)].wait()
        return value

    def body(i):
        with af.device("/cpu:0"):
            held = waiting(i, hold, name="held")
        with af.device("/cpu:1"):
            seen = af.negative(held, name="seen")
        with af.device("/cpu:0"), af.control_dependencies([seen]):
            return af.add(i, 1, name="next")

    def more(i):
        with af.device("/cpu:0"):
            return i < 3

    task = asyncio.create_task(pair.run(af.while_loop(more, body, [0])))
    for number, gate in enumerate(gates):
        await gate.arrived()
        await asyncio.sleep(5)
        key = f"/held:0' in iteration {number} from {CPUS[0]}"
        assert [wait.op_type for wait in (await pair.explain()).waits if key in wait.what] == ["recv"]
        gate.open()
    assert await task == 3


async def test_several_steps_that_wait_for_another_device_are_told_apart(pair):
    gate = Gate()
    with af.device("/cpu:0"):
        value = gated(af.placeholder_with_default(1.0, [], name="x"), gate, name="held")
    with af.device("/cpu:1"):
        result = af.negative(value)
    tasks = []
    for _ in range(3):
        tasks.append(asyncio.create_task(pair.run(result)))
        await asyncio.sleep(10)
    waits = [wait for wait in (await pair.explain()).waits if wait.op_type == "recv"]
    assert [wait.seconds for wait in waits] == pytest.approx([30, 20, 10])
    assert [wait.step for wait in waits] == sorted({wait.step for wait in waits})
    gate.open()
    assert await asyncio.gather(*tasks) == [-1.0] * 3


async def test_several_steps_are_told_apart(graph):
    queue = af.FIFOQueue(1, [af.int32], shapes=[[]])
    put, take = queue.enqueue(1, name="put"), queue.dequeue(name="take")
    async with af.Session(graph=graph) as session:
        await session.run(put)
        tasks = [asyncio.create_task(session.run(put)) for _ in range(3)]
        await turns()
        report = await session.explain()
        assert [wait.operation for wait in report.waits] == ["put"] * 3
        assert len({wait.step for wait in report.waits}) == 3
        for _ in range(4):
            await session.run(take)
        await asyncio.gather(*tasks)


async def test_each_of_several_steps_at_one_operation_is_told_with_its_own_time(graph):
    element = af.FIFOQueue(1, [af.int32], shapes=[[]]).dequeue()
    async with af.Session(graph=graph) as session:
        tasks = []
        for _ in range(3):
            tasks.append(asyncio.create_task(session.run(element)))
            await asyncio.sleep(10)
        waits = (await session.explain()).waits
        assert [wait.seconds for wait in waits] == pytest.approx([30, 20, 10])
        assert [wait.step for wait in waits] == sorted(wait.step for wait in waits)
        for task in tasks:
            await ended(task)


async def takes(live):
    await live.take()


async def takes_in_time(live):
    async with asyncio.timeout(1000):
        await live.take()


async def iterates(live):
    async for _ in live:
        pass


async def many_calls_deep(live):
    await takes(live)


@pytest.mark.parametrize(
    ("wait", "where"),
    [
        (takes, "in takes"),
        (takes_in_time, "in takes_in_time"),
        (iterates, "in iterates"),
        (many_calls_deep, "in takes"),
        (lambda live: live.take(), ""),
    ],
)
async def test_application_code_that_waits_is_told_with_task_line_and_time(wait, where, graph):
    queue = af.FIFOQueue(1, [af.int32], shapes=[[]], name="work")
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(wait(session.queue(queue)), name="consumer")
        await asyncio.sleep(7)
        report = await session.explain()
        (caller,) = report.application
        assert "take an element of" in caller.what
        assert "'work'" in caller.what
        assert (caller.seconds, caller.task) == (pytest.approx(7), "consumer")
        assert caller.line.endswith(where)
        assert ("test_explain.py:" in caller.line) == bool(where)
        assert "the application, 7.0 s in task 'consumer': waits to take an element of" in str(report)
        await ended(task)
        assert (await session.explain()).application == ()


async def test_application_code_that_has_waited_longest_comes_first(graph):
    queue = af.FIFOQueue(1, [af.int32], shapes=[[]])
    async with af.Session(graph=graph) as session:
        live = session.queue(queue)
        await live.put(1)
        tasks = []
        for number in range(3):
            tasks.append(asyncio.create_task(live.put(number), name=f"putter {number}"))
            await asyncio.sleep(10)
        callers = (await session.explain()).application
        assert [(caller.seconds, caller.task) for caller in callers] == [
            (pytest.approx(30), "putter 0"), (pytest.approx(20), "putter 1"), (pytest.approx(10), "putter 2"),
        ]  # fmt: skip
        for task in tasks:
            await ended(task)


async def test_a_feed_that_waits_is_told_with_the_line_that_made_it(graph):
    queue = af.FIFOQueue(1, [af.int32], shapes=[[]], name="work")
    async with af.Session(graph=graph) as session, session.queue(queue).feed(range(9)):
        await asyncio.sleep(5)
        (caller,) = (await session.explain()).application
        assert caller.task.startswith("feed of <")
        assert "test_explain.py" in caller.task
        assert "put an element into" in caller.what
        assert caller.seconds == pytest.approx(5)


async def test_a_wait_that_no_task_is_behind_is_told_without_one(graph):
    queue = af.FIFOQueue(1, [af.int32], shapes=[[]])
    async with af.Session(graph=graph) as session:
        waiting = session.queue(queue).take()
        waiting.send(None)
        (caller,) = (await session.explain()).application
        assert (caller.task, caller.line) == ("", "")
        assert "the application, 0.0 s: waits to take" in str(caller)
        waiting.close()


async def test_a_runner_that_was_never_started_is_named(graph):
    queue = af.FIFOQueue(1, [af.int32], shapes=[[]], name="work")
    af.train.add_queue_runner(af.train.QueueRunner(queue, [queue.enqueue(1)]))
    async with af.Session(graph=graph) as session:
        report = await session.explain()
        assert len(report.idle_runners) == 1
        assert "work" in str(report)
        assert "start_queue_runners" in str(report)
        async with af.train.Coordinator() as coord:
            af.train.start_queue_runners(session, coord)
            assert (await session.explain()).idle_runners == ()
            coord.request_stop()


async def test_a_session_that_does_not_go_on_says_so_once_in_the_log(graph, caplog):
    queue = af.FIFOQueue(2, [af.float32], shapes=[[]], name="letters")
    element = queue.dequeue(name="letter")
    async with af.Session(graph=graph, config=af.Config(stall_report=30.0)) as session:
        task = asyncio.create_task(session.run(element))
        await asyncio.sleep(29)
        assert not caplog.records
        await asyncio.sleep(1000)
        (record,) = caplog.records
        assert record.name == "aioflow.session"
        assert "no operation has ended for 30 s" in record.getMessage()
        assert "'letter' (queue_dequeue) waits to take" in record.getMessage()
        await ended(task)


async def test_a_session_that_goes_on_is_not_reported(graph, caplog):
    queue = af.FIFOQueue(2, [af.float32], shapes=[[]])
    element = queue.dequeue()
    async with af.Session(graph=graph, config=af.Config(stall_report=30.0)) as session:
        live = session.queue(queue)
        for _ in range(10):
            task = asyncio.create_task(session.run(element))
            await asyncio.sleep(20)
            await live.put(1.0)
            await task
    assert not caplog.records


async def test_no_stall_is_reported_if_that_is_switched_off(graph, caplog):
    queue = af.FIFOQueue(2, [af.float32], shapes=[[]])
    async with af.Session(graph=graph, config=af.Config(stall_report=None)) as session:
        task = asyncio.create_task(session.run(queue.dequeue()))
        await asyncio.sleep(10_000)
        await ended(task)
    assert not caplog.records
