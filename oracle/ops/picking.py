"""Ops that pick and place elements: slices, gathers, scatters, partitions; ranges and one-hot rows."""

from typing import Any

import numpy as np

from oracle.draw import ANY, BOOL, COMPLEX, FLOAT, FLOATS, INTS, NUMBERS, Call, Draw, call
from oracle.table import NUMPY, compare, differs


def sliced(d: Draw) -> Call:
    shape = d.shape()
    begin = [d.integer(0, size) for size in shape]
    size = [d.pick(-1, d.integer(0, s - b)) for b, s in zip(begin, shape, strict=True)]
    return call(d.array(d.dtype(*ANY), shape), begin=np.array(begin, np.int32), size=np.array(size, np.int32))


compare("slice", sliced, ops=("slice", "slice_grad"))


def bracket(d: Draw, size: int) -> Any:
    """What stands in the brackets for one axis."""
    end = d.pick(None, *range(-size - 2, size + 3))
    step = d.pick(None, 1, 2, -1, -2)
    return d.pick(
        slice(d.pick(None, *range(-size - 2, size + 3)), end, step), d.integer(-size, size - 1) if size else slice(None)
    )


def indexed(d: Draw) -> Call:
    shape = d.shape()
    index = [bracket(d, size) for size in shape[: d.integer(0, len(shape))]]
    if len(index) < len(shape) and d.pick(True, False):
        index.insert(d.integer(len(index), len(index)), ...)
    if d.pick(True, False):
        index.insert(d.integer(0, len(index)), None)
    return call(d.array(d.dtype(*ANY), shape), index=tuple(index))


compare("strided_slice", indexed, lambda lib, x, index: x[index], ops=("strided_slice", "strided_slice_grad"))


def cut_by_tensors(d: Draw) -> Call:
    shape = d.shape(1, 2)
    begin, end = (d.array("int32", (), -shape[0] - 1, shape[0] + 1) for _ in range(2))
    return call(d.array(d.dtype(*NUMBERS), shape), begin, end, step=d.pick(1, 2, -1))


compare(
    "strided_slice by tensors",
    cut_by_tensors,
    lambda lib, x, begin, end, step: x[begin:end:step],
    ops=("dynamic_strided_slice", "dynamic_strided_slice_grad"),
)


def gathered(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 4))
    batch_dims = d.integer(0, len(shape) - 1)
    axis = d.integer(batch_dims, len(shape) - 1)
    ids = d.ids((*shape[:batch_dims], *d.shape(0, 2)), 0, shape[axis] - 1)
    return call(d.array(d.dtype(*ANY), shape), ids, axis=axis, batch_dims=batch_dims)


compare("gather", gathered, ops=("gather", "gather_grad"))
compare(
    "gather beyond the end",
    lambda d: call(d.array("float32", (3, 2)), d.ids((2,), -1, 3)),
    lambda lib, x, i: lib.gather(x, i),
)


def gathered_nd(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 4))
    depth, rows = d.integer(0, len(shape)), d.shape(0, 2)
    parts = [d.ids(rows, 0, size - 1) for size in shape[:depth]]
    ids = np.stack(parts, -1) if parts else np.zeros((*rows, 0), np.int32)
    return call(d.array(d.dtype(*ANY), shape), ids)


compare(
    "gather_nd",
    gathered_nd,
    differs=differs("one place alone: TensorFlow's gradient refuses", lambda x, i: i.ndim == 1 or not i.size),
)
compare(
    "gather_nd beyond the end",
    lambda d: call(d.array("float32", (3, 2)), d.ids((2, 2), -1, 3)),
    lambda lib, x, i: lib.gather_nd(x, i),
)


def scattered(unique: bool, *dtypes: str) -> Any:
    """A tensor, places in it, and what goes there."""

    def drawn(d: Draw) -> Call:
        shape = d.shape(1, 3, (1, 4))
        depth, dtype = d.integer(1, len(shape)), d.dtype(*dtypes)
        places = np.indices(shape[:depth]).reshape(depth, -1).T
        if unique:
            chosen = d.rng().permutation(len(places))[: d.integer(0, len(places))]
        else:
            chosen = d.rng().integers(0, len(places), d.integer(0, 5))
        ids = places[chosen].astype(d.pick("int32", "int64"))
        return call(d.array(dtype, shape), ids, d.array(dtype, (len(ids), *shape[depth:])))

    return drawn


compare("tensor_scatter_update", scattered(True, *ANY))
WIDE_SUMS = differs("sums of float16 are summed as float32", lambda x, *arrays: x.dtype == np.float16)
compare("tensor_scatter_add", scattered(False, *NUMBERS), rtol=64, differs=WIDE_SUMS)
compare("tensor_scatter_sub", scattered(False, *NUMBERS), rtol=64, differs=WIDE_SUMS)
for extreme in ("max", "min"):
    compare(
        f"tensor_scatter_nd_{extreme}",
        scattered(False, *FLOATS, *INTS),
        ops=f"tensor_scatter_{extreme}",
        differs=differs(
            f"{NUMPY}of numbers and NaN the extreme is NaN",
            lambda x, ids, updates: bool(np.isnan(x).any() or np.isnan(updates).any()),
        ),
    )
compare(
    "scatter_nd",
    scattered(False, *NUMBERS),
    lambda lib, x, ids, rows: lib.scatter_nd(ids, rows, x.shape.as_list()),
    rtol=64,
)


def masked(d: Draw) -> Call:
    shape = d.shape(1)
    axis = d.integer(0, len(shape) - 1)
    deep = d.integer(axis + 1, len(shape))
    return call(d.array(d.dtype(*ANY), shape), d.array("bool", shape[axis:deep]), axis=axis)


compare("boolean_mask", masked, ops=("boolean_mask", "boolean_mask_grad"))
compare(
    "sequence_mask",
    lambda d: call(d.ids(d.shape(0, 2), -1, 5), maxlen=d.pick(None, 0, 3), dtype=d.pick("bool", "float32", "int32")),
)


def divided(d: Draw) -> Call:
    shape = d.shape(0, 3)
    parts = d.integer(1, 4)
    ids = d.array("int32", shape[: d.integer(0, len(shape))], 0, parts - 1)
    return call(d.array(d.dtype(*ANY), shape), ids, num_partitions=parts)


compare("dynamic_partition", divided)


def stitched(d: Draw) -> Call:
    dtype, rest = d.dtype(*ANY), d.shape(0, 2)
    count = d.integer(1, 6)
    order = d.rng().permutation(count).astype(np.int32)
    at = d.integer(0, count)
    indices = [order[:at], order[at:]]
    return call(*indices, *[d.array(dtype, (len(part), *rest)) for part in indices])


compare(
    "dynamic_stitch",
    stitched,
    lambda lib, i, j, x, y: lib.dynamic_stitch([i, j], [x, y]),
    ops=("dynamic_stitch", "stitched_places"),
)


def one_hot(d: Draw) -> Call:
    ids = d.ids(d.shape(0, 2), -1, 4)
    dtype = d.dtype(*NUMBERS, *BOOL)
    on_off = (d.array(dtype, ()), d.array(dtype, ()))
    return call(ids, *on_off, depth=d.integer(0, 5), axis=d.integer(-1, ids.ndim))


compare(
    "one_hot",
    one_hot,
    lambda lib, i, on, off, depth, axis: lib.one_hot(i, depth, on, off, axis),
    gradient="TensorFlow has none",
)
compare(
    "range",
    lambda d: call(
        *[np.array(value, d.dtype("int32", "int64", *FLOAT)) for value in ()],
        start=d.integer(-5, 5),
        limit=d.integer(-5, 5),
        delta=d.pick(1, 2, -1, -3),
    ),
)


def counted(d: Draw) -> Call:
    dtype = d.dtype(*FLOAT, "int32", "int64")
    return call(d.array(dtype, (), -5, 5), d.array(dtype, (), -5, 5), d.array(dtype, (), -3, 3))


compare("range of tensors", counted, lambda lib, a, b, c: lib.range(a, b, c), gradient="its length jumps")


def spaced(d: Draw) -> Call:
    dtype = d.dtype(*FLOAT)
    return call(d.array(dtype, ()), d.array(dtype, ()), num=d.integer(1, 6))


compare(
    "linspace",
    spaced,
    differs=differs(NUMPY + "the step is part of the only element", lambda a, b, num: not np.isfinite([a, b]).all()),
)


def listed(d: Draw) -> Call:
    dtype = d.dtype(*ANY)
    return call(d.array(dtype, d.shape(1, 1, (0, 6))), d.array(dtype, d.shape(1, 1, (0, 6))))


compare("setdiff1d", listed)


def cast(d: Draw) -> Call:
    source, target = d.pick(*FLOATS, *INTS, *BOOL, *COMPLEX), d.pick(*FLOATS, *INTS, *BOOL, *COMPLEX)
    low, high = (0, 5) if target.startswith("uint") else (-4, 5)
    if source in BOOL or source not in (*FLOATS, *COMPLEX):
        return call(d.array(source, d.shape()), dtype=target)
    return call(d.array(source, d.shape(), low, high), dtype=target)


compare(
    "cast",
    cast,
    differs=differs(NUMPY + "what is not 0 is true", lambda x, dtype: dtype == "bool" and x.dtype.kind == "c"),
)
compare(
    "saturate_cast",
    lambda d: call(d.array(d.dtype(*FLOATS, *INTS), d.shape()), dtype=d.pick(*INTS, *FLOATS)),
    ops="saturate_to_integer",
    gradient="it is flat",
    differs=differs(
        "TensorFlow stops at the largest float below the largest integer", lambda x, dtype: abs(x) > 2.0**15
    )
    + differs("TensorFlow takes the limits of int64 for floats", lambda x, dtype: x.dtype.itemsize == 8)
    + differs("NaN is no integer: NumPy leaves open which it becomes", lambda x, dtype: x != x),
)
SAME_SIZE = {
    "float32": ("int32", "uint32", "float32"),
    "float64": ("int64", "complex64", "int32"),
    "int32": ("float32", "uint8"),
    "uint8": ("int8",),
    "int64": ("float64", "int16"),
}


def bits(d: Draw) -> Call:
    source = d.pick(*SAME_SIZE)
    return call(d.array(source, d.shape()), type=d.pick(*SAME_SIZE[source]))


compare("bitcast", bits)


def numbered(d: Draw) -> Call:
    dims = d.shape(1, 3, (1, 4))
    return call(d.ids(d.shape(0, 1), 0, int(np.prod(dims)) - 1), dims=list(dims))


compare(
    "unravel_index",
    numbered,
    lambda lib, i, dims: lib.unravel_index(i, lib.constant(dims, i.dtype)),
    differs=differs("nothing is nowhere; TensorFlow refuses", lambda i, dims: not i.size),
)
