"""Iterators in graphs: graph_iterator.py, optional.py, and their ops."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import Dataset, graph_iterator, structures
from aioflow.data.optional import Optional
from aioflow.library.type_specs import TensorSpec
from aioflow.testing import Gate, no_leaks


async def all_of(session, fetch):
    """The values of a fetch in one step after the other, until the data ends."""
    found = []
    while True:
        try:
            found.append(await session.run(fetch))
        except errors.OutOfRangeError:
            return found


async def test_each_step_gets_the_next_element_with_its_structure_and_shapes():
    rows = {
        "x": np.arange(6, dtype=np.float32).reshape(3, 2),
        "y": (np.arange(3), np.array([b"a", b"b", b"c"], object)),
    }
    with af.Graph().as_default() as graph:
        iterator = graph_iterator.make_one_shot_iterator(Dataset.from_tensor_slices(rows).prefetch(2))
        element = iterator.get_next()
        total = af.reduce_sum(element["x"]) + af.cast(element["y"][0], af.float32)
    assert element["x"].shape == [2]
    assert element["y"][1].dtype is af.string
    assert structures.get_output_types(iterator) == {"x": af.float32, "y": (af.int64, af.string)}
    with no_leaks():
        async with af.Session(graph=graph) as session, af.Session(graph=graph) as other:
            value, whole = await session.run([element, total])
            assert value["x"].tolist() == [0.0, 1.0]
            assert value["y"] == (0, b"a")
            assert whole == 1.0
            assert await all_of(session, total) == [6.0, 11.0]
            assert await session.run([]) == []
            with pytest.raises(errors.OutOfRangeError, match="no further element"):
                await session.run(total)
            assert await other.run(element["y"][1]) == b"a"  # a place of its own


async def test_an_initializer_begins_anew_and_may_change_the_dataset():
    with af.Graph().as_default() as graph:
        iterator = graph_iterator.make_initializable_iterator(Dataset.range(3))
        number = iterator.get_next()
        other = graph_iterator.Iterator.from_structure(af.int64, [])
        begin = other.make_initializer(Dataset.range(5, 7)), other.make_initializer(Dataset.range(2).map(lambda n: n))
        handle = af.placeholder(af.string, [])
        chosen = graph_iterator.Iterator.from_string_handle(handle, af.int64, []).get_next()
        names = iterator.string_handle(), other.string_handle()
        with pytest.raises(TypeError, match="gives elements like"):
            other.make_initializer(Dataset.from_tensors(0.5))
        with pytest.raises(ValueError, match="has no initializer"):
            _ = other.initializer
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.FailedPreconditionError, match="run its initializer"):
            await session.run(number)
        for _ in range(2):
            await session.run(iterator.initializer)
            assert await session.run(number) == 0
        for operation, expected in zip(begin, ([5, 6], [0, 1]), strict=True):
            await session.run(operation)
            assert await all_of(session, other.get_next()) == expected
        await session.run(begin[0])
        first, second = await session.run(names)
        assert await session.run(chosen, {handle: second}) == 5
        assert await session.run(chosen, {handle: first}) == 1
        with pytest.raises(errors.InvalidArgumentError, match="no handle of an iterator"):
            await session.run(chosen, {handle: "x"})


async def test_a_cancelled_or_failed_step_takes_no_element():
    gate = Gate()
    broken = True

    async def wait(number):
        if number == 1:
            await gate.wait()
        if number == 2 and broken:
            raise ValueError("two")
        return number

    with af.Graph().as_default() as graph:
        dataset = Dataset.range(4).map(wait).with_element_spec(TensorSpec([], af.int64))
        number = dataset.make_one_shot_iterator().get_next()
    async with af.Session(graph=graph) as session:
        assert await session.run(number) == 0
        waiting = asyncio.create_task(session.run(number))
        await gate.arrived()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.open()
        assert await session.run(number) == 1
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match="element 2: two"):
                await session.run(number)
        broken = False
        assert await all_of(session, number) == [2, 3]


async def test_steps_at_a_time_take_different_elements_and_closing_the_session_ends_the_dataset():
    ended = []

    async def count():
        try:
            for number in range(100):
                yield number
        finally:
            ended.append(True)

    with af.Graph().as_default() as graph:
        dataset = Dataset.from_generator(count, af.int64, []).prefetch(3)
        iterator = graph_iterator.make_one_shot_iterator(dataset)
        pair = iterator.get_next(), iterator.get_next()
    with no_leaks():
        async with af.Session(graph=graph) as session:
            pairs = await asyncio.gather(*[session.run(pair) for _ in range(5)])
            assert sorted(number for each in pairs for number in each) == list(range(10))
        assert ended == [True]


async def test_an_optional_is_empty_at_the_end():
    with af.Graph().as_default() as graph:
        iterator = graph_iterator.make_one_shot_iterator(Dataset.from_tensor_slices([[1, 2]]))
        found = graph_iterator.get_next_as_optional(iterator)
        fetch = found.has_value(), found.get_value()
        given, empty = Optional.from_value((1, "a")), Optional.empty(TensorSpec([None], af.string))
        nothing = empty.has_value(), given.get_value()
        failing = empty.get_value()
    async with af.Session(graph=graph) as session:
        has_value, value = await session.run(fetch)
        assert (has_value, value.tolist()) == (True, [1, 2])
        assert not await session.run(found.has_value())
        with pytest.raises(errors.InvalidArgumentError, match="has no value"):
            await session.run(fetch)
        assert await session.run(nothing) == (False, (1, b"a"))
        with pytest.raises(errors.InvalidArgumentError, match="has no value"):
            await session.run(failing)


async def test_wrong_elements_and_unknown_dtypes_are_refused():
    with af.Graph().as_default() as graph:
        unknown = Dataset.range(3).map(lambda number: number)
        with pytest.raises(ValueError, match="declare them by Dataset"):
            graph_iterator.make_one_shot_iterator(unknown)
        with pytest.raises(TypeError, match="a dataset is needed"):
            graph_iterator.make_one_shot_iterator([1])
        wrong = unknown.with_element_spec(TensorSpec([2], af.int64)).make_one_shot_iterator().get_next()
        with pytest.raises(ValueError, match="exists only in this process"):
            graph.as_graph_def()
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"element 0: component .*\[2\]") as raised:
            await session.run(wrong)
    assert "test_graph_iterator.py" in str(raised.value)
