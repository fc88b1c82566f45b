"""Ops that move elements as a whole: shapes, joining, reversing, padding, blocks, diagonals."""

from typing import Any

import numpy as np

from oracle.draw import ANY, FLOATS, INTS, NUMBERS, Call, Draw, call, one
from oracle.table import NUMPY, compare, differs, open_sizes

for name in ("shape", "size"):
    compare(name, lambda d: call(d.array(d.dtype(*ANY), d.shape()), out_type=d.pick("int32", "int64")))
compare("rank", one(*ANY))
compare(
    "shape_n",
    lambda d: call(d.array("float32", d.shape()), d.array("float32", d.shape())),
    lambda lib, *xs: lib.shape_n(list(xs)),
)
compare(
    "identity_n",
    lambda d: call(d.array("float32", d.shape()), d.array("int32", d.shape())),
    lambda lib, *xs: lib.identity_n(list(xs)),
)
for name in ("zeros_like", "ones_like"):
    compare(name, one(*NUMBERS), lambda lib, x, name=name: getattr(lib, name)(open_sizes(lib, x)))


def reshaped(d: Draw) -> Call:
    shape = d.shape()
    turned = list(d.rng().permutation(np.array(shape, int)))
    if turned and d.pick(True, False):
        turned[d.integer(0, len(turned) - 1)] = -1
    return call(d.array(d.dtype(*ANY), shape), shape=[int(size) for size in turned])


compare(
    "reshape",
    reshaped,
    differs=differs(
        NUMPY + "-1 cannot be told where there are no elements", lambda x, shape: 0 in shape and -1 in shape
    ),
)


def expanded(d: Draw) -> Call:
    shape = d.shape()
    return call(d.array(d.dtype(*ANY), shape), axis=d.integer(-len(shape) - 1, len(shape)))


def squeezed(d: Draw) -> Call:
    shape = tuple(1 if d.pick(True, False) else size for size in d.shape())
    ones = [axis - (len(shape) if d.pick(True, False) else 0) for axis, size in enumerate(shape) if size == 1]
    return call(d.array(d.dtype(*ANY), shape), axis=d.pick(None, ones))


def broadcast(d: Draw) -> Call:
    shape, whole = d.broadcast(2)
    return call(d.array(d.dtype(*ANY), shape), shape=list(np.broadcast_shapes(shape, whole)))


compare("expand_dims", expanded)
compare("squeeze", squeezed)
compare("broadcast_to", broadcast, ops=("broadcast_to",))
compare(
    "fill", lambda d: call(d.array(d.dtype(*ANY), ()), dims=list(d.shape())), lambda lib, x, dims: lib.fill(dims, x)
)
compare("eye", lambda d: call(num_rows=d.integer(0, 4), num_columns=d.pick(None, 0, 3), dtype=d.pick(*FLOATS, *INTS)))


def permuted(d: Draw) -> Call:
    shape = d.shape(0, 4)
    perm = d.pick(None, [int(axis) for axis in d.rng().permutation(len(shape))])
    return call(d.array(d.dtype(*ANY), shape), perm=perm, conjugate=d.pick(False, True))


compare("transpose", permuted)
compare("matrix_transpose", lambda d: call(d.array(d.dtype(*ANY), d.shape(2, 4)), conjugate=d.pick(False, True)))


def tiled(d: Draw) -> Call:
    shape = d.shape()
    return call(d.array(d.dtype(*ANY), shape), multiples=[d.integer(0, 3) for _ in shape])


def turned_round(d: Draw) -> Call:
    shape = d.shape()
    axes = [axis - (len(shape) if d.pick(True, False) else 0) for axis in range(len(shape)) if d.pick(True, False)]
    return call(d.array(d.dtype(*ANY), shape), axis=axes)


def rolled(d: Draw) -> Call:
    shape = d.shape(1)
    count = d.integer(1, 3)
    return call(
        d.array(d.dtype(*ANY), shape),
        shift=[d.integer(-6, 6) for _ in range(count)],
        axis=[d.axis(shape) for _ in range(count)],
    )


def rows_reversed(d: Draw) -> Call:
    shape = d.shape(2, 3)
    seq_axis, batch_axis = (int(axis) for axis in d.rng().permutation(len(shape))[:2])
    lengths = d.ids((shape[batch_axis],), 0, shape[seq_axis])
    return call(d.array(d.dtype(*ANY), shape), lengths, seq_axis=seq_axis, batch_axis=batch_axis)


compare("tile", tiled)
compare("reverse", turned_round)
compare("roll", rolled)
compare("reverse_sequence", rows_reversed)


def joined(d: Draw) -> Call:
    dtype, shape = d.dtype(*ANY), list(d.shape(1))
    axis, arrays = d.axis(shape), []
    for _ in range(d.integer(1, 3)):
        shape[axis] = d.integer(0, 3)
        arrays.append(d.array(dtype, shape))
    return call(*arrays, axis=axis)


def stacked(d: Draw) -> Call:
    dtype, shape = d.dtype(*ANY), d.shape()
    return call(*[d.array(dtype, shape) for _ in range(d.integer(1, 3))], axis=d.integer(-len(shape) - 1, len(shape)))


def unstacked(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 4))
    return call(d.array(d.dtype(*ANY), shape), axis=d.axis(shape))


def cut(d: Draw) -> Call:
    shape = list(d.shape(1))
    axis, parts = d.axis(shape), d.integer(1, 3)
    shape[axis] *= parts
    return call(d.array(d.dtype(*ANY), shape), num_or_size_splits=parts, axis=axis)


def cut_unevenly(d: Draw) -> Call:
    shape = list(d.shape(1))
    axis, sizes = d.axis(shape), [d.integer(0, 3) for _ in range(d.integer(1, 3))]
    shape[axis] = sum(sizes)
    if d.pick(True, False):
        sizes[d.integer(0, len(sizes) - 1)] = -1
    return call(d.array(d.dtype(*ANY), shape), num_or_size_splits=sizes, axis=axis)


for name, drawn in (("concat", joined), ("stack", stacked)):
    compare(name, drawn, lambda lib, *xs, axis, name=name: getattr(lib, name)(list(xs), axis=axis))
compare("unstack", unstacked)
compare("split", cut)
compare(
    "split unevenly",
    cut_unevenly,
    ops="split_v",
    differs=differs(
        "one part may be -1 as several may", lambda x, num_or_size_splits, axis: num_or_size_splits == [-1]
    ),
)


def padded(d: Draw) -> Call:
    shape = d.shape()
    paddings = [[d.integer(0, 3), d.integer(0, 3)] for _ in shape]
    return call(
        d.array(d.dtype(*ANY), shape),
        paddings=np.reshape(paddings, (-1, 2)).astype(int).tolist() or np.zeros((0, 2), np.int32),
    )


def mirrored(d: Draw) -> Call:
    shape, mode = d.shape(1, 3, (1, 4)), d.pick("REFLECT", "SYMMETRIC")
    most = [size - (mode == "REFLECT") for size in shape]
    return call(d.array(d.dtype(*ANY), shape), paddings=[[d.integer(0, m), d.integer(0, m)] for m in most], mode=mode)


compare("pad", padded)
compare(
    "pad by a value", lambda d: call(d.array(d.dtype(*NUMBERS), d.shape(1, 1)), paddings=[[1, 2]], constant_values=3)
)
compare("pad by mirroring", mirrored, ops=("pad", "mirror_pad_grad"))


def blocks(d: Draw) -> Call:
    block, (n, h, w, c) = d.integer(2, 3), d.shape(4, 4, (0, 2))
    return call(d.array(d.dtype(*NUMBERS), (n, h * block, w * block, c)), block_size=block)


def depths(d: Draw) -> Call:
    block, (n, h, w, c) = d.integer(2, 3), d.shape(4, 4, (0, 2))
    return call(d.array(d.dtype(*NUMBERS), (n, h, w, c * block * block)), block_size=block)


def space(d: Draw) -> Call:
    block = [d.integer(1, 3) for _ in range(d.integer(1, 2))]
    pads = [[d.integer(0, 2), d.integer(0, 2)] for _ in block]
    sides = [b * d.integer(1, 3) - sum(p) for b, p in zip(block, pads, strict=True)]
    sides = [size if size >= 0 else size + b * 4 for size, b in zip(sides, block, strict=True)]
    shape = (d.integer(0, 2), *sides, *d.shape(0, 1))
    return call(d.array(d.dtype(*NUMBERS), shape), block_shape=block, paddings=pads)


def batches(d: Draw) -> Call:
    block = [d.integer(1, 3) for _ in range(d.integer(1, 2))]
    sides = [d.integer(1, 3) for _ in block]
    crops = [[d.integer(0, b * s // 2), d.integer(0, b * s // 2)] for b, s in zip(block, sides, strict=True)]
    shape = (d.integer(0, 2) * int(np.prod(block)), *sides, *d.shape(0, 1))
    return call(d.array(d.dtype(*NUMBERS), shape), block_shape=block, crops=crops)


compare("space_to_depth", blocks)
compare("depth_to_space", depths)
compare("space_to_batch_nd", space)
compare("batch_to_space_nd", batches)


compare("diag", one(*NUMBERS, ranks=(1, 2)))
compare("diag_part", lambda d: call(d.array(d.dtype(*NUMBERS), d.shape(1, 2) * 2)))
compare("trace", one(*NUMBERS, ranks=(2, 4)), rtol=64, ops=("trace", "on_diagonal"))


def diagonal_of(d: Draw) -> Call:
    shape = d.shape(2, 4, (1, 4))
    k = d.integer(1 - shape[-2], shape[-1] - 1)
    band = d.pick(k, (k, d.integer(k, shape[-1] - 1)))
    return call(d.array(d.dtype(*NUMBERS), shape), k=band)


compare("matrix_diag_part", diagonal_of, theirs=lambda lib, x, k: lib.matrix_diag_part(x, k=k, align="LEFT_LEFT"))
compare("matrix_diag", one(*NUMBERS, ranks=(1, 3), sides=(1, 4)))


def off_diagonal(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 4))
    return call(d.array(d.dtype(*NUMBERS), shape), k=d.integer(-3, 3), padding_value=d.pick(0, 7))


compare(
    "matrix_diag off the middle",
    off_diagonal,
    theirs=lambda lib, x, **attrs: lib.matrix_diag(x, align="LEFT_LEFT", **attrs),
)


def set_diagonal(d: Draw) -> Call:
    shape, dtype = d.shape(2, 4, (1, 4)), d.dtype(*NUMBERS)
    return call(d.array(dtype, shape), d.array(dtype, (*shape[:-2], min(shape[-2:]))))


def band(d: Draw) -> Call:
    shape = d.shape(2, 4)
    return call(
        d.array(d.dtype(*NUMBERS), shape),
        num_lower=d.integer(-1, min(shape[-2], 4)),
        num_upper=d.integer(-1, min(shape[-1], 4)),
    )


compare("matrix_set_diag", set_diagonal)
compare("matrix_band_part", band)


def mesh(lib: Any, *xs: Any, indexing: str) -> Any:
    return lib.meshgrid(*xs, indexing=indexing)


compare(
    "meshgrid",
    lambda d: call(*[d.array("float32", d.shape(1, 1)) for _ in range(d.integer(1, 3))], indexing=d.pick("xy", "ij")),
    mesh,
    ops=(),
)
compare("ensure_shape", lambda d: call(d.array("float32", d.shape(2, 2)), shape=d.pick([None, None], [2, None])))
compare("placeholder_with_default", lambda d: call(d.array(d.dtype(*ANY), d.shape(1, 1)), shape=[None]))
compare(
    "prevent_gradient", one(*ANY), theirs=lambda lib, x: lib.raw_ops.PreventGradient(input=x), gradient="it refuses"
)
compare("broadcast_dynamic_shape", lambda d: call(*[np.array(s, np.int32) for s in d.broadcast(2)]))
compare("broadcast_dynamic_shape of others", lambda d: call(*[np.array(d.shape(), np.int32) for _ in range(2)]))


def constants(d: Draw) -> Call:
    dtype = d.dtype(*ANY)
    return call(value=d.array(dtype, d.shape()).tolist(), dtype=dtype if dtype != "str" else "string")


compare("constant", constants, lambda lib, **attrs: lib.identity(lib.constant(**attrs)))
compare(
    "math.sobol_sample",
    lambda d: call(
        dim=d.pick(1, 2, 40, 1111),
        num_results=d.integer(1, 40),
        skip=d.pick(0, 3, 1000, 2**29),
        dtype=d.pick("float32", "float64"),
    ),
    gradient="it has no inputs",
)
