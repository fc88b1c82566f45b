"""Sparse tensors, sets, and distances between sequences."""

from typing import Any

import numpy as np

from oracle.draw import FLOAT, NUMBERS, SIGNED, STRING, Call, Draw, call
from oracle.table import compare, differs


def held(d: Draw, dtype: str, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Some elements of an array of that shape: indices in order, values, the shape."""
    where = np.argwhere(d.array("bool", shape)).reshape(-1, len(shape)).astype(np.int64)
    return where, d.array(dtype, (len(where),)), np.array(shape, np.int64)


def sparse(*dtypes: str, ranks: tuple[int, int] = (1, 3), count: int = 1, **attrs: Any) -> Any:
    def drawn(d: Draw) -> Call:
        dtype, shape = d.dtype(*dtypes), d.shape(*ranks)
        return call(*[part for _ in range(count) for part in held(d, dtype, shape)], **attrs)

    return drawn


def on(function: str, *options: Any) -> Any:
    """A call on the sparse tensors that the inputs are the parts of, and on what is left of the inputs."""

    def run(lib: Any, *parts: Any, **attrs: Any) -> Any:
        whole = len(parts) // 3 * 3
        tensors = [lib.SparseTensor(*parts[place : place + 3]) for place in range(0, whole, 3)]
        module, _, name = function.rpartition(".")
        return getattr(getattr(lib, module) if module else lib, name)(*tensors, *parts[whole:], **attrs)

    return run


def dense(d: Draw) -> Call:
    dtype, shape = d.dtype(*NUMBERS, *STRING), d.shape(1, 3)
    return call(*held(d, dtype, shape), d.array(dtype, ()))


compare("sparse_to_dense", dense, lambda lib, i, v, s, default: lib.sparse_to_dense(i, s, v, default))
compare("sparse_tensor_to_dense", sparse(*NUMBERS, *STRING), on("sparse_tensor_to_dense"), ops=())


def product(d: Draw) -> Call:
    dtype, (n, m, k) = d.dtype(*FLOAT, "complex64", "int32"), d.shape(3, 3)
    adjoint_a, adjoint_b = d.pick(False, True), d.pick(False, True)
    b = d.array(dtype, (k, m) if adjoint_b else (m, k), -3, 3)
    return call(*held(d, dtype, (m, n) if adjoint_a else (n, m)), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


compare("sparse_dense_matmul", product, on("sparse_tensor_dense_matmul"), rtol=64)


def reduced(d: Draw) -> Call:
    found = sparse(*FLOAT, *SIGNED)(d)
    return call(*found.arrays, axis=d.axes(found.arrays[2]), keepdims=d.pick(False, True))


compare(
    "sparse_reduce_sum",
    reduced,
    on("sparse_reduce_sum"),
    rtol=64,
    differs=differs("of nothing nothing; TensorFlow refuses", lambda i, v, s, **attrs: not v.size),
    ops=("sparse_reduce_sum", "sparse_spread"),
)
compare(
    "sparse_add", sparse(*NUMBERS, count=2), lambda lib, *parts: on("sparse_add")(lib, *parts), ops=("sparse_union",)
)
compare(
    "sparse_softmax",
    sparse(*FLOAT, ranks=(2, 3)),
    on("sparse_softmax"),
    rtol=64,
    ops=("sparse_softmax", "sparse_group"),
    differs=differs("of nothing nothing; TensorFlow refuses", lambda i, v, s: not v.size),
)


compare("sparse_reduce_max", reduced, on("sparse_reduce_max"), ops="sparse_keep")


def moved(d: Draw) -> Call:
    found = sparse(*NUMBERS)(d)
    order = d.rng().permutation(len(found.arrays[0]))
    return call(found.arrays[0][order], found.arrays[1][order], found.arrays[2])


compare("sparse_reorder", moved, on("sparse_reorder"), ops="sparse_order")


def turned(d: Draw) -> Call:
    found = sparse(*NUMBERS)(d)
    return call(*found.arrays, perm=[int(axis) for axis in d.rng().permutation(len(found.arrays[2]))])


compare("sparse_transpose", turned, on("sparse_transpose"), ops=())


def refitted(d: Draw) -> Call:
    found = sparse(*NUMBERS)(d)
    return call(*found.arrays, shape=[int(size) for size in d.rng().permutation(found.arrays[2])])


compare("sparse_reshape", refitted, on("sparse_reshape"), ops="sparse_refit")


def cut(d: Draw) -> Call:
    found = sparse(*NUMBERS)(d)
    sizes = found.arrays[2]
    return call(
        *found.arrays,
        start=np.array([d.integer(0, int(s)) for s in sizes]),
        size=np.array([d.integer(0, 4) for _ in sizes]),
    )


compare("sparse_slice", cut, on("sparse_slice"), ops="sparse_cut")


def kept(d: Draw) -> Call:
    found = sparse(*NUMBERS)(d)
    return call(*found.arrays, d.array("bool", (len(found.arrays[0]),)))


compare("sparse_retain", kept, on("sparse_retain"), ops=())


def filled(d: Draw) -> Call:
    found = sparse(*NUMBERS, ranks=(2, 2))(d)
    return call(*found.arrays, d.array(str(found.arrays[1].dtype), ()))


compare("sparse_fill_empty_rows", filled, on("sparse_fill_empty_rows"), ops="sparse_fill")


def joined(d: Draw) -> Call:
    dtype, shape = d.dtype(*NUMBERS), list(d.shape(1, 3))
    axis, parts = d.axis(shape), []
    for _ in range(2):
        shape[axis] = d.integer(0, 3)
        parts += held(d, dtype, tuple(shape))
    return call(*parts, axis=axis)


def concatenated(lib: Any, *parts: Any, axis: int) -> Any:
    return lib.sparse_concat(axis, [lib.SparseTensor(*parts[:3]), lib.SparseTensor(*parts[3:])])


compare("sparse_concat", joined, concatenated, ops="sparse_join", gradient="TensorFlow has none")


def rows(d: Draw) -> Call:
    dtype, shape = d.pick("int32", "int64", "str"), d.shape(1, 2, (0, 3))
    return call(d.array(dtype, (*shape, d.integer(0, 4)), 0, 4), d.array(dtype, (*shape, d.integer(0, 4)), 0, 4))


for name in ("set_intersection", "set_union", "set_difference"):
    compare(name, rows, theirs=f"sets.{name}", ops=("set_operation", "all_positions"))
compare(
    "set_size",
    sparse("int32", "int64", *STRING, ranks=(2, 3)),
    lambda lib, *parts: (lib.set_size if hasattr(lib, "reset") else lib.sets.size)(lib.SparseTensor(*parts)),
)


def sequences(d: Draw) -> Call:
    dtype, batch = d.pick("int64", "str", "int32"), d.integer(0, 3)
    parts = []
    for _ in range(2):
        lengths, width = d.array("int64", (batch,), 0, 4), 4
        where = np.array([(row, place) for row, length in enumerate(lengths) for place in range(length)], np.int64)
        parts += [where.reshape(-1, 2), d.array(dtype, (len(where),), 0, 2), np.array([batch, width], np.int64)]
    return call(*parts, normalize=d.pick(True, False))


compare(
    "edit_distance",
    sequences,
    on("edit_distance"),
    differs=differs(
        "of no sequences there are no distances; TensorFlow refuses", lambda *parts, normalize: not parts[2][0]
    ),
)
