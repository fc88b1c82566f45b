"""Samples of shapes, padding and what moves the elements of one tensor."""

import numpy as np

from aioflow.graph.op import REGISTRY
from aioflow.kernels.array.arrays import diag, diag_part, matrix_transpose, meshgrid, reverse, tile, transpose
from aioflow.kernels.array.constants import constant, eye, fill, ones_like, zeros_like
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, rank, reshape, shape, shape_n, size, squeeze
from aioflow.tensors.dtypes import int64

from . import sample

CUBE = np.arange(24.0).reshape(2, 3, 4) / 7
MATRIX = np.arange(6.0).reshape(2, 3) / 7
COMPLEX = MATRIX + 1j * MATRIX[::-1]
EMPTY = np.zeros((0, 3))
SCALAR = np.float64(1.5)

for value in (CUBE, EMPTY, SCALAR):
    sample("shape", shape, value, reference=lambda x: np.array(x.shape, int))
    sample("size", size, value, reference=np.size)
    sample("rank", rank, value, reference=np.ndim)
    sample("zeros_like", lambda x: REGISTRY["zeros_like"](x), value, reference=np.zeros_like)
    sample("zeros_like", zeros_like, value, reference=np.zeros_like)
    sample("ones_like", lambda x: REGISTRY["ones_like"](x, int64), value, reference=lambda x: np.ones(x.shape, int))
    sample("ones_like", ones_like, value, reference=np.ones_like)
    sample("transpose", transpose, value, reference=np.transpose)
sample("shape_n", lambda x, y: shape_n([x, y], int64), CUBE, EMPTY, reference=lambda x, y: (x.shape, y.shape))

for value, to in ((CUBE, [4, -1]), (CUBE, [2, 3, 2, 2]), (EMPTY, [5, 0, 2]), (SCALAR, [1, 1]), (CUBE[:1, :1, :1], [])):
    sample("reshape", lambda x, to=to: reshape(x, to), value, reference=lambda x, to=to: x.reshape(to))
sample(
    "reshape", lambda x: reshape(x, [shape(x)[1], 2, -1]), CUBE, reference=lambda x: x.reshape(x.shape[1], 2, -1)
)  # fmt: skip
sample("reshape", lambda x, y: reshape(x, shape(y)), CUBE, np.zeros((6, 4)), reference=lambda x, y: x.reshape(6, 4))
for axis in (0, 1, -1, -2):
    sample("expand_dims", lambda x, a=axis: expand_dims(x, a), MATRIX, reference=lambda x, a=axis: np.expand_dims(x, a))
sample("expand_dims", lambda x: expand_dims(x, -1), SCALAR, reference=lambda x: np.expand_dims(x, -1))
for axis in (None, 1, [-1], [1, 3]):
    sample(
        "squeeze",
        lambda x, a=axis: squeeze(x, a),
        MATRIX[:, None, :, None],
        reference=lambda x, a=axis: x.squeeze(a if a is None or isinstance(a, int) else tuple(a)),
    )
sample("squeeze", squeeze, SCALAR.reshape(1, 1), reference=np.squeeze)
for value, to in ((MATRIX, [4, 2, 3]), (MATRIX[:, :1], [2, 5]), (SCALAR, [2, 3]), (MATRIX, [2, 3]), (EMPTY, [2, 0, 3])):
    sample(
        "broadcast_to", lambda x, to=to: broadcast_to(x, to), value, reference=lambda x, to=to: np.broadcast_to(x, to)
    )
sample(
    "broadcast_to", lambda x, y: broadcast_to(x, shape(y)), SCALAR, MATRIX, reference=lambda x, y: np.full_like(y, x)
)  # fmt: skip
sample(
    "broadcast_to", lambda x, y: broadcast_to(x, shape(y)), MATRIX[0], MATRIX,
    reference=lambda x, y: np.broadcast_to(x, y.shape),
)  # fmt: skip

for perm in ([2, 0, 1], [0, 2, 1], [0, 1, 2]):
    sample("transpose", lambda x, p=perm: transpose(x, p), CUBE, reference=lambda x, p=perm: x.transpose(p))
sample("transpose", lambda x: transpose(x, conjugate=True), COMPLEX, reference=lambda x: x.T.conj())
sample("matrix_transpose", matrix_transpose, CUBE, reference=lambda x: x.swapaxes(1, 2))
sample("matrix_transpose", lambda x: matrix_transpose(x, conjugate=True), COMPLEX, reference=lambda x: x.T.conj())
for value, times in ((MATRIX, [2, 3]), (MATRIX, [1, 1]), (MATRIX, [0, 2]), (EMPTY, [2, 2]), (SCALAR, [])):
    sample("tile", lambda x, t=times: tile(x, t), value, reference=lambda x, t=times: np.tile(x, t))
sample("tile", lambda x, y: tile(x, shape(y)), MATRIX, EMPTY + 1, reference=lambda x, y: np.tile(x, y.shape))
sample("tile", lambda x, y: tile(x, shape(y)), MATRIX, MATRIX, reference=lambda x, y: np.tile(x, y.shape))
for axis in (0, [1], [0, -1], []):
    sample(
        "reverse",
        lambda x, a=axis: reverse(x, a),
        CUBE,
        reference=lambda x, a=axis: np.flip(x, a if isinstance(a, int) else tuple(a)),
    )
sample("diag", diag, CUBE[0, 0], reference=np.diag)
sample("diag", diag, MATRIX, reference=lambda x: np.diag(x.ravel()).reshape(2, 3, 2, 3))
sample("diag", diag, EMPTY[:, 0], reference=np.diag)
sample("diag_part", diag_part, CUBE[0, :, :3], reference=np.diag)
sample(
    "diag_part", diag_part, np.outer(MATRIX, MATRIX).reshape(2, 3, 2, 3), reference=lambda x: np.einsum("ijij->ij", x)
)
sample("broadcast_to", lambda x, y: meshgrid(x, y), MATRIX[0], MATRIX[:, 0], reference=np.meshgrid)
sample(
    "broadcast_to", lambda x, y: meshgrid(x, y, indexing="ij"), MATRIX[0], MATRIX[:, 0],
    reference=lambda x, y: np.meshgrid(x, y, indexing="ij"),
)  # fmt: skip

WIDTHS = [[1, 2], [0, 1]]
sample("pad", lambda x: pad(x, WIDTHS), MATRIX, reference=lambda x: np.pad(x, WIDTHS))
sample("pad", lambda x: pad(x, WIDTHS), EMPTY, reference=lambda x: np.pad(x, WIDTHS))
sample("pad", lambda x: pad(x, []), SCALAR, reference=lambda x: x)
sample(
    "pad",
    lambda x: pad(x, WIDTHS, constant_values=2.0),
    MATRIX,
    reference=lambda x: np.pad(x, WIDTHS, constant_values=2),
)
sample("pad", lambda x, w: pad(x, w), MATRIX, np.array(WIDTHS), reference=np.pad)
for mode, widths in (("REFLECT", [[1, 0], [2, 1]]), ("SYMMETRIC", [[2, 1], [1, 3]])):
    sample(
        "pad", lambda x, w=widths, m=mode: pad(x, w, m), MATRIX,
        reference=lambda x, w=widths, m=mode: np.pad(x, w, m.lower()),
    )  # fmt: skip


def folded(dy, x, widths, mode):
    """Each element of `dy` added to the one it was copied from, one by one."""
    places = np.pad(np.arange(x.size).reshape(x.shape), np.reshape(widths, (-1, 2)), mode.lower())
    total = np.zeros(x.size)
    np.add.at(total, places.ravel(), dy.ravel())
    return total.reshape(x.shape)


for mode, flat in (("REFLECT", [1, 0, 2, 1]), ("SYMMETRIC", [2, 1, 1, 3])):
    padded = np.pad(MATRIX, np.reshape(flat, (-1, 2))) + 0.5
    sample(
        "mirror_pad_grad",
        lambda dy, x, w, m=mode: REGISTRY["mirror_pad_grad"](dy, x, w, m),
        padded, MATRIX, np.array(flat),
        reference=lambda dy, x, w, m=mode: folded(dy, x, w, m),
    )  # fmt: skip

sample("fill", lambda v: fill([2, 3], v), SCALAR, reference=lambda v: np.full((2, 3), v))
sample("fill", lambda v: fill([], v), SCALAR, reference=lambda v: v)
sample("fill", lambda v, x: fill(shape(x), v), SCALAR, EMPTY, reference=lambda v, x: np.full_like(x, v))
sample("eye", lambda: eye(3), reference=lambda: np.eye(3))
sample("eye", lambda n: eye(n, 4, dtype="float64"), np.int32(3), reference=lambda n: np.eye(n, 4))
sample(
    "eye", lambda n: eye(constant(2), n, [5], dtype="int32"), np.int32(3),
    reference=lambda n: np.broadcast_to(np.eye(2, n), (5, 2, n)),
)  # fmt: skip
