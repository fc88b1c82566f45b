"""Operations that would make huge tensors from small inputs are refused before they allocate."""

import tracemalloc

import numpy as np
import pytest

import aioflow as af
from aioflow.plan import allocation
from tests.support.scale import amount, some

LIMIT = 64 << 20
MANY = 1 << 40
SOME = 1 << 26
SMALL = 1 << 20


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def int64s(*values):
    return np.array(values, np.int64)


def sparse(shape):
    return af.SparseTensor(np.array([[0]], np.int64), np.array([1.0], np.float32), shape)


GIANTS = {
    "fill": lambda n: af.fill([n], 1.0),
    "fill of two sizes": lambda n: af.fill([n, n], 1.0),
    "fill of strings": lambda n: af.fill([n], b"text"),
    "zeros": lambda n: af.zeros([n]) + 1.0,
    "ones": lambda n: af.ones([n, 2]) + 1.0,
    "zeros_like": lambda n: af.zeros_like(af.fill([n], 1.0)),
    "eye": lambda n: af.eye(n),
    "range": lambda n: af.range(n),
    "range of floats": lambda n: af.range(0.0, af.cast(n, af.float64), 0.5),
    "linspace": lambda n: af.linspace(0.0, 1.0, af.cast(n, af.int64)),
    "tile": lambda n: af.tile([1.0, 2.0], [n]),
    "tile of a matrix": lambda n: af.tile([[1.0, 2.0]], [n, n]),
    "repeat": lambda n: af.repeat([1.0, 2.0], n),
    "one_hot": lambda n: af.one_hot([1, 2], af.cast(n, af.int64)),
    "pad": lambda n: af.pad([1.0], [[n, n]]),
    "sparse_to_dense": lambda n: af.sparse_tensor_to_dense(sparse([n])),
    "sequence_mask": lambda n: af.sequence_mask([1, 2], af.cast(n, af.int64)),
    "sequence_mask of lengths": lambda n: af.sequence_mask(af.stack([n, n])),
    "bincount": lambda n: af.bincount([1], minlength=af.cast(n, af.int32)),
    "dynamic_stitch": lambda n: af.dynamic_stitch([af.cast(af.stack([n]) - 1, af.int32)], [[1.0]]),
    "scatter_nd": lambda n: af.scatter_nd([[0]], [1.0], [n]),
    "unsorted_segment_sum": lambda n: af.unsorted_segment_sum([1.0], [0], n),
    "unsorted_segment_max": lambda n: af.unsorted_segment_max([1.0], [0], n),
    "segment_sum": lambda n: af.segment_sum([1.0], af.stack([n - 1])),
    "segment_max": lambda n: af.segment_max([[1.0]], af.stack([n - 1])),
    "sparse_segment_sum": lambda n: af.sparse_segment_sum([[1.0]], [0], af.stack([n - 1])),
    "sparse_segment_mean": lambda n: af.sparse_segment_mean([[1.0]], [0], [0], num_segments=n),
    "histogram": lambda n: af.histogram_fixed_width([1.0], [0.0, 2.0], af.cast(n, af.int32)),
    "confusion_matrix": lambda n: af.confusion_matrix([1], [1], af.cast(n, af.int32)),
    "random_uniform": lambda n: af.random_uniform([n]),
    "random_normal": lambda n: af.random_normal([n]),
    "random_gamma": lambda n: af.random_gamma([n], 1.0),
    "truncated_normal": lambda n: af.truncated_normal([n]),
    "multinomial": lambda n: af.multinomial([[1.0, 2.0]], af.cast(n, af.int32)),
    "resize_images": lambda n: af.image.resize_images(np.ones([1, 2, 2, 3], np.float32), [n, n]),
    "space_to_batch": lambda n: af.space_to_batch_nd(
        np.ones([1, 2, 1], np.float32), [2], af.reshape(n * [2, 0], [1, 2])
    ),
    "matrix_diag": lambda n: af.matrix_diag(af.fill([n], 1.0)),
    "broadcast_to, then added": lambda n: af.broadcast_to([1.0], [n]) + af.fill([n], 1.0),
    "gather_nd of a giant": lambda n: af.gather_nd(af.fill([n], 1.0), [[0]]),
}
NARROW = {"bincount", "dynamic_stitch", "histogram", "confusion_matrix", "multinomial"}
"""The operations whose sizes are int32."""


async def refused(session, tensor, feeds):
    tracemalloc.start()
    try:
        with pytest.raises(af.errors.OpError) as caught:
            await session.run(tensor, feeds)
        assert isinstance(caught.value, (af.errors.ResourceExhaustedError, af.errors.InvalidArgumentError))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", GIANTS)
async def test_a_fed_size_beyond_the_memory_limit_allocates_nothing(name):
    n = af.placeholder(af.int64, [])
    made = GIANTS[name](n)
    async with af.Session(config=af.Config(memory_limit={"CPU:0": LIMIT})) as session:
        assert await refused(session, made, {n: SOME}) < LIMIT


@pytest.mark.parametrize("name", GIANTS)
async def test_a_fed_size_beyond_the_machine_allocates_nothing(name, monkeypatch):
    monkeypatch.setattr(allocation, "machine_memory", lambda: LIMIT)
    n = af.placeholder(af.int64, [])
    made = GIANTS[name](n)
    async with af.Session() as session:
        assert await refused(session, made, {n: SOME}) < LIMIT
        if name not in NARROW:
            assert await refused(session, made, {n: MANY}) < LIMIT


@pytest.mark.parametrize("name", GIANTS)
async def test_a_constant_size_beyond_the_machine_is_refused_at_the_latest_in_the_run(name, monkeypatch):
    monkeypatch.setattr(allocation, "machine_memory", lambda: LIMIT)
    tracemalloc.start()
    try:
        made = GIANTS[name](af.constant(SOME, af.int64))
    except (ValueError, TypeError):  # a rule that knows the size may refuse it
        return
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < LIMIT
    async with af.Session() as session:
        assert await refused(session, made, {}) < LIMIT


@pytest.mark.parametrize("name", GIANTS)
async def test_small_sizes_pass(name):
    n = af.placeholder(af.int64, [])
    async with af.Session(config=af.Config(memory_limit={"CPU:0": LIMIT})) as session:
        await session.run(GIANTS[name](n), {n: 3})


OF_VECTORS = {
    "diag": af.diag,
    "matrix_diag": af.matrix_diag,
    "matrix_diag far off": lambda x: af.matrix_diag(x[:1], k=SOME),
    "qr": lambda x: af.qr(af.expand_dims(x, 1), full_matrices=True)[0],
    "svd": lambda x: af.svd(af.expand_dims(x, 1), full_matrices=True)[1],
    "conv2d with padding": lambda x: af.nn.conv2d(
        af.reshape(x, [1, 1, -1, 1]), np.ones([1, 1, 1, 1], np.float32), strides=[1, 1, 1, 1],
        padding=[[0, 0], [1 << 12, 1 << 12], [0, 0], [0, 0]],
    ),
    "extract_image_patches": lambda x: af.extract_image_patches(
        af.reshape(x, [1, 128, 128, 1]), [1, 64, 64, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"
    ),
    "candidate sampler": lambda x: af.nn.uniform_candidate_sampler(
        af.cast(af.expand_dims(x, 1), af.int64), 1, SOME, False, SOME
    )[0],
    "slots that are not written": lambda x: af.TensorArray(af.float32, af.size(x), element_shape=[1 << 20]).stack(),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_VECTORS)
async def test_sizes_and_attributes_that_multiply_beyond_memory_allocate_nothing(name, monkeypatch):
    monkeypatch.setattr(allocation, "machine_memory", lambda: LIMIT)
    x = af.placeholder(af.float32, None)
    made = OF_VECTORS[name](x)
    async with af.Session() as session:
        assert await refused(session, made, {x: np.ones(1 << 14, np.float32)}) < LIMIT


LONG_VECTORS = {
    "reshape": lambda x, sizes: af.reshape(x, sizes),
    "slice": lambda x, sizes: af.slice(x, sizes, sizes),
    "broadcast_to": lambda x, sizes: af.broadcast_to(x, sizes),
    "fill": lambda x, sizes: af.fill(sizes, 1.0),
    "unravel_index": lambda x, sizes: af.unravel_index(af.constant(3), sizes),
    "scatter": lambda x, sizes: af.TensorArray(af.float32, 3).scatter(sizes, x).flow,
    "split": lambda x, sizes: af.TensorArray(af.float32, 3).split(x, sizes).flow,
    "random_normal": lambda x, sizes: af.random_normal(sizes),
}


@pytest.mark.parametrize("name", LONG_VECTORS)
def test_rules_make_nothing_as_long_as_the_vectors_they_are_given(name):
    x, sizes = af.placeholder(af.float32, None), af.placeholder(af.int32, [SOME])
    tracemalloc.start()
    try:
        LONG_VECTORS[name](x, sizes)
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()


async def test_a_loop_over_more_elements_than_fit_is_refused_without_a_list_of_them():
    n = af.placeholder(af.int32, [])
    mapped = af.map_fn(lambda x: x, af.fill([n], 1.0))
    async with af.Session(config=af.Config(memory_limit={"CPU:0": LIMIT})) as session:
        assert await refused(session, mapped, {n: SOME}) < LIMIT


@pytest.mark.parametrize(
    "join",
    [
        lambda x: af.string_join([x] * 128),
        *some(
            [
                lambda x: af.reduce_join(af.tile([b"a"], [128]), 0, separator="s" * SMALL),
                lambda x: af.regex_replace(x, "a{1000}", "b" * 128_000),
                lambda x: af.regex_replace(x, "a*", r"\0" * 128),
                lambda x: af.regex_replace(af.fill([128], x), "^a", "b" * SMALL, replace_global=False),
            ],
            1,
        ),
    ],
)
async def test_strings_that_would_be_longer_than_memory_are_not_joined(join, monkeypatch):
    monkeypatch.setattr(allocation, "machine_memory", lambda: LIMIT)
    x = af.placeholder(af.string, [])
    async with af.Session() as session:
        assert await refused(session, join(x), {x: b"a" * SMALL}) < LIMIT


async def test_a_view_that_is_fetched_is_not_copied_beyond_memory():
    x = af.placeholder(af.float32, [1])
    giant = af.broadcast_to(x, [1 << 20, 1 << 20])
    async with af.Session() as session:
        assert await refused(session, giant, {x: [1.0]}) < LIMIT


@pytest.mark.parametrize(("attribute", "value"), [("width", 2**31 - 1), ("precision", 2**31 - 1)])
async def test_text_of_numbers_is_not_wider_than_memory(attribute, value):
    x = af.placeholder(af.float32, [None])
    made = af.as_string(x, **{attribute: value})
    async with af.Session(config=af.Config(memory_limit={"CPU:0": LIMIT})) as session:
        assert await refused(session, made, {x: np.ones(10, np.float32)}) < LIMIT


def _concatenated(array, size):
    return array.concat()


def _gathered(array, size):
    return array.gather(af.range(size))


@pytest.mark.parametrize("read", [_concatenated, _gathered])
@pytest.mark.parametrize("known", [True, False], ids=["element_shape", "like the written slot"])
async def test_unwritten_slots_are_counted_by_the_size_of_their_zeros(read, known):
    size, row = af.placeholder(af.int32, []), af.placeholder(af.float32)
    array = af.TensorArray(af.float32, size, element_shape=[1 << 16] if known else None)
    made = read(array.write(0, row), size)
    async with af.Session(config=af.Config(memory_limit={"CPU:0": LIMIT})) as session:
        assert await refused(session, made, {size: 1000, row: np.ones(1 << 16, np.float32)}) < LIMIT
        assert (await session.run(made, {size: 2, row: np.ones(1 << 16, np.float32)})).sum() == 1 << 16


async def test_a_few_written_slots_are_gathered_millions_of_times():
    indices, count = af.placeholder(af.int32, [None]), amount(1_000_000, 5_000_000)
    array = af.TensorArray(af.float32, 3, clear_after_read=False).unstack(af.constant([1.0, 2.0, 3.0]))
    async with af.Session() as session:
        found = await session.run(array.gather(indices), {indices: np.arange(count, dtype=np.int32) % 3})
    np.testing.assert_array_equal(found, np.arange(count) % 3 + 1)


@pytest.mark.parametrize("read", [lambda array: array.concat(), lambda array: array.gather(af.range(array.size()))])
async def test_a_list_of_many_unwritten_slots_is_not_filled(read):
    size = af.placeholder(af.int32, [])
    made = read(af.TensorArray(af.float32, size, element_shape=[0]))
    async with af.Session() as session:
        with pytest.raises(af.errors.ResourceExhaustedError, match="8,388,608 slots are not written"):
            await session.run(made, {size: 1 << 23})


async def test_the_error_names_the_needed_and_the_available_bytes(monkeypatch):
    monkeypatch.setattr(allocation, "machine_memory", lambda: LIMIT)
    n = af.placeholder(af.int64, [])
    made = af.fill([n], 1.0, name="giant")
    async with af.Session() as session:
        with pytest.raises(
            af.errors.ResourceExhaustedError, match=r"'giant' needs 4,398,046,511,104 bytes.*67,108,864"
        ):
            await session.run(made, {n: MANY})


async def test_the_same_shapes_and_sizes_are_checked_once(monkeypatch):
    checked, needed = [], allocation.needed
    monkeypatch.setattr(allocation, "needed", lambda *args: checked.append(args[2][0].tolist()) or needed(*args))
    sizes, dy = af.placeholder(af.int32, [4]), af.placeholder(af.float32, [None] * 4)
    dx = af.nn.conv2d_backprop_input(sizes, af.ones([3, 3, 8, 16]), dy, [1, 1, 1, 1], "SAME")
    async with af.Session(graph=dx.graph) as session:
        for count in (4, 4, 5, 4):
            found = await session.run(dx, {sizes: [count, 64, 64, 8], dy: np.ones([count, 64, 64, 16], np.float32)})
            assert found.shape == (count, 64, 64, 8)
        with pytest.raises(af.errors.InvalidArgumentError, match="16 and 15"):
            await session.run(dx, {sizes: [4, 64, 64, 8], dy: np.ones([4, 64, 64, 15], np.float32)})
    assert [each[0] for each in checked] == [4, 5, 4, 4]


def test_ranges_of_floats_are_counted_before_they_are_made():
    tracemalloc.start()
    try:
        af.range(0.0, 1e12, 1.0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("classes", [[[1, 2]], [1], 1])
async def test_inputs_that_the_shape_rule_refuses_allocate_nothing(classes):
    true_classes = af.placeholder(af.int64, None)
    sampled = af.nn.uniform_candidate_sampler(true_classes, 1, MANY, False, MANY)
    async with af.Session() as session:
        with pytest.raises(af.errors.InvalidArgumentError, match=r"true classes per row|rank 2 is needed"):
            await session.run(sampled[0], {true_classes: classes})
