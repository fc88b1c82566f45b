"""Samples of what joins tensors, splits them, and takes parts of them by position."""

import numpy as np

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.op import REGISTRY
from aioflow.kernels.array.concat import concat, split, stack, unstack
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.array.slicing import slice as slice_
from aioflow.kernels.array.slicing import strided_slice

from . import sample

CUBE = np.arange(24.0).reshape(2, 3, 4) / 7
MATRIX = np.arange(6.0).reshape(2, 3) / 7
EMPTY = np.zeros((0, 3))

for axis in (0, 1, -1):
    sample(
        "concat",
        lambda x, y, a=axis: concat([x, y, x], a),
        MATRIX,
        MATRIX + 1,
        reference=lambda x, y, a=axis: np.concatenate([x, y, x], a),
    )
sample("concat", lambda x, y: concat([x, y], 0), MATRIX, EMPTY, reference=lambda x, y: np.concatenate([x, y]))
sample("concat", lambda x: concat([x], -1), MATRIX, reference=lambda x: x)
for axis in (0, 1, -1):
    sample(
        "stack",
        lambda x, y, a=axis: stack([x, y], a),
        MATRIX,
        MATRIX + 1,
        reference=lambda x, y, a=axis: np.stack([x, y], a),
    )
sample(
    "stack", lambda x, y: stack([x, y, 2.0]), np.float64(1), np.float64(3), reference=lambda x, y: np.array([x, y, 2])
)
sample("stack", lambda x: stack([x, x]), EMPTY, reference=lambda x: np.stack([x, x]))
sample(
    "stack", lambda x: convert_to_tensor([[x, 1.0], [2.0, x]]), np.float64(5),
    reference=lambda x: np.array([[x, 1], [2, x]]),
)  # fmt: skip
for axis in (0, 1, -1):
    sample(
        "unstack",
        lambda x, a=axis: unstack(x, CUBE.shape[a], a),
        CUBE,
        reference=lambda x, a=axis: tuple(np.moveaxis(x, a, 0)),
    )
sample("unstack", lambda x: unstack(x, 3), CUBE[0, 0, :3], reference=tuple)
sample("split", lambda x: split(x, 2, -1), CUBE, reference=lambda x: np.split(x, 2, -1))
sample("split", lambda x: split(x, 1), EMPTY, reference=lambda x: x)
sample("split", lambda x: split(x, 3, 1), CUBE, reference=lambda x: np.split(x, 3, 1))
sample("split_v", lambda x: split(x, [1, -1, 0], 2), CUBE, reference=lambda x: np.split(x, [1, 4], 2))
sample(
    "split_v", lambda x, s: split(x, s, -1, num=2), CUBE, np.array([1, 3]), reference=lambda x, s: np.split(x, [1], -1)
)

INDICES = [
    np.s_[1], np.s_[-1, 2], np.s_[:, 1:], np.s_[..., 0], np.s_[::-1, ::2], np.s_[:, None, -2:, ..., 3:0:-2], np.s_[...],
    np.s_[1, 2, 3], np.s_[2:], np.s_[None], np.s_[:, :, None], np.s_[:, -3:-1, 1], np.s_[()],
]  # fmt: skip
for index in INDICES:
    sample("strided_slice", lambda x, i=index: x[i], CUBE, reference=lambda x, i=index: x[i])
sample(
    "strided_slice",
    lambda x: strided_slice(x, [1, 0, 5], [0, 3, 0], [1, 2, -2], end_mask=4, shrink_axis_mask=1),
    CUBE,
    reference=lambda x: x[1, 0:3:2, 5::-2],
)
sample(
    "strided_slice",
    lambda x: strided_slice(x, [9, 9, -2], [9, 9, 9], ellipsis_mask=1, new_axis_mask=2),
    CUBE,
    reference=lambda x: x[..., None, -2:9],
)
sample("strided_slice", lambda x: x[None, ...], np.float64(3), reference=lambda x: np.reshape(x, 1))
sample("dynamic_strided_slice", lambda x, i: x[i], CUBE, np.int32(1), reference=lambda x, i: x[i])
sample(
    "dynamic_strided_slice",
    lambda x, i: x[:, i, ..., None],
    CUBE,
    np.int64(-1),
    reference=lambda x, i: x[:, i, ..., None],
)
sample(
    "dynamic_strided_slice",
    lambda x, i, j: x[..., i, j::-1],
    CUBE, np.int32(1), np.int32(2),
    reference=lambda x, i, j: x[..., i, j::-1],
)  # fmt: skip
sample("dynamic_strided_slice", lambda x, i: x[0, :i, i], CUBE, np.int32(2), reference=lambda x, i: x[0, :i, i])
sample(
    "dynamic_strided_slice", lambda x, i: strided_slice(x, stack([0, i, 2]), [2, 3, 4]), CUBE, np.int32(1),
    reference=lambda x, i: x[0:2, i:3, 2:4],
)  # fmt: skip


def among_zeros(dy, shape, index):
    result = np.zeros(shape)
    result[index] = dy
    return result


sample(
    "strided_slice_grad",
    lambda dy, x: REGISTRY["strided_slice_grad"](dy, x, (1, (None, None, -2))),
    CUBE[1, ::-2], CUBE,
    reference=lambda dy, x: among_zeros(dy, x.shape, np.s_[1, ::-2]),
)  # fmt: skip
sample(
    "dynamic_strided_slice_grad",
    lambda dy, x, i: REGISTRY["dynamic_strided_slice_grad"](dy, x, [i], ((None, "?", None),)),
    CUBE[:1], CUBE, np.int32(1),
    reference=lambda dy, x, i: among_zeros(dy, x.shape, np.s_[:i]),
)  # fmt: skip
sample("slice", lambda x: slice_(x, [0, 1, 2], [2, 1, -1]), CUBE, reference=lambda x: x[:, 1:2, 2:])
sample("slice", lambda x: slice_(x, [0, 0, 0], [-1, -1, -1]), CUBE, reference=lambda x: x)
sample("slice", lambda x: slice_(x, [], []), np.float64(2), reference=lambda x: x)
sample(
    "slice", lambda x, b: slice_(x, b, [1, -1, 2]), CUBE, np.array([1, 0, 2]), reference=lambda x, b: x[1:2, :, 2:4]
)  # fmt: skip
sample(
    "slice", lambda x, y: slice_(x, [0, 0], shape(y)), MATRIX, MATRIX[:1, :2], reference=lambda x, y: x[:1, :2]
)  # fmt: skip
sample(
    "slice_grad",
    lambda dy, x, b: REGISTRY["slice_grad"](dy, x, b),
    CUBE[:1, 1:, :2], CUBE, np.array([1, 0, 2]),
    reference=lambda dy, x, b: among_zeros(dy, x.shape, np.s_[1:2, 0:2, 2:4]),
)  # fmt: skip
