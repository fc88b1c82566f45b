"""Branches, loops and tensor arrays."""

from typing import Any

import numpy as np

from oracle.draw import COMPLEX, FLOAT, FLOATS, Call, Draw, call
from oracle.table import compare


def branched(d: Draw) -> Call:
    dtype, shape = d.dtype(*FLOATS, *COMPLEX), d.shape()
    return call(d.array("bool", ()), d.array(dtype, shape), d.array(dtype, shape))


def counted(d: Draw) -> Call:
    dtype, shape = d.dtype(*FLOAT), d.shape()
    return call(np.int32(d.integer(-1, 4)), d.array(dtype, shape, -2, 2), d.array(dtype, shape, -2, 2))


def nested(lib: Any, count: Any, x: Any, y: Any) -> Any:
    """A loop that holds a branch."""

    def body(i: Any, total: Any) -> Any:
        return i + 1, lib.cond(lib.equal(i % 2, 0), lambda: total * x, lambda: total + y)

    return lib.while_loop(lambda i, total: i < count, body, [lib.constant(0), y])


def rows(d: Draw) -> Call:
    return call(d.array(d.dtype(*FLOAT), (d.integer(1, 4), *d.shape(0, 2)), -2, 2))


def through_array(lib: Any, x: Any) -> Any:
    size = int(x.shape[0])
    array = lib.TensorArray(x.dtype, size).unstack(x)
    array = (
        lib.TensorArray(x.dtype, size)
        .write(0, array.read(size - 1) * 2)
        .scatter(list(range(1, size)), array.gather(list(range(size - 1))))
    )
    return array.stack(), array.size()


def through_pieces(lib: Any, x: Any) -> Any:
    size = int(x.shape[0])
    return lib.TensorArray(x.dtype, 2, infer_shape=False).split(x, [1, size - 1]).concat()


compare("cond", branched, lambda lib, p, x, y: lib.cond(p, lambda: x * y, lambda: x + y))
compare("while_loop", counted, nested, rtol=64)
compare("map_fn", rows, lambda lib, x: lib.map_fn(lambda row: row * row, x), ops=(), rtol=64)
compare("scan", rows, lambda lib, x: lib.scan(lambda a, row: a * row, x), ops=(), rtol=64)
compare(
    "TensorArray",
    rows,
    through_array,
    ops=(
        "tensor_array",
        "tensor_array_size",
        "tensor_array_write",
        "tensor_array_scatter",
        "tensor_array_read",
        "tensor_array_gather",
    ),
)
compare("TensorArray in pieces", rows, through_pieces, ops=("tensor_array_split", "tensor_array_concat"))
