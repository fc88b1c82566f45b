"""Tensors on several devices reduced to one that all of these get."""

import asyncio
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.testing import VirtualTimeLoop
from tests.support.scale import amount

SHAPES = [(7,), (3, 4), (), (0, 3), (1,), (2, 1, 5)]
REFERENCES = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "min": np.min, "max": np.max}


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def place(number):
    return f"/cpu:{number}"


def on_devices(arrays, shape_of=np.shape):
    """A tensor for each array, each on a device of its own, and the feeds."""
    tensors, feeds = [], {}
    for number, array in enumerate(arrays):
        with af.device(place(number)):
            fed = af.placeholder(np.asarray(array).dtype, shape_of(array))
            tensors.append(af.identity(fed))
            feeds[fed] = array
    return tensors, feeds


async def run(fetches, feeds, devices, metadata=None):
    config = af.Config(device_count={"CPU": devices})
    async with af.Session(config=config) as session:
        options = af.RunOptions(trace=metadata is not None)
        return await session.run(fetches, feeds, options, metadata)


def drawn(count, shape, dtype=np.float64):
    return [np.random.default_rng(number).normal(size=shape).astype(dtype) for number in range(count)]


def same_bits(values):
    return len({np.asarray(value).tobytes() for value in values}) == 1


# Values


@pytest.mark.parametrize("open_shape", [False, True], ids=["known shape", "unknown shape"])
@pytest.mark.parametrize(
    ("devices", "op"),
    [
        pytest.param(devices, op, marks=() if devices == 3 or (op == "mean" and devices != 2) else pytest.mark.long)
        for devices, op in itertools.product([1, 2, 3, 5], REFERENCES)
    ],
)
async def test_all_devices_get_the_reduction_to_the_same_bits_whatever_the_shape(devices, op, open_shape):
    fetches, feeds, expected = [], {}, []
    for shape in SHAPES:
        arrays = drawn(devices, shape, np.float32)
        tensors, more = on_devices(arrays, lambda array: None if open_shape else array.shape)
        fetches.append(af.collectives.all_reduce(tensors, op))
        feeds |= more
        expected.append(REFERENCES[op](arrays, axis=0))
    for found, wanted in zip(await run(fetches, feeds, devices), expected, strict=True):
        assert same_bits(found)
        for value in found:
            assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@settings(max_examples=amount(8, 30))
@given(st.integers(1, 6), st.lists(st.integers(0, 5), max_size=3), st.sampled_from(["float32", "float64", "int32"]))
def test_in_task_order_the_sum_is_to_the_bit_that_of_one_device(devices, shape, dtype):
    arrays = [(1e3 * array).astype(dtype) for array in drawn(devices, shape)]
    with af.Graph().as_default(), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        tensors, feeds = on_devices(arrays)
        found = runner.run(run(af.collectives.all_reduce(tensors, in_task_order=True), feeds, devices))
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = total + array
    assert [value.tobytes() for value in found] == [total.tobytes()] * devices


@pytest.mark.parametrize("name", ["all_sum", "all_prod", "all_min", "all_max"])
async def test_each_reduction_has_the_name_that_tensorflow_gives_it(name):
    arrays = [np.array([3, -1], np.int32), np.array([2, 5], np.int32)]
    tensors, feeds = on_devices(arrays)
    for value in await run(getattr(af.collectives, name)(tensors), feeds, 2):
        np.testing.assert_array_equal(value, REFERENCES[name.removeprefix("all_")](arrays, axis=0))


@pytest.mark.parametrize("in_task_order", [False, True])
async def test_a_mean_of_narrow_floats_is_not_infinite_if_their_sum_is(in_task_order):
    tensors, feeds = on_devices([np.full(4, 40000, np.float16)] * 3)
    found = await run(af.collectives.all_reduce(tensors, "mean", in_task_order=in_task_order), feeds, 3)
    assert [(each.dtype, each.tolist()) for each in found] == [(np.float16, [40000] * 4)] * 3


async def test_a_mean_of_narrow_floats_takes_as_many_bytes_as_their_sum():
    sent = []
    for op in ("sum", "mean"):
        tensors, feeds = on_devices([np.ones(300, np.float16)] * 3)
        metadata = af.RunMetadata()
        await run(af.collectives.all_reduce(tensors, op), feeds, 3, metadata)
        sent.append(sum(transfer.bytes for transfer in metadata.transfers))
    assert sent[0] == sent[1]


async def test_a_complex_mean_is_one():
    tensors, feeds = on_devices([np.array([1 + 1j]), np.array([3 - 3j])])
    for value in await run(af.collectives.all_reduce(tensors, "mean"), feeds, 2):
        assert value.tolist() == [2 - 1j]


# What is sent


@pytest.mark.parametrize("devices", [2, 4, 5])
@pytest.mark.parametrize("open_shape", [False, True], ids=["known shape", "unknown shape"])
async def test_each_device_sends_its_bytes_to_the_next_one_only(devices, open_shape):
    size = 1000 * devices
    arrays = drawn(devices, [size], np.float32)
    tensors, feeds = on_devices(arrays, lambda array: [None] if open_shape else array.shape)
    metadata = af.RunMetadata()
    await run(af.collectives.all_reduce(tensors), feeds, devices, metadata)
    sent = {}
    for transfer in metadata.transfers:
        source, target = (int(name.rpartition(":")[2]) for name in (transfer.source, transfer.target))
        assert target == (source + 1) % devices
        if transfer.bytes > 16:  # the others say what shapes there are
            sent[source] = sent.get(source, 0) + transfer.bytes
    assert sent == dict.fromkeys(range(devices), 2 * (devices - 1) * 4 * size // devices)


async def test_the_order_of_tasks_takes_as_many_bytes():
    tensors, feeds = on_devices(drawn(4, [4000], np.float32))
    metadata = af.RunMetadata()
    await run(af.collectives.all_reduce(tensors, in_task_order=True), feeds, 4, metadata)
    assert {stats.sent for stats in metadata.by_device().values()} == {2 * 3 * 4000}


@pytest.mark.parametrize("codec", ["bfloat16", "float16", "int8", "int8_rows"])
@pytest.mark.parametrize("open_shape", [False, True], ids=["known shape", "unknown shape"])
async def test_in_a_lossy_form_all_devices_have_the_same_bits_too(codec, open_shape):
    arrays = drawn(3, [5, 100], np.float32)
    tensors, feeds = on_devices(arrays, lambda array: None if open_shape else array.shape)
    found = await run(af.collectives.all_reduce(tensors, "mean", codec), feeds, 3)
    assert same_bits(found)
    np.testing.assert_allclose(found[0], np.mean(arrays, axis=0), atol=0.05)
    assert not np.array_equal(found[0], np.mean(arrays, axis=0))


@pytest.mark.parametrize(("codec", "fewer"), [("bfloat16", 2), ("int8", 3.9), ("top_k:0.01", 45)])
async def test_a_lossy_form_takes_fewer_bytes(codec, fewer):
    tensors, feeds = on_devices(drawn(4, [40_000], np.float32))
    sums = {}
    for each in (None, codec):
        metadata = af.RunMetadata()
        await run(af.collectives.all_reduce(tensors, codec=each), feeds, 4, metadata)
        sums[each] = sum(transfer.bytes for transfer in metadata.transfers)
    assert sums[None] / sums[codec] >= fewer


async def test_what_lossy_forms_save_is_counted_where_something_is_sent():
    tensors, feeds = on_devices(drawn(2, [200], np.float32))
    reduced = af.collectives.all_reduce(tensors, codec="bfloat16")
    async with af.Session(config=af.Config(device_count={"CPU": 2})) as session:
        await session.run(reduced, feeds)
        savings = await session.savings()
    assert sum(saving.sent for saving in savings.values()) == 2 * 200 * 2
    assert sum(saving.saved for saving in savings.values()) == 2 * 200 * 2


async def test_what_the_largest_elements_leave_out_comes_in_later_steps():
    arrays = [array.round(2) for array in drawn(3, [60])]
    tensors, feeds = on_devices(arrays)
    reduced = af.collectives.all_reduce(tensors, codec="top_k:0.1")
    total = np.zeros(60)
    async with af.Session(config=af.Config(device_count={"CPU": 3})) as session:
        for _ in range(3):
            found = await session.run(reduced, feeds)
            assert same_bits(found)
            total += found[0]
        assert np.abs(total - 3 * sum(arrays)).max() > 0.1
        for _ in range(60):
            total += (await session.run(reduced, dict.fromkeys(feeds, np.zeros(60))))[0]
    np.testing.assert_allclose(total, 3 * sum(arrays), atol=1e-9)


# Rows, gathering, broadcasting


async def test_rows_are_put_one_after_the_other():
    parts = [([[1.0, 2.0]], [3]), ([[10.0, 20.0], [5.0, 6.0]], [0, 3])]
    slices = []
    for number, (values, indices) in enumerate(parts):
        with af.device(place(number)):
            slices.append(af.IndexedSlices(af.identity(values), af.identity(indices), af.identity([4, 2])))
    for found in await run(af.collectives.all_reduce(slices, "mean"), {}, 2):
        assert found.values.tolist() == [[0.5, 1.0], [5.0, 10.0], [2.5, 3.0]]
        assert found.indices.tolist() == [3, 0, 3]
        assert found.dense_shape.tolist() == [4, 2]


async def test_rows_may_be_lossy_but_are_not_left_out():
    slices = []
    for number in range(2):
        with af.device(place(number)):
            values = af.identity(np.array([[1.001, 2.0], [3.0, 0.5]], np.float32))
            slices.append(af.IndexedSlices(values, af.identity([0, 1])))
    halves = af.collectives.all_reduce(slices, codec="bfloat16")
    whole = af.collectives.all_reduce(slices, codec="top_k:0.1")
    for found, first in zip(await run([*halves, *whole], {}, 2), [1.0, 1.0, 1.001, 1.001], strict=True):
        np.testing.assert_array_equal(found.values, np.float32([[first, 2], [3, 0.5]] * 2))


async def test_gathered_tensors_stand_in_the_order_of_the_devices():
    arrays = [np.arange(6.0).reshape(2, 3), np.ones((2, 1)), np.zeros((2, 0))]
    tensors, feeds = on_devices(arrays)
    for value in await run(af.collectives.all_gather(tensors, axis=1), feeds, 3):
        np.testing.assert_array_equal(value, np.concatenate(arrays, 1))


@pytest.mark.parametrize("root", [0, 2])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_broadcast_tensor_is_on_all_devices(root, shape):
    arrays = drawn(3, shape)
    tensors, feeds = on_devices(arrays)
    for value in await run(af.collectives.broadcast(tensors, root), feeds, 3):
        np.testing.assert_array_equal(value, arrays[root])


# Gradients


@pytest.mark.parametrize("open_shape", [False, True], ids=["known shape", "unknown shape"])
@pytest.mark.parametrize("in_task_order", [False, True])
@pytest.mark.parametrize("op", ["sum", "mean"])
async def test_the_gradient_is_the_reduction_of_what_arrives_at_all_devices(op, in_task_order, open_shape):
    arrays = drawn(3, [2, 5])
    tensors, feeds = on_devices(arrays, lambda array: None if open_shape else array.shape)
    reduced = af.collectives.all_reduce(tensors, op, in_task_order=in_task_order)
    total = af.add_n([af.reduce_sum(value * float(weight)) for weight, value in enumerate(reduced, 1)])
    gradients = af.gradients(total, tensors, colocate_gradients_with_ops=True)
    metadata = af.RunMetadata()
    for found in await run(gradients, feeds, 3, metadata):
        np.testing.assert_allclose(found, np.full((2, 5), 6.0 if op == "sum" else 2.0))


async def test_the_gradient_takes_as_many_bytes():
    tensors, feeds = on_devices(drawn(4, [4000]))
    there = []
    for number, value in enumerate(af.collectives.all_sum(tensors)):
        with af.device(place(number)):
            there.append(af.exp(value * float(number)))
    gradients = af.gradients(there, tensors, colocate_gradients_with_ops=True)
    sent = []
    for fetches in (there, gradients):
        metadata = af.RunMetadata()
        await run(fetches, feeds, 4, metadata)
        sent.append({name: stats.sent for name, stats in metadata.by_device().items()})
    assert sent[1] == {name: 2 * count for name, count in sent[0].items()}


async def test_the_gradient_of_a_maximum_goes_to_where_it_came_from():
    tensors, feeds = on_devices([np.array([1.0, 5.0, 2.0]), np.array([4.0, 3.0, 0.0])])
    reduced = af.collectives.all_max(tensors)
    found = await run(af.gradients(reduced[0], tensors), feeds, 2)
    assert [value.tolist() for value in found] == [[0, 1, 1], [1, 0, 0]]


async def test_a_gathered_tensor_gives_each_its_part_of_the_gradient():
    tensors, feeds = on_devices([np.ones(2), np.ones(3)])
    gathered = af.collectives.all_gather(tensors)
    weights = np.arange(5.0)
    found = await run(af.gradients([gathered[0] * weights, gathered[1]], tensors), feeds, 2)
    assert [value.tolist() for value in found] == [[1, 2], [3, 4, 5]]


def test_gradients_stop_at_a_lossy_sum():
    tensors, _ = on_devices(drawn(2, [100]))
    reduced = af.collectives.all_reduce(tensors, codec="int8")
    assert af.gradients(reduced, tensors) == [None, None]


# Places


async def test_tensors_that_are_beside_others_have_their_devices():
    with af.device(place(0)):
        first = af.identity([1.0, 2.0])
    with af.device(place(1)):
        second = af.identity([3.0, 4.0])
    beside = []
    for tensor in (first, second):
        with af.colocate_with(tensor):
            beside.append(af.identity(tensor * 2.0))
    reduced = af.collectives.all_sum(beside)
    assert [value.device for value in reduced] == [first.device, second.device]
    for value in await run(reduced, {}, 2):
        assert value.tolist() == [8, 12]


async def test_tensors_of_no_device_are_summed_where_they_are():
    tensors = [af.placeholder(af.float32, [3]) for _ in range(3)]
    reduced = af.collectives.all_sum(tensors)
    for value in await run(reduced, dict.fromkeys(tensors, np.ones(3)), 1):
        assert value.tolist() == [3, 3, 3]


# Bad input


@pytest.mark.parametrize(
    ("arrays", "options", "error", "said"),
    [
        ([], {}, ValueError, "at least one tensor"),
        ([np.zeros(2), np.zeros(3)], {}, ValueError, "2.*3"),
        ([np.zeros(2), np.zeros(2, np.float32)], {}, TypeError, "float64.*float32|float32.*float64"),
        ([np.zeros(2, np.int32)] * 2, {"op": "mean"}, TypeError, "int32"),
        ([np.array(["a"], object)] * 2, {}, TypeError, "string"),
        ([np.zeros(2)] * 2, {"op": "median"}, ValueError, "op must be one of sum, mean, prod, min, max, not 'median'"),
        ([np.zeros(2)] * 2, {"codec": "zip"}, ValueError, "not a lossy codec"),
        ([np.zeros(2)] * 2, {"op": "max", "codec": "int8"}, ValueError, "only sums and means"),
        ([np.zeros(2, np.int32)] * 2, {"codec": "int8"}, TypeError, "int32"),
    ],
)
def test_what_cannot_be_reduced_is_refused_and_leaves_nothing(graph, arrays, options, error, said):
    tensors = [af.constant(array) for array in arrays]
    before = len(graph.get_operations())
    with pytest.raises(error, match=said):
        af.collectives.all_reduce(tensors, **options)
    assert len(graph.get_operations()) == before


def test_rows_and_tensors_do_not_mix():
    rows = af.IndexedSlices(af.zeros([1, 2]), af.constant([0]))
    with pytest.raises(TypeError, match="of one kind"):
        af.collectives.all_reduce([rows, af.zeros([2, 2])])
    with pytest.raises(ValueError, match="'max' cannot"):
        af.collectives.all_reduce([rows, rows], "max")


def test_a_root_is_one_of_the_tensors():
    with pytest.raises(ValueError, match="there are 2 tensors: root cannot be 2"):
        af.collectives.broadcast([af.zeros([1]), af.zeros([1])], root=2)


@pytest.mark.parametrize("shapes", [[(2, 3), (3, 2)], [(1,), (4,)], [(), (1,)], [(2,), (2, 2)], [(4,), (4,), (2, 2)]])
async def test_shapes_that_differ_in_the_step_are_an_error(shapes):
    tensors, feeds = on_devices([np.ones(shape) for shape in shapes], lambda array: None)
    with pytest.raises(errors.InvalidArgumentError, match=r"shapes differ|broadcast"):
        await run(af.collectives.all_sum(tensors), feeds, len(shapes))


def test_a_ring_of_many_devices_has_few_nodes_for_each(graph):
    tensors, _ = on_devices(drawn(8, [80]))
    before = len(graph.get_operations())
    af.collectives.all_sum(tensors)
    assert len(graph.get_operations()) - before <= math.prod((8, 2 * 8 + 6))


@pytest.mark.parametrize(("floats", "parts"), [(3 << 20, 1), ((3 << 20) + 6, 2)])
def test_large_pieces_go_round_in_parts_that_do_not_wait_for_each_other(graph, floats, parts):
    tensors = []
    for number in range(3):
        with af.device(place(number)):
            tensors.append(af.placeholder(af.float32, [floats]))
    af.collectives.all_sum(tensors)
    added = [op for op in graph.get_operations() if op.type == "sum_for_peers"]
    assert len(added) == 2 * 3 * parts
    before = [[each.op for each in op.inputs if each.op in added] for op in added]
    assert sorted(map(len, before)) == [0] * 3 * parts + [1] * 3 * parts
    devices = [op.device for op in added]
    assert sorted(map(devices.count, devices)) == [2 * parts] * len(added)
    assert all(first.device != op.device for op, firsts in zip(added, before, strict=True) for first in firsts)
