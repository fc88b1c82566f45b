"""The structure of fetches: what comes back has the shape of what was asked for."""

import collections
import dataclasses
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

import aioflow as af


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    loss: Any
    step: Any = None
    note: str = dataclasses.field(default="made", init=False)


class Names(list):
    pass


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def elements(graph):
    a, b = af.constant(1.0, name="a"), af.constant([2.0, 3.0], name="b")
    return a, b, af.no_op(name="nothing")


@pytest.fixture
async def run(graph, elements):
    async with af.Session(graph=graph) as session:
        yield session.run


def plain(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


async def test_one_tensor_gives_the_bare_value(run, elements):
    a, b, _ = elements
    assert await run(a) == 1.0
    assert plain(await run(b)) == [2.0, 3.0]


async def test_a_scalar_is_a_numpy_scalar_and_an_array_an_array(run, elements):
    assert type(await run(elements[0])) is np.float32
    assert type(await run(elements[1])) is np.ndarray


async def test_an_operation_gives_none(run, elements):
    assert await run(elements[2]) is None
    assert await run([elements[2], elements[0]]) == [None, 1.0]


async def test_a_name_stands_for_a_tensor_or_an_operation(run):
    assert await run("a:0") == 1.0
    assert await run("nothing") is None
    assert await run("a") is None
    assert await run({"value": "a:0", "op": b"nothing"}) == {"value": 1.0, "op": None}


async def test_a_variable_gives_its_value(graph):
    v = af.Variable(7.0)
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert await session.run(v) == 7.0
        assert await session.run([v, v + 1.0]) == [7.0, 8.0]


async def test_nothing_asked_for_is_nothing_got(run):
    assert await run([]) == []
    assert await run(()) == ()
    assert await run({}) == {}
    assert await run([[], ({},)]) == [[], ({},)]


async def test_lists_tuples_and_dicts_nest_to_any_depth(run, elements):
    a, b, nothing = elements
    got = await run([a, (nothing, {"x": [b, a]}), {"y": (), "z": {"deep": (a,)}}])
    assert got[0] == 1.0
    assert got[1][0] is None
    assert plain(got[1][1]["x"][0]) == [2.0, 3.0]
    assert got[1][1]["x"][1] == 1.0
    assert got[2] == {"y": (), "z": {"deep": (1.0,)}}


async def test_operations_give_none_at_any_place_of_a_list(run, elements):
    a, b, nothing = elements
    for fetches in ([a, nothing], [a, b, nothing], [nothing, a], [a, nothing, b], [nothing, a, nothing], (a, nothing)):
        got = await run(fetches)
        assert type(got) is type(fetches)
        expected = {a: 1.0, b: [2.0, 3.0], nothing: None}
        assert [plain(value) for value in got] == [expected[each] for each in fetches]


async def test_subclasses_of_list_and_tuple_come_back_as_themselves(run, elements):
    a, *_ = elements
    got = await run(Pair(a, Names([a])))
    assert got == Pair(1.0, [1.0])
    assert type(got) is Pair
    assert type(got.second) is Names


async def test_dicts_come_back_as_themselves_with_their_order(run, elements):
    a, *_ = elements
    ordered = collections.OrderedDict(z=a, y=a)
    got = await run(ordered)
    assert type(got) is collections.OrderedDict
    assert list(got) == ["z", "y"]
    got = await run(collections.defaultdict(list, x=a))
    assert got == {"x": 1.0}
    assert got["missing"] == []
    assert await run(types.MappingProxyType({"x": a})) == {"x": 1.0}
    assert list(ordered.values()) == [a, a]


async def test_a_key_may_be_a_tensor(run, elements):
    a, *_ = elements
    assert await run({a: a}) == {a: 1.0}


async def test_records_come_back_as_their_class(run, elements):
    a, _, nothing = elements
    assert await run(Record(a, nothing)) == Record(1.0, None)
    assert await run([Record(loss=[a, a], step=a)]) == [Record([1.0, 1.0], 1.0)]


async def test_classes_of_attrs_come_back_as_themselves(run, elements):
    attrs = pytest.importorskip("attrs")

    @attrs.frozen
    class Result:
        _loss: Any
        step: Any

    a, *_ = elements
    assert await run(Result(a, [a])) == Result(1.0, [1.0])


async def test_indexed_slices_give_their_values_and_indices(run, graph):
    slices = af.IndexedSlices(af.constant([[1.0], [2.0]]), af.constant([3, 5]), af.constant([9, 1]))
    got = await run({"gradient": slices})
    assert plain(got["gradient"].values) == [[1.0], [2.0]]
    assert plain(got["gradient"].indices) == [3, 5]
    assert plain(got["gradient"].dense_shape) == [9, 1]
    got = await run(af.IndexedSlices(af.constant([[1.0]]), af.constant([0])))
    assert got.dense_shape is None


async def test_what_is_asked_for_twice_is_computed_once(graph):
    counter = af.Variable(0)
    added = counter.assign_add(1)
    async with af.Session(graph=graph) as session:
        await session.run(counter.initializer)
        assert await session.run([added, added, {"again": added}]) == [1, 1, {"again": 1}]
        assert await session.run([added, "" + added.name]) == [2, 2]
        assert await session.run(counter) == 2


@pytest.mark.parametrize(
    ("fetches", "error", "text"),
    [
        (None, TypeError, "a fetch is None; fetch a tensor"),
        ([None], TypeError, "a fetch is None"),
        ({"x": None}, TypeError, "a fetch is None"),
        (3, TypeError, "cannot fetch 3: 3 of type int is neither a tensor nor an operation"),
        ([1.5], TypeError, "of type float is neither"),
        ({"a:0"}, TypeError, "of type set is neither"),
        (Record, TypeError, "of type type is neither"),
        ("unknown", ValueError, "the graph has no operation 'unknown'"),
        ("unknown:0", ValueError, "no operation 'unknown' (asked for 'unknown:0')"),
        ("a:1", ValueError, "'a' has 1 outputs; there is no 'a:1'"),
        ("a:x", ValueError, "'a:x' is not a tensor's name; write op:index"),
        ("", ValueError, "the graph has no operation ''"),
    ],
)
async def test_what_cannot_be_fetched_is_refused_and_nothing_runs(graph, fetches, error, text):
    af.constant(1.0, name="a")
    counter = af.Variable(0)
    added = counter.assign_add(1)
    async with af.Session(graph=graph) as session:
        await session.run(counter.initializer)
        with pytest.raises(error) as caught:
            await session.run([added, fetches])
        assert text in str(caught.value)
        assert await session.run(counter) == 0


async def test_an_element_of_another_graph_is_refused(run):
    with af.Graph().as_default():
        other = af.constant(1.0, name="other")
    with pytest.raises(ValueError, match=r"'other:0'.* is not an element of this graph"):
        await run(other)


async def test_an_unfetchable_element_is_refused_with_its_line(run, graph, elements):
    graph.prevent_fetching(elements[0].op)
    with pytest.raises(ValueError, match=r"'a:0' may not be fetched(.|\n)*test_fetches\.py:\d+ in elements"):
        await run(elements[0])


async def test_a_handle_has_no_value(graph):
    v = af.Variable(1.0, name="v")
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert await session.run(v.handle.op) is None
        with pytest.raises(ValueError, match="'v:0' is a handle and has no value; fetch what is read from it"):
            await session.run(v.handle)
