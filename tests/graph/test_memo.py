"""What sessions of a graph share about its calls."""

import asyncio
import gc
import threading
import weakref

import pytest

import aioflow as af
from aioflow.graph.memo import Memo
from aioflow.plan import pipeline
from aioflow.plan.pipeline import Signature, make_flow


def test_a_result_is_made_once_and_the_least_recently_used_goes_first():
    memo, made = Memo(2), []

    def get(key):
        return memo.get(key, lambda: made.append(key) or key * 2)

    assert [get(key) for key in "abaca"] == ["aa", "bb", "aa", "cc", "aa"]
    assert made == ["a", "b", "c"]
    assert get("b") == "bb"
    assert made == ["a", "b", "c", "b"]


def test_an_error_is_not_kept():
    memo = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.get(1, lambda: 1 // 0)
    assert memo.get(1, lambda: 5) == 5


def test_a_result_whose_key_does_not_hold_any_more_is_not_kept():
    memo = Memo()
    assert memo.get(1, lambda: "made meanwhile", lambda: False) == "made meanwhile"
    assert memo.get(1, lambda: "made", lambda: True) == "made"
    assert memo.get(1, lambda: "made again") == "made"


def test_a_result_begun_before_it_was_cleared_is_not_kept():
    memo, began, goes_on, found = Memo(), threading.Event(), threading.Event(), []

    def make():
        began.set()
        goes_on.wait()
        return "old"

    thread = threading.Thread(target=lambda: found.append(memo.get("key", make)))
    thread.start()
    began.wait()
    memo.clear()
    goes_on.set()
    thread.join()
    assert found == ["old"]
    assert memo.get("key", lambda: "new") == "new"


def test_it_goes_with_its_graph():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [])
        make_flow(Signature((x,), (x + 1.0,), ()))
    gone = weakref.ref(graph)
    del graph, x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("devices", [1, 2])
async def test_sessions_of_a_graph_share_the_flows_of_its_calls(monkeypatch, devices):
    pruned, prune = [], pipeline.prune
    monkeypatch.setattr(pipeline, "prune", lambda *parts: pruned.append(parts) or prune(*parts))
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [])
        total = af.Variable(0.0)
        with af.device(f"/cpu:{devices - 1}"):
            y = total.assign_add(x) * 2.0
    config = af.Config(device_count={"CPU": devices})

    async def run():
        async with af.Session(graph=graph, config=config) as session:
            await session.run(total.initializer)
            return [await session.run(y, {x: 1.0}) for _ in range(3)]

    assert await run() == await run() == [2.0, 4.0, 6.0]  # each has variables of its own
    assert await asyncio.gather(run(), run()) == [[2.0, 4.0, 6.0]] * 2
    assert len(pruned) == 2
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": devices}, optimize=False)) as session:
        await session.run(total.initializer)
        assert await session.run(y, {x: 1.0}) == 2.0
    assert len(pruned) == 4


async def test_a_changed_input_is_planned_anew():
    with af.Graph().as_default() as graph:
        start = af.enter(af.constant(1.0), "doubling")
        value = af.merge([start, start])[0]
        going = af.switch(value, af.loop_cond(value < 100.0))
        result = af.exit(going[0])
        signature = Signature((), (result,), ())
        before = make_flow(signature)
        assert make_flow(signature) is before
        value.op.update_input(1, af.next_iteration(going[1] * 2.0))
        assert make_flow(signature) is not before
    async with af.Session(graph=graph) as session:
        assert await session.run(result) == 128.0
