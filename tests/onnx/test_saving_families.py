"""`af.onnx.save` of operations that ONNX lacks, and that several of its own stand for."""

import numpy as np
import pytest

import aioflow as af
from tests.onnx import models


def special(x):
    """Functions by regions of their inputs, over the poles and far out, too."""
    poles = af.constant([0.0, -0.0, 1.0, 2.0, 30.0, -1.0, -1.5, 1e-3, 1e4, np.inf, -np.inf, np.nan], af.float32)
    wide = af.concat([af.reshape(x, [-1]), af.reshape(x * 10.0, [-1]), poles], 0)
    functions = (
        af.digamma, af.bessel_i0e, af.bessel_i1e, af.math.special.bessel_j0, af.math.special.bessel_j1,
        af.math.special.bessel_y0, af.math.special.bessel_y1, af.math.special.bessel_k0e,
        af.math.special.bessel_k1e, af.math.special.dawsn, af.math.special.expint, af.math.special.fresnel_cos,
        af.math.special.fresnel_sin, af.math.special.spence, af.math.erfc, af.math.erfinv, af.math.erfcinv,
        af.math.ndtri, lambda y: af.digamma(af.cast(y, af.float64)),
    )  # fmt: skip
    return tuple([function(wide) for function in functions])


def diagonals(x):
    square, wide = af.reshape(x[:12], [2, 6, 6]), af.reshape(x[:4], [-1, 4, 6])
    parts = [af.matrix_diag_part(wide, k=k) for k in (0, 2, -1)]
    made = [af.matrix_diag(x[:3, :4], k=k) for k in (0, 2, -1)]
    placed = [af.matrix_set_diag(wide, value, k=k) for value, k in ((x[:1, :4], 0), (x[:1, :3], -1), (x[:1, :4], 2))]
    whole = af.linalg.tensor_diag(x[0, :3]), af.linalg.tensor_diag(x[:2, :3])
    return (*parts, *made, *placed, *whole, af.linalg.tensor_diag_part(whole[1]), af.trace(square),
            af.eye(af.shape(x)[1], af.shape(x)[0] - 45), af.eye(af.shape(x)[1], dtype=af.int32))  # fmt: skip


def shared_out(x):
    whole = af.cast(x * 3.0, af.int32)
    parts = af.cast(af.abs(x[:, 0]) * 1.5, af.int32)
    rows = af.dynamic_partition(x, af.minimum(parts, 2), 3)
    places = af.dynamic_partition(af.range(af.shape(x)[0]), af.minimum(parts, 2), 3)
    stitched = af.dynamic_stitch(places, rows), af.dynamic_stitch([[0, 3, 0], [[3, 5]]], [x[:3], x[af.newaxis, 3:5]])
    order = af.argsort(x[:, 0])
    rising = af.sort(x[:, 1])
    found = [af.searchsorted(rising, x[:, 2], side) for side in ("left", "right")]
    batch = af.searchsorted(af.sort(whole, 1), whole, "right", af.int64)
    lists = af.setdiff1d(whole[0], whole[1]), af.nn.in_top_k(x, af.abs(whole[:, 0]) * 2, 2)
    nth = af.nth_element(x, 2), af.nth_element(x, 1, reverse=True)
    counts = [
        af.bincount(af.abs(whole)), af.bincount(af.abs(whole), minlength=20), af.bincount(af.abs(whole), maxlength=3),
        af.bincount(af.abs(whole), weights=x), af.confusion_matrix(parts, parts[::-1]),
        af.confusion_matrix(parts, parts[::-1], num_classes=9, weights=x[:, 1], dtype=af.float32),
    ]  # fmt: skip
    index = af.constant([[1], [4]])
    changed = [
        f(x, index, x[:2]) for f in (af.tensor_scatter_sub, af.tensor_scatter_nd_max, af.tensor_scatter_nd_min)
    ]  # fmt: skip
    return (*rows, *stitched, af.invert_permutation(order), *found, batch, *lists[0], *lists[1:], *nth, *counts,
            *changed, af.where(x[:, 0] > 0.0, x, -x))  # fmt: skip


def gathered(x):
    deep = af.reshape(x, [-1, 2, 2, 3])
    places = af.constant([[1, 0, 1], [0, 0, 1]])
    many = af.tile(places[af.newaxis], [af.shape(deep)[0], 1, 1])
    batches = [
        af.gather(deep, many[:, 0], batch_dims=1), af.gather(deep, many[:, 0], axis=2, batch_dims=1),
        af.gather(deep, many[:, :, 0], axis=3, batch_dims=1), af.gather(deep, many, axis=2, batch_dims=2),
        af.gather(deep, many, axis=2, batch_dims=1),
    ]  # fmt: skip
    picked = af.boolean_mask(deep, [True, False], axis=1), af.boolean_mask(deep, [[True, False, True]] * 2, axis=2)
    padded = [af.pad(x[:4], [[2, 4], [0, 1]], "SYMMETRIC"), af.pad(x, [[1, 0], [6, 6]], "SYMMETRIC")]
    numbers = af.rank(deep), *af.shape_n([x, deep]), af.cast(x * 5.0, af.int32) / af.constant(4)
    bits = af.cast(af.abs(x) * 9.0, af.uint8)
    moved = (
        af.bitwise.left_shift(bits, af.cast(bits % af.constant(3, af.uint8), af.uint8)),
        af.bitwise.right_shift(bits, af.constant(1, af.uint8)),
    )
    return *batches, *picked, *padded, *numbers, *moved


def segments(x):
    ids = af.constant([2, -1, 0, 2, 5, 0])
    columns, whole = af.transpose(x), af.cast(x * 3.0, af.int32)
    functions = [getattr(af, f"unsorted_segment_{name}") for name in ("max", "min", "prod", "mean", "sqrt_n")]
    loose = [function(columns, ids, 7) for function in functions]
    rising = af.constant([0, 0, 2, 2, 2, 3])
    sorted_ones = [getattr(af, f"segment_{name}")(columns, rising) for name in ("max", "min", "prod", "mean")]
    integers = af.segment_max(af.transpose(whole), rising), af.unsorted_segment_min(whole, af.abs(whole), 30)
    looked_up = [
        function(x, [3, 1, 4, 1], [0, 0, 2, 2])
        for function in (af.sparse_segment_sum, af.sparse_segment_mean, af.sparse_segment_sqrt_n)
    ]
    counted = af.sparse_segment_mean(x, [3, 1, 4, 1], [0, 0, 2, 2], num_segments=5)
    ids_of_words = af.SparseTensor([[0, 0], [1, 1], [3, 0]], af.constant([2, 7, 7], af.int64), [4, 2])
    words = [af.nn.embedding_lookup_sparse(x, ids_of_words, None, combiner=each) for each in ("sum", "mean", "sqrtn")]
    return *loose, *sorted_ones, *integers, *looked_up, counted, *words


def sparse(x):
    places = af.constant([[0, 2], [1, 0], [1, 4], [3, 5]], af.int64)
    matrix = af.SparseTensor(places, x[:4, 0], [4, 6])
    dense = [af.sparse.to_dense(matrix, default_value=-1.0), af.sparse_to_dense([1, 4], [6], 2.0, 0.5)]
    products = [
        af.sparse.sparse_dense_matmul(matrix, af.transpose(x)),
        af.sparse.sparse_dense_matmul(matrix, x[:4], adjoint_a=True),
        af.sparse.sparse_dense_matmul(matrix, x, adjoint_b=True),
    ]
    sums = [af.sparse.reduce_sum(matrix), af.sparse.reduce_sum(matrix, 1), af.sparse.reduce_sum(matrix, 0, True)]
    mixed = af.SparseTensor(af.gather(places, [2, 0, 3, 1]), x[:4, 1], [4, 6])
    ordered, soft = af.sparse.reorder(mixed), af.sparse.softmax(matrix)
    return *dense, *products, *sums, ordered.indices, ordered.values, soft.values


def losses(x):
    labels = af.cast(af.abs(x[:, 0]) * 2.0, af.int32) % 6
    hot = af.one_hot(labels, 6)
    zeros = af.nn.relu(x)
    return (
        af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x),
        af.nn.softmax_cross_entropy_with_logits_v2(labels=hot, logits=x * 50.0),
        af.nn.sigmoid_cross_entropy_with_logits(labels=hot, logits=x * 50.0),
        af.math.xlogy(zeros, zeros), af.math.xdivy(zeros, zeros), af.linalg.cross(x[:, :3], x[:, 3:]),
        af.math.cumulative_logsumexp(x, 1), af.math.cumulative_logsumexp(x, 0, exclusive=True, reverse=True),
        af.saturate_cast(x * 1e10, af.int32), af.saturate_cast(x * 100.0, af.uint8),
        *[af.fake_quant_with_min_max_args(x, -1.0, 1.5, bits, narrow) for bits, narrow in ((8, False), (4, True))],
        af.fake_quant_with_min_max_vars(x, x[0, 0] - 2.0, 1.0),
    )  # fmt: skip


def blocks(x):
    picture, volume = af.reshape(x, [-1, 4, 6, 3]), af.reshape(x, [-1, 2, 2, 3, 3])
    spread = af.space_to_batch_nd(picture, [2, 3], [[1, 1], [0, 0]])
    back = af.batch_to_space_nd(spread, [2, 3], [[1, 1], [0, 0]])
    patches = [
        af.image.extract_patches(picture, [1, 2, 3, 1], [1, 1, 2, 1], [1, rate, 1, 1], padding)
        for rate, padding in ((1, "VALID"), (2, "SAME"))
    ]
    kernel = af.constant(np.random.default_rng(1).normal(size=(2, 2, 3, 2, 3)).astype(np.float32))
    grown = [
        af.nn.conv3d_transpose(volume, kernel, af.stack([af.shape(volume)[0], *sizes, 2]), strides, padding)
        for sizes, strides, padding in (([4, 4, 6], 2, "SAME"), ([3, 3, 5], 1, "VALID"))
    ]
    pooled = [
        part
        for batch in (False, True)
        for part in af.nn.max_pool_with_argmax(picture, 2, 2, "SAME", include_batch_in_index=batch)
    ]
    return spread, back, *patches, *grown, *pooled


def resized_by_area(x):
    picture = af.reshape(x, [-1, 4, 6, 3])
    sizes = [[2, 3], [3, 4], [7, 5], af.shape(picture)[1:3] * 2, [1, 1], [4, 1]]
    return tuple([af.image.resize_area(picture, size, align) for size in sizes for align in (False, True)])


def selected(x):
    corners = af.concat([x[:, :2], x[:, :2] + af.abs(x[:, 2:4]) + 0.5], 1)
    scores = af.sigmoid(x[:, 4])
    few = [
        af.image.non_max_suppression(corners, scores, 10, overlap, least) for overlap, least in ((0.5, 0.3), (0.1, 0.0))
    ]
    return *few, *af.image.non_max_suppression_with_scores(corners, scores, 5, 0.3)


def texts(x):
    numbers = af.as_string(af.cast(x[:, 0] * 9.0, af.int32))
    joined = af.string_join([numbers, "of", numbers[::-1]], " ")
    flags = af.strings.regex_full_match(numbers, "-?[0-3]")
    return (
        numbers,
        joined,
        numbers + joined,
        flags,
        af.strings.to_number(numbers),
        af.string_to_number(numbers, af.int64),
    )


def checked(x):
    """A model checks and prints nothing."""
    with af.control_dependencies([af.assert_rank(x, 2)]):
        y = af.check_numerics(x, "x") * 2.0
    loss = af.losses.mean_squared_error(x, y, weights=af.abs(x[:, :1]))
    return y, af.Print(x, [x], "x", first_n=0), loss


CASES = pytest.mark.parametrize(
    "saved",
    [
        special,
        diagonals,
        shared_out,
        gathered,
        segments,
        sparse,
        losses,
        blocks,
        resized_by_area,
        selected,
        texts,
        checked,
    ],
    indirect=True,
)


@CASES
async def test_operations_that_onnx_lacks_compute_the_same_when_they_are_loaded(saved):
    await models.assert_loads_alike(saved)


@CASES
async def test_another_runtime_computes_the_same_of_them(saved):
    models.assert_runs_alike(saved)


async def test_random_numbers_are_drawn_by_the_runtime(tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None])
        sizes = af.stack([af.shape(x)[0], 500])
        outputs = {
            "even": af.random_uniform(sizes, -2.0, 4.0, seed=3),
            "normal": af.random_normal(sizes, 1.0, 3.0, af.float32),
            "classes": af.random.categorical(af.math.log([[0.7, 0.1, 0.2]] * 2), 5000),
        }
    async with af.Session(graph=graph) as session:
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, outputs, session)
    found = dict(zip(outputs, await models.run((tmp_path / "model.onnx").read_bytes(), np.zeros(8)), strict=True))
    assert found["even"].shape == found["normal"].shape == (8, 500)
    assert (found["even"].min(), found["even"].max()) == pytest.approx((-2, 4), abs=0.05)
    assert (found["normal"].mean(), found["normal"].std()) == pytest.approx((1, 3), abs=0.2)
    shares = np.bincount(found["classes"][0]) / 5000
    np.testing.assert_allclose(shares, [0.7, 0.1, 0.2], atol=0.05)


REFUSED = {
    "the diagonals 0 to 1 are written one by one": lambda x: af.matrix_diag_part(af.reshape(x, [-1, 6, 6]), k=(0, 1)),
    "the matrix is square and as small as can be": lambda x: af.matrix_diag(x, num_rows=9),
    "ONNX shifts the bits of unsigned integers, not of int32": lambda x: af.bitwise.left_shift(af.cast(x, af.int32), 1),
    "ONNX leaves scores as they are": lambda x: af.image.non_max_suppression_with_scores(
        x[:, :4], x[:, 0], 3, soft_nms_sigma=0.5
    )[0],
    "ONNX writes integers by their digits": lambda x: af.as_string(x, precision=2),
}


@pytest.mark.parametrize("text", REFUSED)
async def test_what_onnx_computes_in_another_way_is_refused(text, tmp_path):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 6])
        y = REFUSED[text](x)
    async with af.Session(graph=graph) as session:
        with pytest.raises(ValueError, match=f"cannot be written: {text}"):
            await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session)
    assert list(tmp_path.iterdir()) == []
