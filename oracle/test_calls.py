"""Calls as TensorFlow's users write them: both libraries give the same values, dtypes, known shapes and names.

Each call is a function of the library's module. It gives tensors, or raises ValueError in both.
"""

import asyncio
from typing import Any

import numpy as np
import pytest

import aioflow as af
from oracle.both import Build, tensorflow

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
tf: Any = tensorflow()
SIZES = np.ones((2, 3, 4), np.float32)


def fed(lib: Any, value: Any = SIZES, shape: Any = (None, None, None)) -> Any:
    """A tensor of which only the rank is known when the graph is built, or as much as `shape` tells."""
    return lib.placeholder_with_default(value, shape)


EQUAL: dict[str, Build] = {
    "floats of NumPy in a list": lambda lib: [lib.constant([np.sqrt(2), 1.0]), lib.add([np.float64(1)], [2.0])],
    "integers of NumPy in a list": lambda lib: [lib.constant([np.int64(1)]), lib.constant([np.int64(1 << 40)])],
    "narrow numbers of NumPy in a list": lambda lib: [lib.constant([np.float16(1)]), lib.constant([np.int8(1)])],
    "numbers of NumPy alone": lambda lib: [lib.constant(np.float64(1)), lib.constant(np.int64(1))],
    "sizes of NumPy": lambda lib: [lib.zeros([np.int64(2), 2]), lib.stack((np.int64(1), 2))],
    "a function of a string": lambda lib: lib.py_func(lambda x: x.decode().upper(), ["a"], lib.string),
    "the class of a scalar": lambda lib: lib.py_func(lambda x: type(x).__name__.encode(), [1.5], lib.string),
    "scattered strings": lambda lib: lib.scatter_nd([[0], [2], [0]], ["a", "b", "c"], [4]),
    "scattered bools": lambda lib: lib.scatter_nd([[0], [2], [0]], [True, True, False], [4]),
    "a count of strings": lambda lib: lib.count_nonzero([["", "a"], ["b", "c"]], axis=1),
    "a count by an older name": lambda lib: lib.count_nonzero(input=[[0, 1]]),
    "a mean of integers": lambda lib: lib.unsorted_segment_mean([1, 2], [0, 0], 1),
    "repeats of unknown rank": lambda lib: lib.repeat([1, 2], fed(lib, [1, 2], None), axis=0),
    "a mask as wide as the greatest length": lambda lib: [lib.sequence_mask([1, 3, 2]), lib.sequence_mask(2)],
    "channels told by a bias": lambda lib: lib.nn.bias_add(fed(lib), [1.0] * 4),
    "a batch told by lengths": lambda lib: lib.reverse_sequence(fed(lib), [1, 2], seq_axis=1),
    "a batch told by diagonals": lambda lib: lib.matrix_set_diag(fed(lib), lib.ones([2, 3])),
    "a cropped image": lambda lib: lib.image.crop_to_bounding_box(fed(lib), 0, 0, 2, 3),
    "a padded image": lambda lib: lib.image.pad_to_bounding_box(fed(lib), 1, 0, 5, 6),
    "an image cropped or padded": lambda lib: lib.image.resize_image_with_crop_or_pad(fed(lib), 5, 2),
    "a colored image": lambda lib: lib.image.grayscale_to_rgb(fed(lib)[..., :1]),
    "a batch of sparse tensors": lambda lib: places(lib.deserialize_many_sparse(serialized(lib), lib.float32, rank=2)),
}

NAMED: dict[str, Build] = {
    "clip_by_norm": lambda lib: lib.clip_by_norm([1.0], 1.0, name="n"),
    "clip_by_average_norm": lambda lib: lib.clip_by_average_norm([1.0], 1.0, name="n"),
    "rgb_to_grayscale": lambda lib: lib.image.rgb_to_grayscale(SIZES[..., :3], name="n"),
}

REFUSED: dict[str, Build] = {
    "reduce_sum": lambda lib: lib.reduce_sum(SIZES, 0, reduction_indices=0),
    "reduce_max": lambda lib: lib.reduce_max(SIZES, keepdims=True, keep_dims=True),
    "argmax": lambda lib: lib.argmax(SIZES, axis=0, dimension=0),
    "squeeze": lambda lib: lib.squeeze(SIZES[:1], axis=[0], squeeze_dims=[0]),
    "softmax": lambda lib: lib.nn.softmax(SIZES, axis=0, dim=0),
    "l2_normalize": lambda lib: lib.nn.l2_normalize(SIZES, axis=0, dim=0),
    "moments": lambda lib: lib.nn.moments(lib.constant(SIZES), [0], keepdims=True, keep_dims=True),
    "reduce_join": lambda lib: lib.reduce_join([["a"]], axis=0, reduction_indices=0),
    "sparse_reduce_sum": lambda lib: lib.sparse_reduce_sum(sparse(lib), axis=0, reduction_axes=0),
    "sparse_concat": lambda lib: lib.sparse_concat(0, [sparse(lib)], concat_dim=0),
    "decode_raw": lambda lib: lib.decode_raw(["a"], lib.uint8, bytes=["a"]),
    "norm": lambda lib: lib.norm([3.0, 4.0], ord="fro", axis=0),
    "grayscale_to_rgb": lambda lib: lib.image.grayscale_to_rgb(lib.constant(SIZES)),
    "get_tensor_by_name": lambda lib: lib.get_default_graph().get_tensor_by_name("x"),
    "get_operation_by_name": lambda lib: lib.get_default_graph().get_operation_by_name("x:0"),
}


def sparse(lib: Any) -> Any:
    return lib.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])


def serialized(lib: Any) -> Any:
    return lib.serialize_many_sparse(sparse(lib))


def places(made: Any) -> list[Any]:
    return [made.indices, made.values]


def parts(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def form(tensors: list[Any]) -> list[tuple[str, Any]]:
    """The dtypes and the known sizes."""
    return [(t.dtype.name, None if t.shape.ndims is None else t.shape.as_list()) for t in tensors]


@pytest.mark.parametrize("call", EQUAL.values(), ids=EQUAL.keys())
def test_calls_give_the_same(call: Build) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        expected = parts(call(tf))
        their_form, theirs = form(expected), session.run(expected)

    async def ours() -> list[Any]:
        async with af.Session(graph=graph) as own:
            return list(await own.run(made))

    with af.Graph().as_default() as graph:
        made = parts(call(af))
    assert form(made) == their_form
    for mine, value in zip(asyncio.run(ours()), theirs, strict=True):
        np.testing.assert_array_equal(mine, value)


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED.keys())
def test_results_have_the_same_names(call: Build) -> None:
    names = []
    for lib in (tf, af):
        with lib.Graph().as_default():
            names.append(call(lib).name)
    assert names == ["n:0", "n:0"]


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
def test_both_refuse_the_same(call: Build) -> None:
    for lib in (tf, af):
        with lib.Graph().as_default(), pytest.raises(ValueError, match=r"\w"):
            call(lib)
