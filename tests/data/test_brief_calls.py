"""Brief functions are called for several elements in one go on a thread: brief_calls.py."""

import asyncio
import json

import numpy as np
import pytest

import aioflow as af
from aioflow.data import brief_calls
from aioflow.data.calls import Calls
from aioflow.testing import Gate

Dataset = af.data.Dataset
COUNT = 1000


@pytest.fixture
def seconds(monkeypatch):
    """The time that the next call takes, on a clock that no machine can slow down."""

    class Clock:
        now, call = 0.0, 1e-6

        def __call__(self):
            self.now += self.call
            return self.now

    clock = Clock()
    monkeypatch.setattr(brief_calls, "clock", clock)
    return clock


@pytest.fixture
def trips(monkeypatch):
    """Grows by one with each way to a thread."""
    found = []
    on_thread = Calls.on_thread

    def counted(self, *args):
        found.append(args)
        return on_thread(self, *args)

    monkeypatch.setattr(Calls, "on_thread", counted)
    return found


@pytest.mark.parametrize(
    "source",
    [
        Dataset.range(COUNT),
        Dataset.from_tensor_slices(np.arange(COUNT)).shuffle(50, seed=1),
        Dataset.range(COUNT // 2).repeat(2).take(COUNT - 1),
        Dataset.range(4).flat_map(lambda number: Dataset.range(int(number) * 300)).enumerate().map(lambda i, x: x),
        Dataset.range(COUNT).skip(1).enumerate().filter(lambda i, x: x % 3 == 0).map(lambda i, x: x),
    ],
)
async def test_a_brief_function_takes_few_ways_to_threads_and_gives_the_same_from_any_position(source, seconds, trips):
    expected = [int(x) for x in [element async for element in source]]
    dataset = source.map(lambda x: x + 1).filter(lambda x: x % 2 == 0)
    trips.clear()
    async with dataset.iterate() as iterator:
        first = [int(await anext(iterator)) for _ in range(100)]
        saved = json.dumps(iterator.state())
        rest = [int(x) async for x in iterator]
    assert first + rest == [x + 1 for x in expected if x % 2]
    assert len(trips) < len(expected) / 2
    async with dataset.iterate(json.loads(saved)) as iterator:
        assert [int(x) async for x in iterator] == rest


async def test_calls_stop_at_the_first_one_that_fails_and_results_before_it_are_given(seconds):
    called = []

    def function(x):
        called.append(int(x))
        return 1 // int(x != 500)

    async with Dataset.range(COUNT).map(function).iterate() as iterator:
        assert len([await anext(iterator) for _ in range(500)]) == 500
        with pytest.raises(af.errors.OpError, match="element 500: ZeroDivisionError"):
            await anext(iterator)
    assert called == list(range(501))


async def test_results_are_given_before_an_error_of_the_input(seconds):
    broken = Dataset.range(100).concatenate(Dataset.from_generator(lambda: iter([1, object()]))).map(lambda x: x + 1)
    async with broken.iterate() as iterator:
        assert [int(await anext(iterator)) for _ in range(101)] == [*range(1, 101), 2]
        with pytest.raises(af.errors.OpError, match="from_generator"):
            await anext(iterator)


async def test_first_calls_are_made_when_they_are_asked_for_and_slow_ones_always(seconds):
    called = []

    def function(x):
        seconds.call = 1.0 if 100 <= x < 110 else 1e-6
        called.append(int(x))
        return x

    ahead = [len(called) - int(x) - 1 async for x in Dataset.range(200).map(function)]
    assert set(ahead[: brief_calls.ALONE]) == {0}
    assert max(ahead) > 10
    assert set(ahead[101:110]) == {0}


async def test_nothing_waits_for_elements_that_the_input_has_not_at_hand(seconds):
    gate = Gate()

    async def numbers():
        for number in range(100):
            if number == 60:
                await gate.wait()
            yield number

    async with Dataset.from_generator(numbers).map(lambda x: x + 1).iterate() as iterator:
        assert [int(await anext(iterator)) for _ in range(60)] == list(range(1, 61))
        gate.open()
        assert int(await anext(iterator)) == 61


async def test_large_results_and_awaitables_are_made_one_at_a_time(seconds):
    made = []

    def large(x):
        made.append(x)
        return np.zeros(1 << 20, np.uint8)

    async def later(x):
        return x + 1

    ahead = [len(made) - number async for number, _ in Dataset.range(100).map(large).enumerate(1)]
    assert max(ahead) <= 1
    assert [int(x) async for x in Dataset.range(50).map(lambda x: later(x) if x > 30 else x + 1)] == [*range(1, 51)]
    async for _ in Dataset.range(50).map(lambda x: later(x) if x == 49 else x):
        break
    await asyncio.sleep(0)


@pytest.mark.parametrize("returned", [lambda array: array, lambda array: {"rows": array[:2]}])
async def test_a_function_that_fills_one_array_again_and_again_is_called_for_one_element_at_a_time(returned, seconds):
    array = np.zeros(3, np.int64)

    def fill(x):
        array[:] = x
        return returned(array)

    async with Dataset.range(COUNT).map(fill).iterate() as iterator:
        found = [int(np.ravel(made["rows"] if isinstance(made, dict) else made)[0]) async for made in iterator]
    assert found == list(range(COUNT))


async def test_an_async_function_that_cannot_be_called_names_the_stage():
    async def pair(x, y):
        return x + y

    async with Dataset.range(3).map(pair).iterate() as iterator:
        with pytest.raises(af.errors.OpError, match=r"element 0: .*missing 1 required positional argument") as found:
            await anext(iterator)
    assert found.value.op == "map"
