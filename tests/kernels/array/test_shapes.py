"""Shapes as values, what is known of them when the graph is built, and ops that only change a shape."""

import numpy as np
import pytest

from aioflow.errors import InvalidArgumentError
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.kernels.array.arrays import diag, diag_part, matrix_transpose, meshgrid, reverse, tile, transpose
from aioflow.kernels.array.concat import concat, split, stack, unstack
from aioflow.kernels.array.constants import constant, eye, fill, ones, ones_like, placeholder, zeros, zeros_like
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, rank, reshape, shape, shape_n, size, squeeze
from aioflow.kernels.array.slicing import slice as slice_
from aioflow.session import Session
from aioflow.tensors.dtypes import TensorShape, float32, int32, int64, string
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def tensor(*sizes, dtype=float32):
    return placeholder(dtype, sizes)


def anything():
    return placeholder(float32)


KNOWN = {
    "the sizes that are known": (lambda: shape(tensor(None, 3)), (None, 3)),
    "each shape of several": (lambda: shape_n([tensor(2), tensor(None)])[0], (2,)),
    "one size": (lambda: shape(tensor(None, 3))[1], 3),
    "the last sizes": (lambda: shape(tensor(None, 3, 4))[-2:], (3, 4)),
    "sizes in reverse": (lambda: shape(tensor(None, 3))[::-1], (3, None)),
    "sizes joined": (lambda: concat([shape(tensor(None, 3)), [7]], 0), (None, 3, 7)),
    "sizes packed with numbers": (lambda: convert_to_tensor([shape(tensor(None, 3))[1], -1]), (3, -1)),
    "sizes stacked": (lambda: stack([size(tensor(2, 5)), rank(tensor(None))]), (10, 1)),
    "sizes taken apart": (lambda: unstack(shape(tensor(None, 3)))[1], 3),
    "a slice of sizes": (lambda: slice_(shape(tensor(None, 3, 4)), [1], [2]), (3, 4)),
    "a size as a vector": (lambda: reshape(size(tensor(4)), [-1]), (4,)),
    "a vector as a size": (lambda: squeeze(expand_dims(size(tensor(4)), 0)), 4),
    "sizes reversed": (lambda: reverse(shape(tensor(None, 3)), 0), (3, None)),
    "the size of what is empty in part": (lambda: size(tensor(None, 0)), 0),
    "a vector of one number": (lambda: fill([2], size(tensor(3))), (3, 3)),
    "nothing of unknown rank": (lambda: shape(anything()), None),
    "nothing of floats": (lambda: stack([constant(1.0), constant(2.0)]), None),
}


@pytest.mark.parametrize("case", KNOWN)
def test_shapes_computed_from_shapes_are_known(case):
    build, expected = KNOWN[case]
    assert build().spec.known == expected


SHAPES = {
    "-1 of a known number": (lambda: reshape(tensor(4, 6), [3, -1]), [3, 8]),
    "-1 of an open number": (lambda: reshape(tensor(None, 6), [3, -1]), [3, None]),
    "an open size that the number tells": (lambda: reshape(tensor(4, 6), [shape(tensor(None))[0], 3]), [8, 3]),
    "a vector of known length": (lambda: reshape(tensor(4), placeholder(int32, [3])), [None, None, None]),
    "a vector of unknown length": (lambda: reshape(tensor(4), placeholder(int32, [None])), None),
    "squeezing what is not known": (lambda: squeeze(tensor(None, 1)), None),
    "squeezing a named axis": (lambda: squeeze(tensor(None, 1), 1), [None]),
    "broadcasting an open size": (lambda: broadcast_to(tensor(None, 1), [5, 3, 2]), [5, 3, 2]),
    "broadcasting to an open size": (lambda: broadcast_to(tensor(3), placeholder(int32, [2])), [None, 3]),
    "transposing": (lambda: transpose(tensor(None, 3, 4), [2, 0, 1]), [4, None, 3]),
    "transposing unknown rank": (lambda: transpose(anything(), [1, 0]), [None, None]),
    "transposing matrices": (lambda: matrix_transpose(tensor(None, 3, 4)), [None, 4, 3]),
    "tiling": (lambda: tile(tensor(None, 3), [2, 2]), [None, 6]),
    "padding": (lambda: pad(tensor(None, 3), [[0, 0], [1, 2]]), [None, 6]),
    "padding by an open size": (lambda: pad(tensor(2, 3), [[0, size(anything())], [1, 2]]), [None, 6]),
    "padding unknown rank": (lambda: pad(anything(), [[1, 2]]), [None]),
    "a diagonal": (lambda: diag(tensor(None, 3)), [None, 3, None, 3]),
    "a part of a diagonal": (lambda: diag_part(tensor(None, 3)), [3]),
    "joining": (lambda: concat([tensor(None, 3), tensor(2, None)], 0), [None, 3]),
    "joining all known": (lambda: concat([tensor(4, None), tensor(2, 3)], 0), [6, 3]),
    "joining unknown ranks": (lambda: concat([anything(), tensor(2, 3)], 1), [2, None]),
    "stacking": (lambda: stack([tensor(None, 3), tensor(2, None)], -1), [2, 3, 2]),
    "the rest of a split": (lambda: split(tensor(None, 7), [2, -1], 1)[1], [None, 5]),
    "zeros of a packed shape": (lambda: zeros([shape(tensor(None))[0], 2]), [None, 2]),
    "zeros of one size": (lambda: zeros(3), [3]),
    "ones of a TensorShape": (lambda: ones(TensorShape([2, 3]), int64), [2, 3]),
    "an identity of known rows": (lambda: eye(size(tensor(2, 2)), batch_shape=[5]), [5, 4, 4]),
    "a grid": (lambda: meshgrid([1, 2], [3, 4, 5])[0], [3, 2]),
    "a grid by matrix indices": (lambda: meshgrid([1, 2], [3, 4, 5], indexing="ij")[1], [2, 3]),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_are_as_exact_as_they_can_be(case):
    build, expected = SHAPES[case]
    result = build().shape
    assert (None if result.ndims is None else result.as_list()) == expected


SAME = {
    "reshape with one open size": lambda x: reshape(x, [-1, 3]),
    "reshape by its own shape in part": lambda x: reshape(x, [shape(x)[0], 3]),
    "transpose that moves nothing": lambda x: transpose(x, [0, 1]),
    "reverse": lambda x: reverse(x, 1),
    "zeros_like": zeros_like,
    "ones_like": lambda x: ones_like(x, int32),
    "a whole slice": lambda x: slice_(x, [0, 0], [-1, -1]),
    "a whole index": lambda x: x[:, ...],
    "padding by nothing": lambda x: pad(x, [[0, 0], [0, 0]]),
    "tiling once": lambda x: tile(x, [1, 1]),
}


@pytest.mark.parametrize("case", SAME)
def test_what_surely_keeps_its_shape_passes_the_shape_itself_on(case):
    x = tensor(None, 3)
    assert SAME[case](x).shape is x.shape


def test_open_sizes_that_may_differ_are_not_taken_for_one_shape():
    x = tensor(None, 4)
    for other in (
        x[1:],
        x[::2],
        tile(x, [2, 1]),
        concat([x, x], 0),
        reshape(tensor(None, 2), [-1, 4]),
        pad(x, [[1, 0], [0, 0]]),
    ):
        assert other.shape.as_list() == [None, 4]
        assert other.shape is not x.shape


ERRORS = {
    "elements that do not fit": (
        lambda: reshape(tensor(3, 4), [5, -1]),
        ValueError,
        r"12 elements do not fit shape \[5, -1\]",
    ),
    "a wrong number of elements": (
        lambda: reshape(tensor(3, 4), [13]),
        ValueError,
        r"12 elements do not fit shape \[13\]",
    ),
    "two open sizes": (lambda: reshape(tensor(3), [-1, -1]), ValueError, "only one size may be -1"),
    "-1 of nothing": (lambda: reshape(tensor(0, 4), [0, -1]), ValueError, "-1 is ambiguous"),
    "a shape of floats": (lambda: reshape(tensor(3), [1.5]), TypeError, "shape must be made of integers, not float32"),
    "a scalar for a shape": (lambda: reshape(tensor(3), 3), ValueError, r"shape must be a vector, its shape is \[\]"),
    "an axis out of range": (lambda: expand_dims(tensor(3), 2), ValueError, "axis 2 is out of range for rank 2"),
    "squeezing a wide axis": (lambda: squeeze(tensor(2, 3), 1), ValueError, "axis 1 has size 3"),
    "broadcasting another size": (
        lambda: broadcast_to(tensor(2, 3), [2, 4]),
        ValueError,
        r"\[2, 3\] cannot be .*\[2, 4\]",
    ),
    "broadcasting to lower rank": (lambda: broadcast_to(tensor(2, 3), [3]), ValueError, "fewer axes"),
    "no permutation": (
        lambda: transpose(tensor(2, 3), [0, 0]),
        ValueError,
        r"perm \[0, 0\] is not a permutation of the axes",
    ),
    "a permutation too short": (lambda: transpose(tensor(2, 3), [0]), ValueError, r"a, for perm \[0\]: rank 1"),
    "a matrix of rank 1": (lambda: matrix_transpose(tensor(2)), ValueError, "rank 2 or more"),
    "negative multiples": (lambda: tile(tensor(2), [-1]), ValueError, r"negative size: \[-1\]"),
    "multiples of another rank": (lambda: tile(tensor(2), [1, 2]), ValueError, "input, for 2 multiples: rank 2"),
    "an axis reversed twice": (lambda: reverse(tensor(2), [0, -1]), ValueError, "one axis twice"),
    "a diagonal of odd rank": (lambda: diag_part(tensor(2, 2, 2)), ValueError, "an even rank"),
    "a reflection too wide": (lambda: pad(tensor(3), [[3, 0]], "REFLECT"), ValueError, "axis 0 of size 3 .* by 3"),
    "too few pairs": (lambda: pad(tensor(3, 2), [[1, 1]]), ValueError, r"must be \[rank, 2\]: .* rank 2, .* 1 pairs"),
    "sizes that are no pairs": (lambda: pad(tensor(3, 2), [1, 1]), ValueError, r"^pad: paddings .* not \[1, 1\]"),
    "paddings of two rows": (
        lambda: pad(tensor(3, 2), np.ones((2, 4), int)),
        ValueError,
        r"must be \[rank, 2\], a pair",
    ),
    "open paddings of another shape": (
        lambda: pad(tensor(3, 2), tensor(4, 3, dtype=int32)),
        ValueError,
        r"must be \[rank, 2\], a pair for each axis, not of shape \[4, 3\]",
    ),
    "text among numbers": (lambda: pad(tensor(3), [[1, 1]], constant_values="x"), TypeError, "'x' is not a value of"),
    "a fraction among integers": (
        lambda: pad(tensor(3, dtype=int32), [[1, 1]], constant_values=1.5),
        TypeError,
        "1.5 is not a value of dtype int32",
    ),
    "padding by several values": (
        lambda: pad(tensor(3), [[1, 1]], constant_values=[1.0]),
        ValueError,
        r"shape is \[1\]",
    ),
    "an index of open size": (lambda: tensor(3)[: tensor(None).shape[0]], ValueError, r"take it from af.shape"),
    "an unknown mode": (lambda: pad(tensor(3), [[1, 1]], "EDGE"), ValueError, "not 'EDGE'"),
    "a shape that is open": (lambda: zeros([None, 2]), ValueError, r"shape \[\?, 2\] is not fully defined"),
    "ones of text": (lambda: ones([2], string), TypeError, "string has no 1"),
    "a size only a run tells": (
        lambda: reshape(tensor(None), [tensor(None).shape[0], 1]),
        ValueError,
        r"take it from af.shape",
    ),
    "a filling that is no scalar": (lambda: fill([2], [1, 2]), ValueError, r"must be a scalar, its shape is \[2\]"),
    "a fraction as out_type": (lambda: shape(tensor(2), out_type=float32), TypeError, "not float32"),
}


@pytest.mark.parametrize(("value", "expected"), [(0, b""), ("é", "é".encode()), (b"\xff", b"\xff")])
def test_text_is_padded_with_bytes(value, expected):
    assert evaluate(pad(["a"], [[1, 1]], constant_values=value)).tolist() == [expected, b"a", expected]


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_arguments_are_refused_when_the_graph_is_built(case, graph):
    build, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        build()


def test_a_shape_that_only_a_run_tells_is_checked_there():
    x, to = placeholder(float32, [None]), placeholder(int32, [2])
    feeds = {x: np.zeros(6, np.float32)}
    assert evaluate(reshape(x, to), {**feeds, to: np.array([3, -1], np.int32)}).shape == (3, 2)
    for wrong in ([4, -1], [-5, 3], [7, 1]):
        with pytest.raises(ValueError, match=r"shape|size"):
            evaluate(reshape(x, to), {**feeds, to: np.array(wrong, np.int32)})


def test_a_mirrored_border_that_is_too_wide_is_refused_by_the_run():
    x = placeholder(float32, [None])
    with pytest.raises(ValueError, match="axis 0 of size 2 cannot be padded by 3 with mode SYMMETRIC"):
        evaluate(pad(x, [[3, 0]], "SYMMETRIC"), {x: np.zeros(2, np.float32)})


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "complex64", "string"])
def test_every_dtype_is_moved_as_it_is(dtype):
    x = zeros([2, 3], dtype)
    results = [
        reshape(x, [3, 2]), expand_dims(x, 0), transpose(x), tile(x, [2, 1]), reverse(x, [0]), zeros_like(x),
        pad(x, [[1, 0], [0, 0]]), pad(x, [[1, 0], [0, 2]], "SYMMETRIC"), broadcast_to(x, [2, 2, 3]),
        broadcast_to(x[0, 0], [2]), fill([2], x[0, 1]), stack([x, x]), concat([x, x], 1),
        stack([x[0, 0], x[1, 1]]), *unstack(x), *split(x, 3, 1), unstack(x[0])[2], squeeze(x[:1, :1]),
    ]  # fmt: skip
    for result in results:
        value = evaluate(result)
        assert result.dtype.name == dtype
        assert isinstance(value, (np.ndarray, np.generic))
        assert value.dtype == x.dtype.np
        assert value.shape == tuple(result.shape.as_list())


def test_zeros_of_known_shape_are_a_constant_unless_they_are_large():
    assert zeros_like(tensor(2, 3)).op.type == zeros([2, 3]).op.type == "constant"
    assert zeros([1000, 1000]).op.type == "fill"
    assert zeros_like(tensor(None, 3)).op.type == "zeros_like"
    assert zeros_like(tensor(2, 3), optimize=False).op.type == "zeros_like"


def test_views_are_views():
    x = placeholder(float32, [4, 3])
    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    views = [
        reshape(x, [3, 4]),
        transpose(x),
        expand_dims(x, 1),
        x[1:, 0],
        reverse(x, 0),
        unstack(x)[2],
        split(x, 2)[1],
    ]
    assert all(np.shares_memory(found, value) for found in evaluate(views, {x: value}))


def test_a_broadcast_scalar_holds_one_element():
    x = placeholder(float32, [])
    found = evaluate(broadcast_to(x, [1000, 1000]), {x: np.float32(2)})
    assert found.strides == (0, 0)
    assert found[999, 999] == 2


@pytest.mark.parametrize("build", [size, shape, lambda x: shape_n([x])])
@pytest.mark.parametrize("given", [False, True])
async def test_a_size_beyond_int32_is_refused_with_what_helps(build, given):
    with Graph().as_default() as graph:
        fed = placeholder(int64, [1])
        made = build(broadcast_to(constant(0.0), fed if given else [2**32]))
    async with Session(graph=graph) as session:
        with pytest.raises(InvalidArgumentError, match="4,294,967,296 does not fit int32"):
            await session.run(made, {fed: [2**32]})
