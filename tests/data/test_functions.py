"""Functions and generators of the user: how many run at a time, their order, what their errors say."""

import asyncio
import functools
import logging
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import AUTOTUNE, Dataset
from aioflow.data.calls import GRACE
from aioflow.testing import Gate, no_leaks
from tests.data.test_dataset import elements


@pytest.mark.parametrize("most", [1, 3, 20])
async def test_as_many_calls_run_at_a_time_as_num_parallel_calls_says(most):
    running = largest = 0

    async def count(number):
        nonlocal running, largest
        running += 1
        largest = max(largest, running)
        await asyncio.sleep(10 - int(number))  # later ones are ready first
        running -= 1
        return number

    assert await elements(Dataset.range(10).map(count, num_parallel_calls=most)) == list(range(10))
    assert largest == min(most, 10)


async def test_calls_at_a_time_take_the_time_of_the_longest():
    async def wait(number):
        await asyncio.sleep(5)
        return number

    begin = asyncio.get_running_loop().time()
    assert len(await elements(Dataset.range(8).map(wait, num_parallel_calls=4))) == 8
    assert asyncio.get_running_loop().time() - begin == 10


async def test_datasets_of_an_interleave_are_read_at_a_time():
    running = largest = 0

    async def slow(number):
        nonlocal running, largest
        running += 1
        largest = max(largest, running)
        await asyncio.sleep(1)
        running -= 1
        return number

    dataset = Dataset.range(4).interleave(
        lambda start: Dataset.range(start * 3, start * 3 + 3).map(slow), cycle_length=4, num_parallel_calls=2
    )
    assert await elements(dataset) == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    assert largest == 2


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(lambda a, b: a + b, 1),
        functools.partial(asyncio.sleep, 0),
        lambda number: asyncio.sleep(0, number),
        type("Callable", (), {"__call__": lambda self, number: number})(),
        type("AsyncCallable", (), {"__call__": lambda self, number: asyncio.sleep(0, number)})(),
    ],
    ids=["partial", "partial of async", "lambda that returns an awaitable", "object", "async object"],
)
async def test_anything_that_can_be_called_is_a_function(function):
    (element,) = await elements(Dataset.from_tensors(3).map(function))
    assert element in (3, 4)


async def test_autotune_is_the_number_of_cpus():
    assert await elements(Dataset.range(3).map(lambda n: n, AUTOTUNE).prefetch(af.data.AUTOTUNE)) == [0, 1, 2]


def fail(number):
    if number == 3:
        raise ValueError("no threes")
    return number


async def fail_async(number):
    return fail(number)


def generate():
    for number in range(9):
        yield fail(number)


async def generate_async():
    for number in range(9):
        yield fail(number)


FAILING = {
    "map": lambda: Dataset.range(9).map(fail),
    "map of an async function": lambda: Dataset.range(9).map(fail_async),
    "parallel map": lambda: Dataset.range(9).map(fail, 4),
    "filter": lambda: Dataset.range(9).filter(lambda number: bool(fail(number) + 1)),
    "flat_map": lambda: Dataset.range(9).flat_map(lambda number: Dataset.from_tensors(fail(number))),
    "from_generator": lambda: Dataset.from_generator(generate),
    "from_generator of an async one": lambda: Dataset.from_generator(generate_async).prefetch(2),
}


@pytest.mark.parametrize("name", FAILING)
async def test_an_error_names_the_stage_its_line_and_the_element(name):
    iterator = FAILING[name]().iterate()
    assert [int(await anext(iterator)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(errors.InvalidArgumentError) as raised:
        await anext(iterator)
    error = raised.value
    assert error.message == "element 3: no threes"
    assert error.op == name.removeprefix("parallel ").partition(" ")[0]
    assert "test_functions.py" in error.line
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (KeyError("x"), errors.UnknownError),
        (StopIteration(), errors.UnknownError),
        (StopAsyncIteration(), errors.UnknownError),
        (errors.OutOfRangeError("mine"), errors.OutOfRangeError),
        (asyncio.CancelledError(), errors.CancelledError),
        (errors.NotFoundError("mine"), errors.NotFoundError),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else repr(each),
)
@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("is_async", [False, True])
async def test_no_error_of_a_function_is_taken_for_the_end(raised, kind, calls, is_async):
    def fail(number):
        raise raised

    async def fail_async(number):
        raise raised

    with pytest.raises(kind, match="element 0: ") as found:
        await elements(Dataset.range(2).map(fail_async if is_async else fail, calls))
    assert found.value.op == "map"


class Raising:
    """An iterator, or an async one, whose only step raises an error."""

    def __init__(self, error):
        self._error = error

    def __iter__(self):
        return self

    __aiter__ = __iter__

    def __next__(self):
        raise self._error

    async def __anext__(self):
        raise self._error


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
@pytest.mark.parametrize(
    "made",
    [
        lambda fail: Dataset.range(2).filter(fail),
        lambda fail: Dataset.range(2).take_while(fail),
        lambda fail: Dataset.range(2).flat_map(fail),
        lambda fail: Dataset.range(2).interleave(fail, cycle_length=2, num_parallel_calls=2),
        lambda fail: Dataset.range(2).map(fail).batch(2).prefetch(1),
        lambda fail: Dataset.from_generator(fail),
    ],
    ids=["filter", "take_while", "flat_map", "interleave", "batches", "from_generator"],
)
async def test_a_function_does_not_end_the_data_by_an_error_that_ends_iterations(made, error):
    def fail(*_):
        raise error

    with pytest.raises(errors.UnknownError, match=f"a function raised {error.__name__}, which does not end the data"):
        await elements(made(fail))
    with pytest.raises(errors.UnknownError, match=f"a function raised {error.__name__}"):
        await Dataset.range(2).reduce(0, fail)


async def test_an_iterator_ends_by_its_own_error_only():
    for each in (StopAsyncIteration, StopIteration):
        kind = "__anext__" if each is StopIteration else "__next__"
        only = type("Only", (), {name: vars(Raising)[name] for name in ("__init__", "__iter__", kind)})
        if each is StopIteration:
            only.__aiter__ = only.__iter__
            del only.__iter__
        with pytest.raises(errors.UnknownError, match=f"raised {each.__name__}, which does not end the data"):
            await elements(Dataset.from_generator(lambda only=only, each=each: only(each("mine"))))


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (Dataset.range(2).map(lambda number: {1, 2}), "element 0: "),
        (Dataset.range(2).filter(lambda number: 5), "element 0: .*True or False, not 5"),
        (Dataset.range(2).flat_map(lambda number: number), "element 0: .*a dataset is needed"),
        (Dataset.from_generator(lambda: 3), "element 0: .*an iterable or an async iterable, not 3"),
        (Dataset.from_generator(lambda: [1, "x"], af.int32), "element 1: .*int32"),
        (Dataset.from_generator(lambda: [[1], [1, 2]], af.int32, [1]), r"element 1: .*shape \[1\], not \[2\]"),
        (Dataset.from_generator(lambda: [(1, 2), (1,)], (af.int32, af.int32)), "element 1: .*does not fit"),
        (Dataset.from_tensors(3).unbatch(), "element 0: .*first axis"),
        (Dataset.range(2).reduce(0, lambda total, number: {1}), "element 0: "),
    ],
)  # fmt: skip
async def test_results_that_are_no_elements_are_refused(dataset, text):
    with pytest.raises(errors.OpError, match=text):
        await (elements(dataset) if isinstance(dataset, Dataset) else dataset)


async def test_a_generator_gives_the_dtypes_that_are_declared():
    dataset = Dataset.from_generator(lambda: [(1, ["a"])], (af.float32, af.string), ([], [None]))
    ((number, text),) = [each async for each in dataset]
    assert number.dtype == np.float32
    assert text.tolist() == [b"a"]


async def test_a_generator_gets_its_arguments_and_begins_anew_in_each_epoch():
    dataset = Dataset.from_generator(lambda first, last: range(first, last), args=(3, 5)).repeat(2)
    assert await elements(dataset) == [3, 4, 3, 4]


async def test_a_generator_may_use_its_array_again():
    def fill():
        array = np.zeros(1)
        for number in range(3):
            array[:] = number
            yield array

    assert await elements(Dataset.from_generator(fill).batch(3)) == [[[0], [1], [2]]]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_generator_that_goes_on_when_it_is_closed_is_an_error(is_async):
    def stubborn():
        try:
            yield 1
        finally:
            yield 2

    async def stubborn_async():
        try:
            yield 1
        finally:
            yield 2

    iterator = Dataset.from_generator(stubborn_async if is_async else stubborn).iterate()
    await anext(iterator)
    with pytest.raises(errors.UnknownError, match="generator ignored GeneratorExit") as raised:
        await iterator.aclose()
    assert raised.value.op == "from_generator"


async def test_all_inputs_are_closed_even_if_one_fails_to():
    closed = []

    async def source(name):
        try:
            yield name
        finally:
            closed.append(name)
            if name == 2:
                raise ValueError("it stays open")

    parts = [Dataset.from_generator(source, args=(number,)) for number in range(4)]
    iterator = Dataset.zip(tuple(parts)).iterate()
    await anext(iterator)
    with pytest.raises(errors.InvalidArgumentError, match="it stays open"):
        await iterator.aclose()
    assert sorted(closed) == [0, 1, 2, 3]


@pytest.mark.real
async def test_a_call_that_never_returns_is_left_behind_and_logged(monkeypatch, caplog):
    assert GRACE == 10
    monkeypatch.setattr("aioflow.data.calls.GRACE", 0.01)
    entered, release = threading.Event(), threading.Event()

    def hang(number):
        entered.set()
        release.wait()

    with no_leaks(), caplog.at_level(logging.WARNING, "aioflow.input"):
        consumer = asyncio.create_task(elements(Dataset.range(3).map(hang)))
        await asyncio.to_thread(entered.wait)
        consumer.cancel()
        await asyncio.wait([consumer])
    assert consumer.cancelled()
    (record,) = caplog.records
    assert "1 calls of map at" in record.getMessage()
    assert "test_functions.py" in record.getMessage()
    release.set()


async def test_the_calls_that_wait_after_a_failed_one_are_cancelled():
    gate, cancelled = Gate(), []

    async def call(number):
        if number == 0:
            await gate.wait()
            raise ValueError("first")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(int(number))
            raise

    consumer = asyncio.create_task(elements(Dataset.range(9).map(call, 3)))
    await gate.arrived()
    gate.open()
    with pytest.raises(errors.InvalidArgumentError, match="element 0: first"):
        await consumer
    assert sorted(cancelled) == [1, 2, 3]  # the failed call had made room for one more


@pytest.mark.parametrize(
    "shared",
    [
        Dataset.from_tensors(np.zeros(2)).repeat(2),
        Dataset.from_tensors(np.zeros(2)).group_by_window(lambda x: 0, lambda key, window: window.repeat(2), 1),
        Dataset.from_tensors(np.zeros(2)).cache().repeat(2),
    ],
)
async def test_a_function_cannot_change_elements_that_are_given_again(shared):
    def change(x):
        x += 1.0
        return x

    with pytest.raises(af.errors.OpError, match="read-only"):
        await shared.map(change).reduce(np.zeros(2), lambda state, x: x)
    assert [float(x[0]) async for x in shared] == [0.0, 0.0]
