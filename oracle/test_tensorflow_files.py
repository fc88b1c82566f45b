"""Graphs, checkpoints and saved models that TensorFlow writes give aioflow the numbers that they give TensorFlow."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioflow as af
from oracle import tensorflow_models as models
from oracle.both import tensorflow

pytestmark = pytest.mark.filterwarnings("default")
RANDOM = np.random.default_rng(7)


def numbers(*shape: int) -> Any:
    return RANDOM.uniform(0.1, 0.9, shape).astype(np.float32)


M, V, WHOLE = numbers(3, 4), numbers(4), np.array([[5, 2, 7], [3, 1, 4]], np.int32)
IMAGES, CUBES = numbers(2, 5, 5, 4), numbers(1, 3, 4, 4, 2)
B = np.array([[True, False, True], [False, False, True]])
TEXT = np.array(["a b", "Cc d", " 12 "], object)
DIGITS = np.array(["1.5", "-2"], object)
Expression = Callable[..., Any]


def each(names: str) -> Expression:
    """All functions of these names of TensorFlow, of the same inputs."""

    def build(tf: Any, *inputs: Any) -> list[Any]:
        found = []
        for name in names.split():
            function = tf
            for part in name.split("."):
                function = getattr(function, part)
            found.append(function(*inputs))
        return found

    return build


LINES: dict[str, tuple[Expression, list[Any]]] = {
    "one number": (
        each(
            "abs acos asin atan ceil cos cosh sin sinh tan tanh exp floor log log1p sqrt square sign "
            "round rint "
            "math.acosh math.asinh math.atanh digamma erf erfc expm1 lgamma negative reciprocal rsqrt "
            "sigmoid "
            "is_finite is_inf is_nan zeros_like ones_like identity stop_gradient math.erfinv math.ndtri "
            "nn.relu nn.relu6 nn.elu nn.selu nn.softplus nn.softsign nn.softmax nn.log_softmax nn.l2_loss "
        ),
        [M],
    ),
    "two numbers": (
        each(
            "add subtract multiply divide realdiv floordiv floormod truncatediv pow squared_difference "
            "maximum "
            "minimum equal not_equal less less_equal greater greater_equal atan2 igamma igammac "
            "math.xdivy math.xlogy math.multiply_no_nan math.divide_no_nan math.nextafter "
        ),
        [M, V],
    ),
    "whole numbers": (
        each(
            "add floordiv floormod truncatediv truncatemod maximum bitwise.bitwise_and "
            "bitwise.bitwise_or div "
            "bitwise.bitwise_xor bitwise.left_shift bitwise.right_shift "
        ),
        [WHOLE, WHOLE[:, ::-1]],
    ),
    "logic": (
        lambda tf, b: [tf.logical_not(b), tf.logical_and(b, b), tf.logical_or(b, b), tf.where(b), tf.cast(b, "int32")],
        [B],
    ),
    "choice": (
        lambda tf, b, i: [
            tf.where(b, i, -i), tf.where_v2(b, i, 0), tf.where(b[:, 0], i, -i), tf.clip_by_value(i, 2, 4),
        ],
        [B, WHOLE],
    ),
    "reductions": (
        lambda tf, m: [
            *[getattr(tf, f"reduce_{name}")(m, 1, keepdims=True) for name in ("sum", "mean", "prod", "max", "min")],
            tf.reduce_sum(m), tf.argmax(m, 1), tf.argmin(m, 0, output_type=tf.int32), tf.norm(m), tf.add_n([m, m]),
            tf.cumsum(m, 1, True, True), tf.cumprod(m), tf.reduce_all(m > 0), tf.reduce_any(m > 0.5, 0),
            tf.segment_sum(m, [0, 0, 1]), tf.unsorted_segment_sum(m, [1, 0, 1], 2), tf.segment_max(m, [0, 0, 1]),
        ],
        [M],
    ),
    "shapes": (
        lambda tf, m: [
            tf.shape(m), tf.size(m, out_type=tf.int64), tf.rank(m), tf.reshape(m, [4, -1]), tf.transpose(m),
            tf.expand_dims(m, 1), tf.squeeze(tf.expand_dims(m, 1)), tf.tile(m, [2, 1]), tf.fill([2], 1.5),
            tf.ensure_shape(m, [None, 4]), tf.broadcast_to(m, [2, 3, 4]), tf.range(5),
            *tf.shape_n([m, m]), tf.broadcast_dynamic_shape(tf.shape(m), [1]),
        ],
        [M],
    ),
    "parts": (
        lambda tf, m: [
            m[0], m[:, 1:3], m[..., tf.newaxis, ::2], m[-1, -1], tf.slice(m, [0, 1], [2, -1]), tf.gather(m, [2, 0]),
            tf.gather(m, [[1], [3], [0]], axis=1, batch_dims=1), tf.gather_nd(m, [[0, 1], [2, 3]]),
            *tf.split(m, 2, 1), *tf.split(m, [1, 2]), *tf.unstack(m[:2], 2), tf.stack([m, m], 1), tf.concat([m, m], 1),
            tf.reverse(m, [1]), tf.reverse_sequence(m, [1, 2, 4], 1), *tf.nn.top_k(m, 2), tf.one_hot([1, 0], 3),
            tf.pad(m, [[1, 0], [0, 2]]), tf.pad(m, [[1, 0], [0, 2]], constant_values=7.0),
            tf.pad(m, [[1, 0], [0, 2]], "REFLECT"), *tf.unique([3, 1, 3]), *tf.unique_with_counts([3, 1, 3]),
            *tf.dynamic_partition(m, [0, 1, 0], 2), tf.dynamic_stitch([[0, 2], [1]], [m[:2], m[2:]]),
            tf.scatter_nd([[1], [3]], m[:2], [5, 4]), tf.tensor_scatter_nd_update(m, [[1]], m[:1]),
            tf.invert_permutation([2, 0, 1]), tf.matrix_band_part(m, 1, 0), tf.boolean_mask(m, [True, False, True]),
            tf.nn.in_top_k(m, [1, 2, 0], 2), tf.sparse_to_dense([[0, 1]], [2, 2], [5]),
            tf.nn.embedding_lookup_sparse(m, tf.SparseTensor([[0, 0], [1, 0]], [2, 1], [2, 1]), None, combiner="mean"),
        ],
        [M],
    ),
    "products": (
        lambda tf, m, v: [
            tf.matmul(m, m, transpose_b=True), tf.matmul(tf.stack([m, m]), tf.stack([m, m]), adjoint_b=True),
            tf.einsum("ij,kj->ik", m, m), tf.nn.bias_add(m, v), tf.nn.leaky_relu(m - 0.5),
            tf.tensordot(m, m, [[1], [1]]),
            tf.nn.softmax_cross_entropy_with_logits_v2(labels=m, logits=m),
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 0, 2], logits=m),
            tf.nn.sigmoid_cross_entropy_with_logits(labels=m, logits=m),
        ],
        [M, V],
    ),
    "images": (
        lambda tf, x: [
            tf.nn.conv2d(x, numbers(3, 3, 4, 2), [1, 2, 2, 1], "SAME"),
            tf.nn.conv2d(x, numbers(2, 2, 4, 2), [1, 1, 1, 1], [[0, 0], [1, 0], [0, 2], [0, 0]]),
            tf.nn.conv2d(x, numbers(3, 3, 4, 2), [1, 1, 1, 1], "VALID", dilations=[1, 2, 2, 1]),
            tf.nn.depthwise_conv2d(x, numbers(2, 2, 4, 2), [1, 1, 1, 1], "SAME"),
            tf.nn.conv2d_transpose(x, numbers(2, 2, 3, 4), [2, 10, 10, 3], 2),
            tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
            tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "VALID"),
            *tf.nn.fused_batch_norm(x, V, V), tf.nn.fused_batch_norm(x, V, V, V, V, is_training=False)[0],
            tf.nn.lrn(x), tf.image.resize_bilinear(x, [3, 7]), tf.image.resize_bilinear(x, [8, 8], align_corners=True),
            tf.image.resize_nearest_neighbor(x, [3, 7], half_pixel_centers=True),
            tf.image.resize_area(x, [2, 3]), tf.space_to_depth(x[:, :4, :4], 2), tf.depth_to_space(x, 2),
            tf.space_to_batch_nd(x[:, :4], [2], [[0, 0]]),
            tf.batch_to_space_nd(tf.tile(x, [2, 1, 1, 1]), [2], [[0, 1]]),
        ],
        [IMAGES],
    ),
    "gradients": (
        lambda tf, m, v: [
            *[
                tf.gradients(getattr(tf.nn, name)(m - 0.5), m)[0]
                for name in ("relu", "relu6", "elu", "selu", "softplus", "leaky_relu", "tanh", "sigmoid")
            ],
            *[tf.gradients(getattr(tf, name)(m), m)[0] for name in ("sqrt", "rsqrt", "reciprocal")],
            *tf.gradients(tf.nn.bias_add(m, v), [m, v]), *tf.gradients(m * v + m[:1] / v, [m, v]),
            *tf.gradients(tf.reduce_mean(tf.square(m - v), 0), [m, v]),
            *tf.gradients(tf.concat([m * 2.0, m * m], 1) ** 2.0, m),
            *tf.gradients(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 0, 2], logits=m), m),
        ],
        [M, V],
    ),
    "gradients of images": (
        lambda tf, x, w: [
            *tf.gradients(tf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME"), [x, w]),
            *tf.gradients(tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME") * 2.0, x),
            *tf.gradients(tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "VALID"), x),
        ],
        [IMAGES, numbers(3, 3, 4, 2)],
    ),
    "summaries": (
        lambda tf, m: [
            tf.summary.scalar("a", m[0, 0]), tf.summary.merge([tf.summary.scalar("b", 2.5)]),
            tf.summary.tensor_summary("t", m), tf.summary.histogram("h", m),
        ],
        [M],
    ),
    "cubes": (
        lambda tf, x: [
            tf.nn.conv3d(x, numbers(2, 2, 2, 2, 3), [1, 1, 1, 1, 1], "SAME"),
            tf.nn.max_pool3d(x, 2, 2, "SAME"), tf.nn.avg_pool3d(x, 2, 1, "VALID"),
        ],
        [CUBES],
    ),
    "texts": (
        lambda tf, t, d: [
            tf.strings.lower(t), tf.strings.upper(t), tf.strings.strip(t), tf.strings.length(t),
            tf.strings.join([t, t], "-"),
            tf.strings.regex_replace(t, "[a-c]", "x"), tf.strings.substr(t, 0, 2), tf.strings.to_number(d),
            tf.strings.to_hash_bucket_fast(t, 100), tf.string_to_hash_bucket(t, 100),
            tf.as_string([1.5, 2.0], precision=2),
            tf.reduce_join(t, 0, separator="|"), tf.string_split(t).values,
            tf.io.decode_raw(["abcd"], tf.uint8),
        ],
        [TEXT, DIGITS],
    ),
}  # fmt: skip


def frozen(build: Expression, arrays: list[Any]) -> tuple[bytes, list[str], list[Any]]:
    """A graph of TensorFlow as bytes, the names of its outputs, and their values."""
    tf = tensorflow()
    with tf.Graph().as_default() as graph:
        dtypes = [tf.string if array.dtype == object else array.dtype for array in arrays]
        made = [tf.placeholder(dtypes[i], [None, *a.shape[1:]], name=f"x{i}") for i, a in enumerate(arrays)]
        feeds = dict(zip(made, arrays, strict=True))
        outputs = [tf.convert_to_tensor(each) for each in build(tf, *feeds)]
        with tf.Session(graph=graph) as session:
            values = session.run(outputs, feeds)
    return graph.as_graph_def().SerializeToString(), [each.name for each in outputs], values


async def imported(data: bytes, names: list[str], arrays: list[Any]) -> list[Any]:
    with af.Graph().as_default() as graph:
        outputs = af.tensorflow_files.import_graph_def(data, return_elements=names)
    assert [each.name for each in outputs] == [f"import/{name}" for name in names]
    async with af.Session(graph=graph) as session:
        return await session.run(outputs, {f"import/x{i}:0": array for i, array in enumerate(arrays)})


def same(ours: Any, theirs: Any) -> bool:
    if np.asarray(theirs).dtype.kind in "OSU":
        return np.array_equal(np.asarray(ours, object), np.asarray(theirs, object))
    return ours.dtype == theirs.dtype and np.allclose(ours, theirs, 1e-4, 1e-5, equal_nan=True)


@pytest.mark.parametrize("name", LINES)
def test_ops_give_the_numbers_that_they_give_tensorflow(name: str) -> None:
    build, arrays = LINES[name]
    data, names, theirs = frozen(build, arrays)
    ours = asyncio.run(imported(data, names, arrays))
    assert [n for n, a, b in zip(names, ours, theirs, strict=True) if not same(a, b)] == []


@pytest.mark.parametrize("model", models.FUNCTIONS, ids=lambda model: str(model.__name__))
def test_models_with_loops_and_branches_give_the_numbers_that_they_give_tensorflow(model: Expression) -> None:
    for x in (numbers(3, 4), -numbers(2, 4)):
        data, names, theirs = frozen(lambda tf, x: [model(tf, x)], [x])
        (ours,) = asyncio.run(imported(data, names, [x]))
        assert same(ours, theirs[0])


def objects(module: Any) -> Any:
    """A Checkpoint of objects, made by either library: a module, lists and dicts, and an optimizer."""

    class Model(module.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = module.Variable([1.0, 2.0])
            self.parts = [module.Variable(3.0), {"k/x.y": module.Variable(4.0)}]

    model, optimizer = Model(), module.train.MomentumOptimizer(0.1, 0.9)
    train = optimizer.minimize(module.reduce_sum(model.w * model.w), var_list=[model.w])
    return module.train.Checkpoint(model=model, optimizer=optimizer), train


def test_checkpoints_of_objects_are_read_by_the_names_of_attributes(tmp_path: Any) -> None:
    tf = tensorflow()
    with tf.Graph().as_default() as graph:
        checkpoint, train = objects(tf)
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            path = checkpoint.save(str(tmp_path / "ckpt"), session=session)
            session.run(train)
            theirs = session.run(checkpoint.model.w)

    async def continued() -> Any:
        with af.Graph().as_default() as graph:
            checkpoint, train = objects(af)
        async with af.Session(graph=graph) as session:
            (await checkpoint.restore(path)).assert_consumed()
            await session.run(train)
            return await session.run(checkpoint.model.w)

    np.testing.assert_array_equal(asyncio.run(continued()), theirs)
