"""What sessions of a graph share about its calls."""

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

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


class Told:
    """A key that sets an event when it is looked up."""

    def __init__(self, name, looked_up):
        self.name, self.looked_up = name, looked_up

    def __hash__(self):
        self.looked_up.set()
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


@pytest.mark.real
@pytest.mark.parametrize("fate", ["kept", "not kept", "failed"])
def test_threads_that_ask_at_the_same_time_make_a_result_once_and_again_only_if_it_is_not_kept(fate):
    memo, began, asked, made = Memo(), threading.Event(), threading.Event(), []

    def first():
        began.set()
        asked.wait()
        return 1 // (fate != "failed")

    def second():
        made.append("second")
        return 2

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(memo.get, Told("key", threading.Event()), first, lambda: fate == "kept")
        began.wait()
        other = pool.submit(memo.get, Told("key", asked), second)
    assert other.result() == (1 if fate == "kept" else 2)
    assert made == ([] if fate == "kept" else ["second"])
    assert (type(one.exception()) is ZeroDivisionError) if fate == "failed" else one.result() == 1
    assert memo.get(Told("key", asked), lambda: 3) == other.result()


@pytest.mark.real
async def test_the_thread_of_a_loop_waits_for_no_other_thread_and_both_have_the_result_kept_first():
    memo, began, goes_on = Memo(), threading.Event(), threading.Event()

    def make():
        began.set()
        goes_on.wait()
        return "of the thread"

    try:
        asked = asyncio.create_task(asyncio.to_thread(memo.get, "key", make))
        await asyncio.to_thread(began.wait)
        assert memo.get("key", lambda: "of the loop") == "of the loop"
    finally:
        goes_on.set()
    assert await asked == "of the loop"


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
