"""Staging areas: in order or by key, bounded, and nothing lost by who is cancelled."""

import asyncio
import bisect

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import aioflow as af
from aioflow import errors
from aioflow.waiting.lines import Attempt
from aioflow.waiting.map_staging import MapStagingArea
from aioflow.waiting.staging import ByKey, StagingArea
from tests.support.machines import GRANTED, PLACES, WaitingMachine
from tests.support.scale import amount

WORD = 8
"""Bytes of a component in the machines."""


class Areas(WaitingMachine):
    """A staging area of at most 3 elements and 4 words against a list."""

    KINDS = ("put", "peek", "get")

    def __init__(self):
        super().__init__()
        self.items = []
        self.number = 0

    def make(self):
        return StagingArea("tested", 3, 4 * WORD)

    def served(self, entry):
        if entry.kind == "put":
            held = self.items + [put.item for put in self.granted]
            if (self.granted and not entry.waits) or len(held) == 3 or sum(map(len, held)) + len(entry.item) > 4:
                return None
            return GRANTED if entry.waits else self.finished(entry)
        if entry.kind == "peek":
            return self.items[entry.key] if entry.key < len(self.items) else None
        return self.items.pop(0) if self.items else None

    def finished(self, entry):
        self.items.append(entry.item)
        return "done"

    def given_back(self, entry):
        if entry.kind == "get":
            bisect.insort(self.items, entry.outcome)  # their components count up

    def same(self, entry, found):
        return found is None if entry.kind == "put" else tuple(map(int, found)) == entry.outcome

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3), cancel=PLACES)
    def put(self, sizes, cancel):
        many = []
        for size in sizes:
            item = tuple(range(self.number, self.number + size))
            self.number += size
            many.append((self.live.put(*map(np.int64, item)), {"kind": "put", "item": item}))
        self.join_all(many, cancel)

    @rule(cancel=PLACES)
    def get(self, cancel):
        self.join(self.live.get(), cancel, kind="get")

    @rule(index=st.integers(0, 3))
    def peek(self, index):
        self.join(self.live.peek(index), kind="peek", key=index)

    @rule(turn=st.booleans())
    def clear(self, turn):
        self.on_loop(self.live.clear)
        self.items.clear()
        self.settle()
        if turn:
            self.turn()

    @rule()
    def sizes(self):
        assert self.live.size == len(self.items)
        assert self.live.bytes == WORD * sum(map(len, self.items))


def test_a_staging_area_agrees_with_its_model_under_cancellation():
    run_state_machine_as_test(
        Areas, settings=settings(max_examples=amount(10, 150), stateful_step_count=40, deadline=None)
    )


KEYS = st.integers(0, 1)
SOME = st.sampled_from([(0,), (1,), (0, 1)])


class Maps(WaitingMachine):
    """An ordered map of at most 2 whole elements and 5 words against dicts."""

    KINDS = ("put", "part", "peek", "get", "pop")

    def __init__(self):
        super().__init__()
        self.items, self.parts = {}, {}
        self.number = self.whole = 0

    def make(self):
        return MapStagingArea("tested", 2, ordered=True, capacity=2, memory_limit=5 * WORD)

    def elements(self):
        return [item for elements in self.items.values() for item in elements.values()]

    def words(self):
        return sum(map(len, [*self.elements(), *self.parts.values()]))

    def served(self, entry):
        if entry.kind in ("put", "part"):
            return self.put_now(entry)
        key = min((key for key, elements in self.items.items() if elements), default=None)
        key = key if entry.kind == "pop" else entry.key
        if not self.items.get(key):
            return None
        number, item = min(self.items[key].items())
        if not set(entry.indices) <= item.keys():
            return errors.InvalidArgumentError
        found = {index: item[index] for index in entry.indices}
        if entry.kind != "peek":
            for index in entry.indices:
                del item[index]
            if not item:
                del self.items[key][number]
        return key, number, found

    def put_now(self, entry):
        present = self.parts.get(entry.place, {})
        if self.items.get(entry.place) or present.keys() & entry.values.keys():
            return errors.InvalidArgumentError
        kept = [put for put in self.granted if put.kind == "put"]
        full = entry.kind == "put" and len(self.elements()) + len(kept) >= 2
        words = self.words() + sum(len(put.values) for put in self.granted)
        if (self.granted and not entry.waits) or full or words + len(entry.values) > 5:
            return None
        return GRANTED if entry.waits else self.finished(entry)

    def finished(self, entry):
        present = self.parts.get(entry.place, {})
        if self.items.get(entry.place) or present.keys() & entry.values.keys():
            return errors.InvalidArgumentError
        item = {**present, **entry.values}
        if len(item) == 2:
            self.parts.pop(entry.place, None)
            self.items.setdefault(entry.place, {})[self.whole] = item
            self.whole += 1
        else:
            self.parts[entry.place] = item
        return "done"

    def given_back(self, entry):
        if entry.kind in ("get", "pop"):
            key, number, found = entry.outcome
            self.items.setdefault(key, {}).setdefault(number, {}).update(found)

    def same(self, entry, found):
        if entry.kind in ("put", "part"):
            return found is None
        key, _, values = entry.outcome
        item = tuple(values.values())
        return found == ((key, item) if entry.kind == "pop" else item)

    @rule(puts=st.lists(st.tuples(KEYS, SOME), min_size=1, max_size=3), cancel=PLACES)
    def put(self, puts, cancel):
        many = []
        for key, indices in puts:
            values = {index: self.number + index for index in indices}
            self.number += 2
            kind = "put" if len(indices) == 2 else "part"
            given = {index: np.int64(value) for index, value in values.items()}
            many.append((self.live.put(key, given), {"kind": kind, "place": key, "values": values}))
        self.join_all(many, cancel)

    @rule(times=st.integers(1, 2), cancel=PLACES)
    def put_what_is_waited_for(self, times, cancel):
        keys = [entry.key or 0 for entry in self.line if entry.kind in ("get", "pop")]
        if keys:
            self.put(puts=[(keys[0], (0, 1))] * times, cancel=cancel)

    @rule(key=KEYS, indices=SOME, cancel=PLACES)
    def get(self, key, indices, cancel):
        self.join(self.live.get(key, indices), cancel, kind="get", key=key, indices=indices)

    @rule(indices=SOME, cancel=PLACES)
    def pop(self, indices, cancel):
        self.join(self.live.popitem(indices), cancel, kind="pop", indices=indices)

    @rule(key=KEYS, indices=SOME)
    def peek(self, key, indices):
        self.join(self.live.peek(key, indices), kind="peek", key=key, indices=indices)

    @rule(turn=st.booleans())
    def clear(self, turn):
        self.on_loop(self.live.clear)
        self.items.clear(), self.parts.clear()
        self.settle()
        if turn:
            self.turn()

    @rule()
    def sizes(self):
        assert self.live.size == len(self.elements())
        assert self.live.incomplete_size == len(self.parts)
        assert self.live.bytes == WORD * self.words()


def test_a_map_staging_area_agrees_with_its_model_under_cancellation():
    run_state_machine_as_test(
        Maps, settings=settings(max_examples=amount(10, 200), stateful_step_count=40, deadline=None)
    )


def test_callers_that_were_served_resume_before_those_cancelled_afterwards():
    """A taker that still waits is cancelled before one that has been served, which gives back first all the same."""
    maps = Maps()
    for _ in range(2):
        maps.pop(cancel=[], indices=(0,))
    maps.peek(indices=(0,), key=1)
    maps.pop(cancel=[0], indices=(0,))
    maps.peek(indices=(0,), key=0)
    maps.pop(cancel=[], indices=(0,))
    maps.put(cancel=[], puts=[(0, (1,))])
    maps.get(cancel=[], indices=(0, 1), key=0)
    maps.pop(cancel=[2], indices=(0,))
    maps.cancel(places=[0, 1])
    maps.put(cancel=[2, 0], puts=[(0, (0,))])
    maps.teardown()


async def test_who_is_cancelled_when_just_served_gives_the_element_back():
    area = StagingArea("a")
    getting = [asyncio.create_task(area.get()) for _ in range(2)]
    await asyncio.sleep(1)
    await area.put(1)
    await area.put(2)
    getting[0].cancel()
    await asyncio.sleep(1)
    assert getting[0].cancelled()
    assert (await getting[1], await area.get()) == ((2,), (1,))


async def test_what_several_give_back_in_one_turn_comes_in_the_order_it_was_put():
    area = StagingArea("a")
    getting = [asyncio.create_task(area.get()) for _ in range(2)]
    await asyncio.sleep(1)
    await area.put(1)
    await area.put(2)
    for task in getting:
        task.cancel()
    await asyncio.gather(*getting, return_exceptions=True)
    assert [await area.peek(1), await area.get(), await area.get()] == [(2,), (1,), (2,)]


async def test_a_key_that_was_put_again_meanwhile_comes_after_what_is_given_back():
    area = MapStagingArea("a", 1)
    getting = asyncio.create_task(area.get(7))
    await asyncio.sleep(1)
    await area.put(7, {0: "first"})
    await area.put(7, {0: "second"})
    getting.cancel()
    await asyncio.sleep(1)
    assert area.size == 2
    assert [await area.get(7), await area.popitem()] == [("first",), (7, ("second",))]


async def test_thousands_wait_for_keys_in_any_order_and_each_gets_its_own():
    area, most = MapStagingArea("a", 1), amount(2_000, 10_000)
    getting = [asyncio.create_task(area.get(key)) for key in range(most)]
    await asyncio.sleep(1)
    for task in getting[::2]:
        task.cancel()
    for key in reversed(range(1, most, 2)):
        await area.put(key, {0: key})
    assert [await task for task in getting[1::2]] == [(key,) for key in range(1, most, 2)]
    await asyncio.gather(*getting, return_exceptions=True)
    assert (area.size, area.waiting) == (0, [])


def test_who_waited_on_a_loop_that_has_closed_is_passed_over():
    area, loop, gone = MapStagingArea("a", 1), asyncio.new_event_loop(), asyncio.new_event_loop()
    try:

        async def join():
            area._begin(area._gets, Attempt("get key 7 of", ByKey(7, lambda: area._take(7, [0]))))

        gone.run_until_complete(join())
        gone.close()
        loop.run_until_complete(area.put(7, {0: "it"}))
        assert loop.run_until_complete(area.get(7)) == ("it",)
        assert area.waiting == []
    finally:
        loop.close()


# Through a session


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


def live(session, wanted=StagingArea):
    (found,) = [v for (kind, _), v in session._state.resources.container("").objects().items() if kind is wanted]
    return found


async def ended(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_a_step_puts_what_another_gets(graph, executor):
    area = af.StagingArea([af.float32, af.string], shapes=[[2], []], capacity=1)
    x = af.placeholder(af.float32, [2])
    put, (y, text) = area.put([x, "text"]), area.get()
    assert (y.shape, text.shape) == ((2,), ())
    fed = np.array([1, 2], np.float32)
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        await session.run(put, {x: fed})
        fed[:] = 0
        second = asyncio.create_task(session.run(put, {x: [3, 4]}))
        await asyncio.sleep(1)
        assert not second.done()
        assert [*map(np.ndarray.tolist, await session.run([y + 1, y]))] == [[2, 3], [1, 2]]
        await second
        assert await session.run(text) == b"text"


async def test_what_was_seen_does_not_change_when_what_was_got_does(graph, session):
    area = af.StagingArea([af.float32], shapes=[[2]])
    (seen,), (got,) = area.peek(0), area.get()
    await session.run(area.put([[1.0, 2.0]]))
    before = await session.run(seen)
    assert (await session.run(-got)).tolist() == [-1, -2]
    assert before.tolist() == [1, 2]


async def test_cancelling_and_limits_of_time_leave_nothing(graph, session):
    area = af.StagingArea([af.int32], shapes=[[]], capacity=1)
    for fetch in (area.get(), area.peek(0)):
        task = asyncio.create_task(session.run(fetch))
        await asyncio.sleep(1)
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)
        with pytest.raises(errors.DeadlineExceededError):
            await session.run(fetch, options=af.RunOptions(timeout=1))
    await session.run(area.put(1))
    with pytest.raises(errors.DeadlineExceededError):
        await session.run(area.put(2), options=af.RunOptions(timeout=1))
    assert live(session).waiting == []
    assert await session.run([area.size(), area.get()]) in ([1, [1]], [0, [1]])


async def test_by_key_or_the_least_in_parts_and_by_name(graph, session):
    area = af.MapStagingArea([af.int32, af.int32], shapes=[[], []], names=["x", "y"], ordered=True)
    await session.run([area.put(5, {"y": 2, "x": 1}), area.put(3, {"y": 4})])
    assert await session.run([area.size(), area.incomplete_size()]) == [1, 1]
    key, taken = area.get(5, indices=["y"])
    assert key == 5
    assert await session.run(taken) == {"y": 2}
    assert await session.run(area.peek(5, indices=[0])) == {"x": 1}
    with pytest.raises(
        errors.InvalidArgumentError, match=r"components \[1\] of key 5 of staging area 'MapStagingArea' have"
    ):
        await session.run(area.get())
    assert await session.run(area.get(5, indices=["x"])[1]) == {"x": 1}
    await session.run(area.put(3, {"x": 3}))
    assert await session.run(area.get()) == (3, {"x": 3, "y": 4})
    await session.run(area.put(1, {"x": 1}))
    await session.run(area.clear())
    assert await session.run([area.size(), area.incomplete_size()]) == [0, 0]


async def test_a_key_that_is_there_is_not_put_twice(graph, session):
    area = af.MapStagingArea([af.int32], shapes=[[]])
    await session.run(area.put(7, [1]))
    with pytest.raises(errors.InvalidArgumentError, match="key 7 of staging area 'MapStagingArea' has a whole element"):
        await session.run(area.put(7, [2]))
    assert await session.run(area.get(7)[1]) == [1]


async def test_an_element_that_never_fits_is_refused_at_once(graph, session):
    for area, put in (
        (af.StagingArea([af.string], memory_limit=4), lambda area: area.put([["abc", "de"]])),
        (af.MapStagingArea([af.string], memory_limit=4), lambda area: area.put(1, ["abcde"])),
    ):
        with pytest.raises(
            errors.ResourceExhaustedError, match=r"5 bytes can never be put into staging area .* holds 4"
        ):
            await session.run(put(area))


async def test_what_a_run_puts_is_checked(graph, session):
    area = af.StagingArea([af.float32], shapes=[[2]])
    x = af.placeholder(af.float32)
    with pytest.raises(errors.InvalidArgumentError, match=r"must have shape \[2\], not \[3\]"):
        await session.run(area.put(x), {x: [1, 2, 3]})
    with pytest.raises(errors.InvalidArgumentError, match="no element is at place -1"):
        await session.run(area.peek(-1))


async def test_sessions_that_share_a_container_share_the_area():
    sessions, puts, gets = [], [], []
    for _ in range(2):
        with af.Graph().as_default() as graph, af.container("areas"):
            area = af.StagingArea([af.int32], shapes=[()], shared_name="ours")
            puts.append(area.put([7]))
            gets.append(area.get())
        sessions.append(af.Session(graph=graph))
    async with sessions[0], sessions[1]:
        task = asyncio.create_task(sessions[0].run(gets[0]))
        await asyncio.sleep(1)
        await sessions[1].run(puts[1])
        assert await task == [7]
        waiting = asyncio.create_task(sessions[0].run(gets[0]))
        await asyncio.sleep(1)
        await af.reset(["areas"])
        assert isinstance(await ended(waiting), errors.CancelledError)


async def test_reopening_with_another_signature_is_refused(graph, session):
    first = af.StagingArea([af.int32], shared_name="ours")
    other = af.StagingArea([af.int32], shared_name="ours", capacity=2)
    await session.run(first.size())
    with pytest.raises(errors.InvalidArgumentError, match="StagingArea 'ours' is shared with capacity=0, not 2"):
        await session.run(other.size())
    await session.run(af.MapStagingArea([af.int32], shared_name="ours", ordered=True).size())
    with pytest.raises(errors.InvalidArgumentError, match="ordered=True, not False"):
        await session.run(af.MapStagingArea([af.int32], shared_name="ours").size())


async def test_closing_the_session_ends_those_who_wait(graph):
    area, by_key = af.StagingArea([af.int32]), af.MapStagingArea([af.int32])
    session = af.Session(graph=graph)
    fetches = [area.get(), area.peek(2), by_key.get(3)[1], by_key.peek(3), by_key.get()]
    tasks = [asyncio.create_task(session.run(fetch)) for fetch in fetches]
    await asyncio.sleep(1)
    found = live(session), live(session, MapStagingArea)
    await session.close()
    assert {type(await ended(task)) for task in tasks} == {errors.CancelledError}
    for one in found:
        with pytest.raises(errors.CancelledError, match="is gone"):
            one.clear()


async def test_a_reset_ends_those_who_wait_for_keys():
    area = MapStagingArea("a", 1)
    getting = [asyncio.create_task(area.get(key)) for key in range(600)]
    await asyncio.sleep(1)
    area.release()
    assert {type(await ended(task)) for task in getting} == {errors.CancelledError}
    assert area.waiting == []


# Building


def test_what_does_not_fit_is_refused_when_it_is_built(graph):
    area = af.StagingArea([af.float32, af.int32], shapes=[[2], []])
    named = af.MapStagingArea([af.float32, af.int32], names=["x", "y"])
    by_key = af.MapStagingArea([af.float32, af.int32])
    x, before = af.placeholder(af.int32, [3]), graph.version
    for error, text, build in [
        (ValueError, "1 components were given, an element has 2", lambda: area.put([[1.0, 2.0]])),
        (TypeError, "has dtype int32, float32 is needed", lambda: area.put([x, 1])),
        (ValueError, r"component 1 must have shape \[\], not \[3\]", lambda: area.put([[1.0, 2.0], x])),
        (ValueError, "have no names: give a list", lambda: area.put({"x": 1})),
        (ValueError, "have names: give a dict of x, y", lambda: named.put(1, [1.0, 2])),
        (ValueError, "the components are x, y; there is no z", lambda: named.put(1, {"z": 1})),
        (ValueError, "no component is named 'z'", lambda: named.get(1, ["z"])),
        (ValueError, "set indices=", lambda: by_key.put(1, [1.0])),
        (ValueError, "2 values were given for 1 components", lambda: by_key.put(1, [1.0, 2], indices=[0])),
        (ValueError, r"numbers \[2\] were given", lambda: by_key.put(1, [1.0], indices=[2])),
        (ValueError, "indices are ascending numbers of the 2 components", lambda: by_key.get(1, indices=[1, 0])),
        (ValueError, "indices names no component", lambda: by_key.get(1, indices=[])),
        (TypeError, "indices are a list", lambda: by_key.get(1, indices=0)),
        (TypeError, "key must be made of integers", lambda: by_key.get(1.5)),
        (ValueError, "1 shapes were given for 2 components", lambda: af.StagingArea([af.int32] * 2, shapes=[()])),
        (ValueError, "2 different names", lambda: af.StagingArea([af.int32] * 2, names=["x", "x"])),
        (ValueError, "capacity is a number, 0 for no limit, not -1", lambda: af.StagingArea([af.int32], capacity=-1)),
        (ValueError, "shared_name must be text, not 7", lambda: af.StagingArea([af.int32], shared_name=7)),
    ]:
        with pytest.raises(error, match=text):
            build()
        assert graph.version == before
    assert repr(named) == "<af.MapStagingArea 'MapStagingArea'>"
    assert (area.name, area.dtypes, area.shapes) == ("StagingArea", [af.float32, af.int32], [(2,), ()])
    assert (named.names, area.names, area.capacity, area.memory_limit) == (["x", "y"], None, 0, 0)


async def test_a_graph_that_was_written_and_read_does_the_same(graph):
    area = af.MapStagingArea([af.int32, af.int32], ordered=True)
    area.put(3, [5], indices=[1], name="part")
    area.put(3, [4], indices=[0], name="rest")
    area.get(name="get", indices=[0, 1])
    with af.Graph().as_default() as copy:
        af.import_graph_def(af.GraphDef.from_json(graph.as_graph_def().to_json()), name="")
        async with af.Session(graph=copy) as session:
            await session.run("part")
            await session.run("rest")
            assert await session.run(["get:0", "get:1", "get:2"]) == [3, 4, 5]
