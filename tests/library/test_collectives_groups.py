"""Tensors reduced inside each host first, then between the hosts."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from tests.library.test_collectives import drawn, on_devices, place, run, same_bits
from tests.support.scale import some

SHAPES = [(7,), (3, 40), (), (0, 3), (2,)]
GROUPS = {
    1: [[[0]]],
    2: [[[0, 1]], [[1], [0]]],
    3: [[[2, 0, 1]], [[0, 2], [1]]],
    4: [[range(4)], [[0, 1], [2, 3]], [[0, 3, 1], [2]]],
    5: [[[0, 1], [2, 3, 4]]],
    6: [[[0, 1], [2, 3], [4, 5]]],
    7: [[[6], [0, 1, 2, 3], [4, 5]]],
    8: [[range(4), range(4, 8)]],
    9: [[range(9)], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]],
}
REFERENCES = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "min": np.min, "max": np.max}


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


# Values


@pytest.mark.parametrize("open_shape", [False, True], ids=["known shape", "unknown shape"])
@pytest.mark.parametrize(
    "devices", [each if each in (1, 4, 7) else pytest.param(each, marks=pytest.mark.long) for each in GROUPS]
)
async def test_all_devices_get_the_same_bits_in_each_run_whatever_the_groups_and_the_shape(devices, open_shape):
    fetches, feeds, expected = [], {}, []
    for shape, groups in some(itertools.product(SHAPES, GROUPS[devices]), 6):
        arrays = drawn(devices, shape, np.float32)
        tensors, more = on_devices(arrays, lambda array: None if open_shape else array.shape)
        fetches.append(af.collectives.all_reduce(tensors, groups=groups))
        feeds |= more
        expected.append(np.sum(arrays, axis=0))
    once, again = [await run(fetches, feeds, devices) for _ in range(2)]
    for found, repeated, wanted in zip(once, again, expected, strict=True):
        assert same_bits([*found, *repeated])
        assert found[0].shape == wanted.shape
        np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", REFERENCES)
async def test_each_reduction_of_each_dtype_is_made_in_groups(op, dtype):
    if op == "mean" and dtype is np.int32:
        pytest.skip("integers have no mean")
    fetches, feeds = [], {}
    arrays = [(4 * array).round().astype(dtype) for array in drawn(4, (9,))]
    for groups in GROUPS[4]:
        tensors, more = on_devices(arrays)
        fetches.append(af.collectives.all_reduce(tensors, op, groups=groups))
        feeds |= more
    wanted = REFERENCES[op]([array.astype(np.float64) for array in arrays], axis=0)
    for found in await run(fetches, feeds, 4):
        assert same_bits(found)
        assert found[0].dtype == dtype
        np.testing.assert_allclose(found[0].astype(np.float64), wanted, rtol=0.01)


@pytest.mark.parametrize("groups", GROUPS[4])
async def test_a_mean_of_narrow_floats_is_not_infinite_if_their_sum_is(groups):
    tensors, feeds = on_devices([np.full(5, 40000, np.float16)] * 4)
    for found in await run(af.collectives.all_reduce(tensors, "mean", groups=groups), feeds, 4):
        assert (found.dtype, found.tolist()) == (np.float16, [40000] * 5)


async def test_one_group_adds_in_the_order_of_its_list_even_large_tensors():
    arrays = drawn(3, [1_600_001], np.float32)
    tensors, feeds = on_devices(arrays)
    found = await run(af.collectives.all_reduce(tensors, groups=[[2, 0, 1]]), feeds, 3)
    assert same_bits([*found, (arrays[2] + arrays[0]) + arrays[1]])


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize("groups", GROUPS[2])
async def test_one_device_gets_the_result_though_the_run_asks_for_no_other(groups, op):
    arrays = drawn(2, (64, 50), np.float32)
    tensors, feeds = on_devices(arrays)
    alone = af.collectives.all_reduce(tensors, op, groups=groups)[0] * 2.0
    np.testing.assert_allclose(await run(alone, feeds, 2), 2 * REFERENCES[op](arrays, axis=0), rtol=1e-5)


@pytest.mark.parametrize("groups", [None, *GROUPS[2]])
@pytest.mark.parametrize("size", [100_000, 3_000_000])
async def test_a_variable_that_has_taken_the_result_can_be_changed_in_place(groups, size):
    tensors, feeds = on_devices([np.ones(size, np.float32)] * 2)
    with af.device(place(1)):
        variable = af.Variable(np.zeros(size, np.float32))
        taken = variable.assign(af.collectives.all_reduce(tensors, groups=groups)[1])
        grown = variable.assign_add(np.ones(size, np.float32))
    async with af.Session(config=af.Config(device_count={"CPU": 2})) as session:
        for _ in range(2):
            await session.run(taken.op, feeds)
            await session.run(grown.op)
            assert (await session.run(grown)).tolist() == [4] * size


# What is sent


async def transfers(reduced, feeds, devices):
    metadata = af.RunMetadata()
    await run(reduced, feeds, devices, metadata)
    return [
        (*(int(name.rpartition(":")[2]) for name in (each.source, each.target)), each.bytes)
        for each in metadata.transfers
    ]


@pytest.mark.parametrize("size", [1800, 900_000])
async def test_each_byte_leaves_a_host_once(size):
    groups = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    tensors, feeds = on_devices(drawn(9, [size], np.float32))
    left = dict.fromkeys(range(3), 0)
    for source, target, nbytes in await transfers(af.collectives.all_reduce(tensors, groups=groups), feeds, 9):
        if source // 3 != target // 3:
            assert source % 3 == target % 3
            left[source // 3] += nbytes
    assert left == dict.fromkeys(range(3), 2 * 2 * 4 * size // 3)


@pytest.mark.long
@pytest.mark.parametrize(("size", "messages"), [(1000, 12), (1_000_000, 12), (1_100_000, 24)])
async def test_a_small_tensor_is_reduced_by_each_device_of_the_only_group(size, messages):
    tensors, feeds = on_devices(drawn(4, [size], np.float32))
    made = []
    for tensor in tensors:
        with af.colocate_with(tensor):
            made.append(af.exp(tensor))
    assert len(await transfers(af.collectives.all_reduce(made, groups=[range(4)]), feeds, 4)) == messages


async def test_only_bytes_that_leave_a_host_are_lossy():
    arrays = drawn(4, [3000], np.float32)
    tensors, feeds = on_devices(arrays)
    alone = af.collectives.all_reduce(tensors, codec="bfloat16", groups=[range(4)])
    both = af.collectives.all_reduce(tensors, codec="bfloat16", groups=[[0, 1], [2, 3]])
    exact, rounded = await run([alone, both], feeds, 4)
    assert same_bits([*exact, arrays[0] + arrays[1] + arrays[2] + arrays[3]])
    assert same_bits(rounded)
    assert not same_bits([rounded[0], exact[0]])
    np.testing.assert_allclose(rounded[0], exact[0], rtol=0.02, atol=0.05)


# Gradients


@pytest.mark.parametrize("op", ["sum", "mean"])
@pytest.mark.parametrize("groups", GROUPS[4])
async def test_the_gradient_is_the_reduction_of_what_arrives_at_all_devices(op, groups):
    tensors, feeds = on_devices(drawn(4, [2, 5]))
    reduced = af.collectives.all_reduce(tensors, op, groups=groups)
    total = af.add_n([af.reduce_sum(value * float(weight)) for weight, value in enumerate(reduced, 1)])
    for found in await run(af.gradients(total, tensors, colocate_gradients_with_ops=True), feeds, 4):
        np.testing.assert_allclose(found, np.full((2, 5), 10.0 if op == "sum" else 2.5))


# Hosts


def test_tensors_of_one_host_are_one_group():
    cluster = af.train.ClusterSpec({"worker": ["a:1", "b:1", "a:2"], "ps": ["b:2"]})
    tensors = []
    for device in ("/job:worker/task:1", "/job:worker/task:0/cpu:1", "/job:ps", "/job:worker/task:2"):
        with af.device(device):
            tensors.append(af.identity(1.0))
    assert af.collectives.groups_by_host(tensors, cluster) == [[0, 2], [1, 3]]
    with af.colocate_with(tensors[1]):
        beside = af.identity(2.0)
    assert af.collectives.groups_by_host([beside, tensors[3]], cluster) == [[0, 1]]


@pytest.mark.parametrize(("device", "said"), [("/job:other", "tensor 0 is on /job:other"), ("", "no device")])
def test_tensors_of_no_task_have_no_host(device, said):
    with af.device(device):
        tensor = af.identity(1.0)
    with pytest.raises(ValueError, match=said):
        af.collectives.groups_by_host([tensor], af.train.ClusterSpec({"worker": ["a:1"]}))


# Bad input


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": []}, "each number from 0 to 2 once"),
        ({"groups": [[0, 1]]}, r"they are \[\[0, 1\]\]"),
        ({"groups": [[0, 1], [1, 2]]}, "each number"),
        ({"groups": [[0, 1, 2], []]}, "none may be empty"),
        ({"groups": [[0, 1], [3]]}, "each number"),
        ({"groups": [[0, 1], [2]], "in_task_order": True}, "2 groups cannot be reduced in task order"),
    ],
)
def test_groups_that_do_not_have_each_tensor_once_are_refused(graph, options, said):
    tensors = [af.constant(np.zeros(2))] * 3
    before = len(graph.get_operations())
    with pytest.raises(ValueError, match=said):
        af.collectives.all_reduce(tensors, **options)
    assert len(graph.get_operations()) == before


async def test_shapes_that_differ_in_the_step_are_an_error():
    tensors, feeds = on_devices([np.zeros(3), np.zeros(4)], lambda array: [None])
    assert tensors[0].device != place(1)
    with pytest.raises(af.errors.InvalidArgumentError, match="differ"):
        await run(af.collectives.all_reduce(tensors, groups=[[0, 1]]), feeds, 2)
