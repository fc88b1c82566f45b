"""Bad input to ops, one line per case: a ValueError when it is built if it can be known then, else an error of the run.

Each says what was given and what was allowed, the operation's name, the inputs, and the line of this file.
"""

import re

import numpy as np
import pytest

import aioflow as af

HERE = "test_bad_input_ops.py"
INVALID = af.errors.InvalidArgumentError

X = np.arange(6.0).reshape(3, 2)
"""3 rows of 2."""
CUBE = np.arange(24.0).reshape(2, 3, 4)
IMAGE = np.arange(16.0).reshape(1, 4, 4, 1)
TEXT = np.array([b"ab", b"c"], object)


def ints(*values):
    return np.array(values, np.int32)


def case(label, build, *inputs_and_texts):
    """One mistake: how it is built, the inputs, and what the message must hold: numbers and words."""
    inputs = [np.asarray(value) for value in inputs_and_texts if isinstance(value, (np.ndarray, np.generic))]
    texts = [str(value) for value in inputs_and_texts if isinstance(value, (int, float, str))]
    return pytest.param(build, inputs, texts, id=label)


# fmt: off
BUILT = [
    case("norm of three axes", lambda x: af.norm(x, axis=(0, 1, 2), name="broken"), CUBE, "0, 1, 2"),
    case("reshape rest twice", lambda x: af.reshape(x, [-1, -1], name="broken"), X, -1),
    case("pad below 0", lambda x: af.pad(x, [[0, -1], [0, 0]], name="broken"), X, -1),
    case("strided_slice step", lambda x: af.strided_slice(x, [0], [2], [0], name="broken"), X, 0),
    case("block_size", lambda x: af.space_to_depth(x, 0, name="broken"), IMAGE, 0),
    case("conv2d strides", lambda x: af.nn.conv2d(x, IMAGE[0, :2, :2, :, None], [1, 0, 1, 1], "SAME", name="broken"),
         IMAGE, 0),
    case("conv2d padding", lambda x: af.nn.conv2d(x, IMAGE[0, :2, :2, :, None], [1, 1, 1, 1], "FULL", name="broken"),
         IMAGE, "FULL"),
    case("avg_pool strides", lambda x: af.nn.avg_pool(x, [1, 2, 2, 1], [1, 0, 1, 1], "SAME", name="broken"), IMAGE, 0),
    case("avg_pool padding", lambda x: af.nn.avg_pool(x, [1, 2, 2, 1], [1, 1, 1, 1], "NONE", name="broken"), IMAGE,
         "NONE"),
    case("patches strides", lambda x: af.extract_image_patches(x, [1, 2, 2, 1], [1, 0, 1, 1], [1, 1, 1, 1], "SAME",
         name="broken"), IMAGE, 0),
    case("patches padding", lambda x: af.extract_image_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "NO",
         name="broken"), IMAGE, "NO"),
    case("reverse axis twice", lambda x: af.reverse(x, [0, 0], name="broken"), X, 0),
    case("reverse_sequence axes", lambda x: af.reverse_sequence(x, [1, 1, 1], 0, 0, name="broken"), X, 0),
    case("transpose twice", lambda x: af.transpose(x, [0, 0], name="broken"), X, "0, 0"),
    case("transpose axis", lambda x: af.transpose(x, [0, 2], name="broken"), X, "0, 2", 2),
    case("sparse_reduce_sum axis", lambda i: af.sparse_reduce_sum(af.SparseTensor(i, [1.0], [3, 3]), 2, name="broken"),
         np.array([[1, 2]]), 2),
    case("sparse_reshape", lambda i: af.sparse_reshape(af.SparseTensor(i, [1.0], [3, 3]), [2, 4],
         name="broken").indices, np.array([[1, 2]]), 9, "2, 4"),
]
"""Whatever is fed."""

BOTH = [
    # axes
    case("reduce_sum axis", lambda x: af.reduce_sum(x, 5, name="broken"), X, 5, 2),
    case("reduce_max axis", lambda x: af.reduce_max(x, -3, name="broken"), X, -3, 2),
    case("reduce_mean axes twice", lambda x: af.reduce_mean(x, [0, -2], name="broken"), X, 0),
    case("reduce_all axis", lambda x: af.reduce_all(x, 2, name="broken"), X > 1, 2),
    case("argmax axis", lambda x: af.argmax(x, 2, name="broken"), X, 2),
    case("argmin of nothing", lambda x: af.argmin(x, 1, name="broken"), X[:, :0], 1, 0),
    case("cumsum axis", lambda x: af.cumsum(x, 4, name="broken"), X, 4, 2),
    case("cumprod axis", lambda x: af.cumprod(x, -4, name="broken"), X, -4, 2),
    case("reduce_logsumexp axis", lambda x: af.reduce_logsumexp(x, 3, name="broken"), X, 3, 2),
    case("concat axis", lambda x: af.concat([x, x], 3, name="broken"), X, 3, 2),
    case("concat sizes", lambda x, y: af.concat([x, y], 0, name="broken"), X, CUBE[0], 2, 4),
    case("stack axis", lambda x: af.stack([x, x], 4, name="broken"), X, 4, 3),
    case("stack shapes", lambda x, y: af.stack([x, y], name="broken"), X, X[:2], 2, 3),
    case("expand_dims axis", lambda x: af.expand_dims(x, 5, name="broken"), X, 5, 3),
    case("squeeze size", lambda x: af.squeeze(x, [0], name="broken"), X, 0, 3),
    case("squeeze axis", lambda x: af.squeeze(x, [7], name="broken"), X, 7, 2),
    case("reverse axis", lambda x: af.reverse(x, [2], name="broken"), X, 2),
    case("roll axis", lambda x: af.roll(x, 1, 3, name="broken"), X, 3, 2),
    case("gather axis", lambda x: af.gather(x, [0], axis=2, name="broken"), X, 2),
    case("one_hot axis", lambda i: af.one_hot(i, 3, axis=4, name="broken"), ints(0, 1), 4, 2),
    case("softmax axis", lambda x: af.nn.softmax(x, 3, name="broken"), X, 3, 2),
    case("log_softmax axis", lambda x: af.nn.log_softmax(x, -5, name="broken"), X, -5, 2),
    case("sort axis", lambda x: af.sort(x, 2, name="broken"), X, 2),
    case("argsort axis", lambda x: af.argsort(x, 2, name="broken"), X, 2),
    case("reduce_join axis", lambda x: af.reduce_join(x, 1, name="broken"), TEXT, 1),
    case("boolean_mask axis", lambda x: af.boolean_mask(x, [True, False, True], axis=5, name="broken"), X, 5, 2),
    case("transpose rank", lambda x: af.transpose(x, [0], name="broken"), X, 1, 2),
    case("trace of a vector", lambda x: af.trace(x, name="broken"), X[0], "rank 2", "[2]"),
    case("tensordot axes", lambda x: af.tensordot(x, x, [[0], [1]], name="broken"), X, 3, 2),
    case("cross", lambda x: af.cross(x, x, name="broken"), X, 2, 3),
    case("einsum", lambda x: af.einsum("ij,jk->ik", x, x, name="broken"), X, 2, 3),
    case("matmul", lambda x: af.matmul(x, x, name="broken"), X, 2, 3),
    # sizes
    case("split in unequal parts", lambda x: af.split(x, 2, name="broken"), X, 2, 3),
    case("split sizes", lambda x: af.split(x, [1, 1], name="broken"), X, "1, 1", 3),
    case("split axis", lambda x: af.split(x, 1, 3, name="broken"), X, 3, 2),
    case("unstack axis", lambda x: af.unstack(x, 2, 2, name="broken"), X, 2),
    case("unstack number", lambda x: af.unstack(x, 4, name="broken"), X, 4, 3),
    case("reshape", lambda x: af.reshape(x, [4], name="broken"), X, 6, 4),
    case("reshape rest", lambda x: af.reshape(x, [4, -1], name="broken"), X, 6, 4),
    case("reshape to fed sizes", lambda x, s: af.reshape(x, s, name="broken"), X, ints(5, 2), 6, "5, 2"),
    case("broadcast_to", lambda x: af.broadcast_to(x, [3, 3], name="broken"), X, "3, 2", "3, 3"),
    case("tile length", lambda x: af.tile(x, [2], name="broken"), X, 1, 2),
    case("tile below 0", lambda x, n: af.tile(x, n, name="broken"), X, ints(1, -2), -2),
    case("pad rank", lambda x: af.pad(x, [[1, 1]], name="broken"), X, 1, 2),
    case("mirror pad", lambda x: af.pad(x, [[3, 0], [0, 0]], "REFLECT", name="broken"), X, 3, "axis 0"),
    case("symmetric pad", lambda x: af.pad(x, [[0, 0], [0, 3]], "SYMMETRIC", name="broken"), X, 3, 2),
    case("slice begin", lambda x, b: af.slice(x, b, [1, 1], name="broken"), X, ints(4, 0), 4, 3),
    case("slice begin below 0", lambda x, b: af.slice(x, b, [1, 1], name="broken"), X, ints(0, -1), -1, "axis 1"),
    case("slice size", lambda x, s: af.slice(x, [1, 0], s, name="broken"), X, ints(3, 1), 3),
    case("slice rank", lambda x: af.slice(x, [0], [1], name="broken"), X, 1, 2),
    case("strided_slice index", lambda x: af.strided_slice(x, [5], [6], shrink_axis_mask=1, name="broken"), X, 5, 3),
    case("subscript", lambda x: x[7], X, 7, 3),
    case("subscript from the end", lambda x: x[0, -3], X, -3, 2),
    case("subscript with too many", lambda x: x[0, 0, 0], X, 3, 2),
    case("subscript that is data", lambda x, i: x[i], X, np.int32(-4), -4, 3),
    case("slice step that is data", lambda x, i: x[::i], X, np.int32(0), 0),
    case("fill", lambda s: af.fill(s, 1.0, name="broken"), ints(2, -3), -3),
    case("range delta", lambda d: af.range(0, 5, d, name="broken"), np.int32(0), 0),
    case("linspace", lambda n: af.linspace(0.0, 1.0, n, name="broken"), np.int32(0), 0),
    case("one_hot depth", lambda d: af.one_hot([0, 1], d, name="broken"), np.int32(-2), -2),
    case("top_k", lambda x: af.nn.top_k(x, 3, name="broken"), X, 3, 2),
    case("nth_element", lambda x, n: af.nth_element(x, n, name="broken"), X, np.int32(2), 2),
    case("unsorted_segment_sum count", lambda n: af.unsorted_segment_sum(X, [0, 0, 1], n, name="broken"),
         np.int32(-1), -1),
    case("space_to_batch", lambda x: af.space_to_batch(x, [[0, 0], [0, 0]], 3, name="broken"), IMAGE, 4, 3),
    case("space_to_depth", lambda x: af.space_to_depth(x, 3, name="broken"), IMAGE, 4, 3),
    case("depth_to_space", lambda x: af.depth_to_space(x, 2, name="broken"), IMAGE, 1, 4),
    case("batch_to_space", lambda x: af.batch_to_space_nd(x, [2, 2], [[0, 0], [0, 0]], name="broken"), IMAGE, 1, 4),
    case("accumulate_n", lambda x, y: af.accumulate_n([x, y], name="broken"), X, X[:2], 2, 3),
    case("add_n", lambda x, y: af.add_n([x, y], name="broken"), X, X[:2], 2, 3),
    case("where shapes", lambda c, x: af.where(c, x, x, name="broken"), np.ones((4, 5), bool), X, 4, 3),
    case("broadcasting", lambda x, y: af.add(x, y, name="broken"), X, CUBE, "3, 2", "2, 3, 4"),
    case("boolean_mask shape", lambda x, m: af.boolean_mask(x, m, name="broken"), X, np.ones(4, bool), 4, 3),
    case("matrix not square", lambda x: af.matrix_inverse(x, name="broken"), X, 3, 2),
    case("determinant not square", lambda x: af.matrix_determinant(x, name="broken"), X, 3, 2),
    case("cholesky not square", lambda x: af.cholesky(x, name="broken"), X, 3, 2),
    case("solve rows", lambda x, y: af.matrix_solve(x, y, name="broken"), np.eye(2), X, 2, 3),
    case("triangular rows", lambda x, y: af.matrix_triangular_solve(x, y, name="broken"), np.eye(2), X, 2, 3),
    case("diag_part", lambda x: af.diag_part(x, name="broken"), X, 3, 2),
    case("set_diag", lambda x, d: af.matrix_set_diag(x, d, name="broken"), X, X[:, 0], 3, 2),
    # windows
    case("conv2d channels", lambda x: af.nn.conv2d(x, np.ones((2, 2, 3, 1)), [1, 1, 1, 1], "SAME", name="broken"),
         IMAGE, 1, 3),
    case("conv2d filter", lambda x: af.nn.conv2d(x, np.ones((6, 6, 1, 1)), [1, 1, 1, 1], "VALID", name="broken"),
         IMAGE, 6, 4),
    case("max_pool ksize", lambda x: af.nn.max_pool(x, [1, 6, 1, 1], [1, 1, 1, 1], "VALID", name="broken"),
         IMAGE, 6, 4),
    case("resize to nothing", lambda s: af.image.resize_bilinear(IMAGE, s, name="broken"), ints(0, 4), 0),
    # indices that the graph may hold
    case("gather", lambda i: af.gather(X, i, name="broken"), ints(0, 5), 5, 3),
    case("gather below 0", lambda i: af.gather(X, i, name="broken"), ints(0, -1), -1, 3),
    case("gather of one", lambda i: af.gather(X, i, name="broken"), np.int64(3), 3),
    case("gather along an axis", lambda i: af.gather(X, i, axis=1, name="broken"), ints(2), 2),
    case("gather of positions", lambda i: af.gather(X, i, name="broken"), ints([0, 1], [9, 0]), 9, 3),
    case("batch_gather", lambda i: af.batch_gather(X, i, name="broken"), ints([0], [2], [1]), 2),
    case("gather_nd", lambda i: af.gather_nd(X, i, name="broken"), ints([0, 1], [1, 2]), 2, "axis 1"),
    case("gather_nd of one", lambda i: af.gather_nd(X, i, name="broken"), ints(-1, 0), -1, 3),
    case("gather_nd depth", lambda i: af.gather_nd(X, i, name="broken"), ints([0, 1, 1]), 3, "3, 2"),
    case("scatter_nd", lambda i: af.scatter_nd(i, [1.0, 2.0], [4], name="broken"), ints([0], [4]), 4),
    case("scatter_nd updates", lambda i: af.scatter_nd(i, [1.0, 2.0, 3.0], [4], name="broken"), ints([0], [1]), 2, 3),
    case("tensor_scatter_update", lambda i: af.tensor_scatter_update(X, i, X[:1], name="broken"), ints([3]), 3),
    case("tensor_scatter_add", lambda i: af.tensor_scatter_add(X, i, X[:1], name="broken"), ints([-1]), -1, 3),
    case("segment_sum order", lambda i: af.segment_sum(X, i, name="broken"), ints(0, 2, 1), 2, 1),
    case("segment_sum below 0", lambda i: af.segment_sum(X, i, name="broken"), ints(-1, 0, 1), -1),
    case("segment_sum length", lambda i: af.segment_sum(X, i, name="broken"), ints(0, 1), 2, 3),
    case("segment_mean order", lambda i: af.segment_mean(X, i, name="broken"), ints(1, 0, 0), 1, 0),
    case("segment_max below 0", lambda i: af.segment_max(X, i, name="broken"), ints(-2, 0, 0), -2),
    case("segment_prod order", lambda i: af.segment_prod(X, i, name="broken"), ints(1, 0, 0), 1, 0),
    case("unsorted_segment_sum", lambda i: af.unsorted_segment_sum(X, i, 2, name="broken"), ints(0, 1, 2), 2),
    case("unsorted_segment_max", lambda i: af.unsorted_segment_max(X, i, 2, name="broken"), ints(0, 1, 7), 7, 2),
    case("unsorted_segment_mean", lambda i: af.unsorted_segment_mean(X, i, 2, name="broken"), ints(0, 1, 7), 7, 2),
    case("unsorted_segment_prod", lambda i: af.unsorted_segment_prod(X, i, 2, name="broken"), ints(0, 1, 7), 7, 2),
    case("sparse_segment_sum rows", lambda i: af.sparse_segment_sum(X, i, [0, 0], name="broken"), ints(0, 3), 3),
    case("sparse_segment_mean rows", lambda i: af.sparse_segment_mean(X, i, [0, 0], name="broken"), ints(0, -1), -1, 3),
    case("sparse_segment_sum ids", lambda i: af.sparse_segment_sum(X, [0, 1], i, name="broken"), ints(1, 0), 1, 0),
    case("sparse_segment_sum bound", lambda i: af.sparse_segment_sum(X, [0, 1], i, num_segments=2, name="broken"),
         ints(0, 2), 2),
    case("dynamic_partition", lambda i: af.dynamic_partition(X, i, 2, name="broken"), ints(0, 1, 2), 2),
    case("dynamic_partition below 0", lambda i: af.dynamic_partition(X, i, 2, name="broken"), ints(0, 1, -1), -1, 2),
    case("dynamic_partition length", lambda i: af.dynamic_partition(X, i, 2, name="broken"), ints(0, 1), 2, 3),
    case("dynamic_stitch", lambda i: af.dynamic_stitch([i], [X], name="broken"), ints(0, -2, 1), -2),
    case("embedding_lookup", lambda i: af.nn.embedding_lookup(X, i, name="broken"), ints(0, 4), 4, 3),
    case("embedding_lookup in parts", lambda i: af.nn.embedding_lookup([X, X], i, name="broken"), ints(0, 6), 6),
    case("lookup in a variable", lambda i: af.nn.embedding_lookup(af.Variable(X), i, name="broken"), ints(0, -3),
         -3, 3),
    case("lookup in variables", lambda i: af.nn.embedding_lookup([af.Variable(X), af.Variable(X)], i, "div",
         name="broken"), ints(2, 8), 8, 6),
    case("scatter_update", lambda i: af.scatter_update(af.Variable(X), i, X[:2], name="broken"), ints(0, 3), 3),
    case("scatter_add", lambda i: af.scatter_add(af.Variable(X), i, X[:2], name="broken"), ints(-1, 0), -1, 3),
    case("scatter_mul", lambda i: af.scatter_mul(af.Variable(X), i, X[:2], name="broken"), ints(1, 9), 9, 3),
    case("scatter_nd_update", lambda i: af.scatter_nd_update(af.Variable(X), i, [1.0], name="broken"),
         ints([1, 2]), 2, "axis 1"),
    case("invert_permutation", lambda i: af.invert_permutation(i, name="broken"), ints(0, 3, 1), 3),
    case("invert_permutation twice", lambda i: af.invert_permutation(i, name="broken"), ints(0, 1, 1), 1),
    case("bincount", lambda i: af.bincount(i, name="broken"), ints(0, -3), -3),
    case("confusion_matrix", lambda i: af.confusion_matrix(i, [0, 1], 2, name="broken"), ints(0, 2), 2),
    case("confusion_matrix below 0", lambda i: af.confusion_matrix([0, 1], i, 2, name="broken"), ints(0, -1), -1),
    case("labels", lambda i: af.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=X, name="broken"),
         ints(0, 1, 2), 2),
    case("labels below 0", lambda i: af.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=X, name="broken"),
         ints(0, 1, -1), -1, 2),
    case("reverse_sequence lengths", lambda n: af.reverse_sequence(X, n, 1, 0, name="broken"), ints(1, 3, 0), 3, 2),
    case("reverse_sequence count", lambda n: af.reverse_sequence(X, n, 1, 0, name="broken"), ints(1, 1), 2, 3),
    case("crop_and_resize", lambda i: af.image.crop_and_resize(IMAGE, [[0.0, 0.0, 1.0, 1.0]], i, [2, 2], name="broken"),
         ints(1), 1),
    case("sparse_to_dense", lambda i: af.sparse_to_dense(i, [3], [1.0, 2.0], name="broken"), ints(0, 3), 3),
    case("sparse_to_dense order", lambda i: af.sparse_to_dense(i, [3], [1.0, 2.0], name="broken"),
         ints(2, 1), 1, "out of order"),
    case("sparse_to_dense twice", lambda i: af.sparse_to_dense(i, [3], [1.0, 2.0], name="broken"), ints(1, 1), 1),
    case("sparse_tensor_dense_matmul", lambda i: af.sparse_tensor_dense_matmul(
         af.SparseTensor(i, [1.0], [3, 3]), X, name="broken"), np.array([[1, 3]]), 3),
    case("sparse_reduce_sum", lambda i: af.sparse_reduce_sum(af.SparseTensor(i, [1.0], [3, 3]), 0, name="broken"),
         np.array([[1, 3]]), 3),
    case("sparse_reorder", lambda i: af.sparse_reorder(af.SparseTensor(i, [1.0], [3, 3]), name="broken").values,
         np.array([[1, 4]]), 4, 3),
    case("sparse_retain", lambda m: af.sparse_retain(af.SparseTensor([[1, 4]], [1.0], [3, 3]), m).values,
         np.ones(2, bool), 2, 1),
    case("histogram range", lambda r: af.histogram_fixed_width(X, r, name="broken"), np.array([5.0, 1.0]), 5, 1),
    case("histogram bins", lambda n: af.histogram_fixed_width(X, [0.0, 5.0], n, name="broken"), np.int32(0), 0),
    case("random_uniform", lambda n: af.random_uniform([2], 5, n, af.int32, name="broken"), np.int32(5), 5),
    case("random shape", lambda s: af.random_normal(s, name="broken"), ints(2, -4), -4),
    case("multinomial", lambda n: af.multinomial(X, n, name="broken"), np.int32(-1), -1),
]
"""Known when it is built if the inputs are constants."""

RUN = [
    case("singular inverse", lambda x: af.matrix_inverse(x, name="broken"), np.ones((2, 2)), "singular"),
    case("singular inverse of many", lambda x: af.matrix_inverse(x, name="broken"), np.stack([np.eye(2), 0 * X[:2]]),
         "singular"),
    case("singular solve", lambda x: af.matrix_solve(x, [[1.0], [2.0]], name="broken"), np.ones((2, 2)), "singular"),
    case("singular triangle", lambda x: af.matrix_triangular_solve(x, [[1.0], [2.0]], name="broken"),
         np.tril(np.ones((2, 2)), -1), "singular"),
    case("cholesky", lambda x: af.cholesky(x, name="broken"), -np.eye(2), "positive definite"),
    case("cholesky of one of many", lambda x: af.cholesky(x, name="broken"), np.stack([np.eye(2), -np.eye(2)]),
         "positive definite"),
    case("string_to_number", lambda s: af.string_to_number(s, name="broken"), TEXT, "ab", "float32"),
    case("string_to_number range", lambda s: af.string_to_number(s, af.int32, name="broken"),
         np.array([b"3000000000"], object), 3000000000, "int32"),
    case("decode_base64", lambda s: af.decode_base64(s, name="broken"), np.array([b"!!"], object), "!!"),
    case("substr", lambda p: af.substr(TEXT, p, 1, name="broken"), ints(0, 5), 5, 1),
    case("substr below", lambda p: af.substr(TEXT, p, 1, name="broken"), ints(-3, 0), -3, 2),
    case("check_numerics", lambda x: af.check_numerics(x, "of x", name="broken"), np.array([1.0, np.nan]), "of x", 1),
    case("Assert", lambda x: af.Assert(af.reduce_all(x < 3), [x], name="broken"), X, "0.0 1.0"),
    case("assert_equal", lambda x: af.assert_equal(x, 0.0, name="broken"), X, 5),
]
# fmt: on


def says(text, wanted):
    for part in wanted:
        number = re.fullmatch(r"-?[\d.]+", part)
        pattern = rf"(?<![\w.-]){re.escape(part)}(?![\w.]*\d)" if number else re.escape(part)
        assert re.search(pattern, text), f"{part} is not said:\n{text}"


@pytest.mark.parametrize(("build", "inputs", "texts"), BUILT + BOTH)
def test_what_the_graph_tells_is_refused_when_it_is_built(build, inputs, texts):
    with af.Graph().as_default():
        tensors = [af.constant(value) for value in inputs]
        with pytest.raises(ValueError, match=rf"built at: .*{HERE}:\d+ in <lambda>") as caught:
            build(*tensors)
    message = str(caught.value)
    assert re.match(r"\w+( '[\w/]+')?: ", message), message
    says(message.split("\n")[0], texts)


def built(build, inputs, sizes_of):
    """What is built on placeholders, their feeds, and what is to run first.

    None if a rank is needed, or a rank tells already.
    """
    feeds = {af.placeholder(af.as_dtype(value.dtype), sizes_of(value)): value for value in inputs}
    try:
        return build(*feeds), feeds, af.global_variables_initializer()
    except ValueError as refused:
        if re.search(r"\brank|axis|axes|shape|sizes", str(refused)):
            return None
        raise


@pytest.mark.parametrize(("build", "inputs", "texts"), BOTH + RUN)
async def test_what_only_the_run_tells_is_an_invalid_argument(build, inputs, texts):
    ran = 0
    for sizes_of in (lambda value: None, lambda value: [None] * value.ndim):
        with af.Graph().as_default() as graph:
            found = built(build, inputs, sizes_of)
        if found is None:
            continue
        fetch, feeds, initializer = found
        async with af.Session(graph=graph) as session:
            await session.run(initializer)
            with pytest.raises(INVALID) as caught:
                await session.run(fetch, feeds)
        error = caught.value
        says(error.message, texts)
        assert HERE in error.line
        assert len(error.shapes) == len(graph.get_operation_by_name(error.op).inputs)
        ran += 1
    assert ran
