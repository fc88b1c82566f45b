"""Samples of sparse tensors: positions, values and the shape are fed one by one."""

import numpy as np
import scipy.special

from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.sparse import sparse_parts
from aioflow.kernels.sparse import sparse_tensors as kernels
from aioflow.library import sparse, sparse_reduction

from . import sample

INDICES = np.array([[0, 0, 1], [0, 2, 3], [1, 0, 0], [1, 0, 2], [1, 2, 3]], np.int64)
VALUES = np.array([0.5, -1.25, 2.0, 0.75, -0.3])
SHAPE = np.array([2, 3, 4], np.int64)
FLAT = np.array([[0, 1], [0, 3], [2, 0], [2, 1], [2, 3]], np.int64)
SIZES = np.array([4, 5], np.int64)
NOTHING = (np.zeros((0, 2), np.int64), np.zeros(0), np.array([2, 3], np.int64))


def dense(indices, values, shape, default=0.0):
    result = np.full(shape, default, values.dtype)
    result[tuple(indices.T)] = values
    return result


def on(function, *options, **named):
    """A call of `function` on sparse tensors, three placeholders for each, and then on what is left."""

    def build(*parts):
        tensors = [SparseTensor(*parts[place : place + 3]) for place in range(0, len(parts) // 3 * 3, 3)]
        made = function(*tensors, *parts[len(parts) // 3 * 3 :], *options, **named)
        return apart(made)

    return build


def apart(made):
    if isinstance(made, SparseTensor):
        return made.indices, made.values, made.dense_shape
    return (*apart(made[0]), made[1]) if isinstance(made, tuple) else made


def held(array):
    indices = np.argwhere(array)
    return indices, array[tuple(indices.T)], np.array(array.shape)


# To dense

for indices, values, shape in ((INDICES, VALUES, SHAPE), (FLAT, VALUES, SIZES), NOTHING):
    sample(
        "sparse_to_dense", lambda i, v, s: sparse.sparse_to_dense(i, s, v), indices, values, shape,
        reference=dense,
    )  # fmt: skip
sample("sparse_to_dense", lambda i, v, d: sparse.sparse_to_dense(i, [4, 5], v, d), FLAT, VALUES, np.float64(7),
       reference=lambda i, v, d: dense(i, v, (4, 5), d))  # fmt: skip
sample("sparse_to_dense", lambda i, v: sparse.sparse_to_dense(i, [4, 5], v, 1.5), FLAT, np.float64(3),
       reference=lambda i, v: dense(i, np.full(5, v), (4, 5), 1.5))  # fmt: skip
sample("sparse_to_dense", lambda i, v: sparse.sparse_to_dense(i, [6], v), np.array([1, 4]), VALUES[:2],
       reference=lambda i, v: dense(i[:, None], v, (6,)))  # fmt: skip
sample("sparse_to_dense", lambda i, v: sparse.sparse_to_dense(i, [6], v), np.int32(2), np.float64(3),
       reference=lambda i, v: dense(np.array([[2]]), np.array([3.0]), (6,)))  # fmt: skip
sample("sparse_to_dense", on(sparse.sparse_tensor_to_dense, validate_indices=False), FLAT[::-1].copy(), VALUES, SIZES,
       reference=dense)  # fmt: skip
sample("sparse_to_dense", on(sparse.sparse_tensor_to_dense), FLAT, np.array([b"a", b"b", b"", b"c", b"d"], object),
       SIZES, reference=lambda i, v, s: dense(i, v, s, b""))  # fmt: skip

for kind in (1.0, 1.0 - 0.5j):
    for adjoint_a in (False, True):
        for adjoint_b in (False, True):
            right = np.linspace(-1, 1, 10).reshape(5, 2)
            right = (right if not adjoint_a else right[:4]) * kind
            sample(
                "sparse_dense_matmul",
                on(sparse.sparse_tensor_dense_matmul, adjoint_a=adjoint_a, adjoint_b=adjoint_b),
                FLAT, VALUES * kind, SIZES, right.T.conj().copy() if adjoint_b else right,
                reference=lambda i, v, s, b, flip_a=adjoint_a, flip_b=adjoint_b: (
                    (dense(i, v, s).T.conj() if flip_a else dense(i, v, s)) @ (b.T.conj() if flip_b else b)
                ),
            )  # fmt: skip
sample("sparse_dense_matmul", on(sparse.sparse_tensor_dense_matmul), *NOTHING, np.ones((3, 2)),
       reference=lambda *_: np.zeros((2, 2)))  # fmt: skip

for axis in (None, 0, -1, [0, 2], [0, 1, 2], []):
    for keepdims in (False, True):
        sample(
            "sparse_reduce_sum", on(sparse.sparse_reduce_sum, axis, keepdims), INDICES, VALUES, SHAPE,
            reference=lambda i, v, s, a=axis, k=keepdims: np.sum(
                dense(i, v, s), a if not isinstance(a, list) else tuple(a), keepdims=k
            ),
        )  # fmt: skip
sample("sparse_spread", lambda x, i, s: kernels.sparse_spread(x, i, s, [0, 2], False), VALUES[:3], INDICES, SHAPE,
       reference=lambda x, i, s: x[i[:, 1]])  # fmt: skip
sample("sparse_reduce_sum", on(sparse.sparse_reduce_sum, 1), *NOTHING, reference=lambda *_: np.zeros(2))

# Element by element

OTHER = np.array([[0, 1], [1, 1], [2, 3]], np.int64)
MORE = np.array([1.0, 2.0, 3.0])


def summed(i, v, s, j, w, _):
    total, where = dense(i, v, s) + dense(j, w, s), dense(i, v != 0, s, False) | dense(j, w != 0, s, False)
    indices = np.argwhere(where)
    return indices, total[tuple(indices.T)], s


sample("sparse_union", on(sparse.sparse_add), FLAT, VALUES, SIZES, OTHER, MORE, SIZES, reference=summed)
sample("sparse_union", on(sparse.sparse_add, 1.6), FLAT, VALUES, SIZES, OTHER, MORE, SIZES,
       reference=lambda i, v, s, j, w, _: held(np.where(
           abs(summed := dense(i, v, s) + dense(j, w, s)) >= 1.6, summed, 0
       )), gradient=False)  # fmt: skip
sample("sparse_union", on(sparse.sparse_add), *NOTHING, *NOTHING, reference=lambda *_: NOTHING)
for order in ((0, 1), (1, 0)):
    sample(
        "tensor_scatter_add",
        lambda i, v, s, d, o=order: sparse.sparse_add(*[(SparseTensor(i, v, s), d)[place] for place in o]),
        FLAT, VALUES, SIZES, np.ones((4, 5)), reference=lambda i, v, s, d: dense(i, v, s) + d,
    )  # fmt: skip
for shape in ((4, 5), (5,), (4, 1), (1, 5), ()):
    for function, ufunc in ((sparse.sparse_dense_cwise_mul, np.multiply), (sparse.sparse_dense_cwise_div, np.divide)):
        sample(
            "gather_nd", on(function), FLAT, VALUES, SIZES, 2 + np.arange(float(np.prod(shape))).reshape(shape),
            reference=lambda i, v, s, d, u=ufunc: (i, u(v, np.broadcast_to(d, s)[tuple(i.T)]), s),
        )  # fmt: skip


def rowwise(i, v, s):
    with np.errstate(invalid="ignore"):
        whole = scipy.special.softmax(dense(i, v, s, -np.inf), -1)
    return i, whole[tuple(i.T)], s


sample("sparse_softmax", on(sparse.sparse_softmax), INDICES, VALUES, SHAPE, reference=rowwise)
sample("sparse_softmax", on(sparse.sparse_softmax), FLAT, VALUES, SIZES, reference=rowwise)
sample("sparse_softmax", on(sparse.sparse_softmax), *NOTHING, reference=lambda *_: NOTHING)
sample("sparse_group", kernels.sparse_group, FLAT[:, :1], reference=lambda i: (np.array([0, 0, 1, 1, 1]), 2))
sample("sparse_group", kernels.sparse_group, FLAT[:, :0], reference=lambda i: (np.zeros(5), 1))

# Order and parts

MIXED = [3, 0, 4, 2, 1]
sample("sparse_order", on(sparse.sparse_reorder), INDICES[MIXED], VALUES[MIXED], SHAPE,
       reference=lambda *_: (INDICES, VALUES, SHAPE))  # fmt: skip
sample("sparse_order", on(sparse.sparse_reorder), *NOTHING, reference=lambda *_: NOTHING)
for perm in (None, [1, 0, 2], [0, 1, 2], [2, 0, 1]):
    sample("sparse_order", on(sparse.sparse_transpose, perm), INDICES, VALUES, SHAPE,
           reference=lambda i, v, s, p=perm: held(dense(i, v, s).transpose(p)))  # fmt: skip
for shape in ([6, 4], [-1], [2, 3, 2, 2], [4, -1, 1]):
    sample("sparse_refit", on(sparse.sparse_reshape, np.array(shape)), INDICES, VALUES, SHAPE,
           reference=lambda i, v, s, r=shape: held(dense(i, v, s).reshape(r)))  # fmt: skip
sample("sparse_refit", lambda i, s, n: sparse_parts.sparse_refit(i, s, n), *NOTHING[::2], np.array([3, 2]),
       reference=lambda i, s, n: (i, n))  # fmt: skip
for start, size in (([0, 0], [2, 4]), ([1, 1], [9, 9]), ([3, 0], [1, 2]), ([9, 9], [1, 1])):
    block = tuple([slice(begin, begin + length) for begin, length in zip(start, size, strict=True)])
    sample("sparse_cut", on(sparse.sparse_slice, start, size), FLAT, VALUES, SIZES,
           reference=lambda i, v, s, b=block: held(dense(i, v, s)[b]))  # fmt: skip
sample("sparse_cut", sparse_parts.sparse_cut, FLAT, SIZES, np.array([2, 1]), np.array([1, 2]),
       reference=lambda *_: (np.array([[0, 0]]), np.array([1, 2]), np.array([3])))  # fmt: skip
KEPT = np.array([True, False, False, True, True])
sample("boolean_mask", on(sparse.sparse_retain), FLAT, VALUES, SIZES, KEPT,
       reference=lambda i, v, s, k: (i[k], v[k], s))  # fmt: skip
FILLED = np.array([[0, 1], [0, 3], [1, 0], [2, 0], [2, 1], [2, 3], [3, 0]])
sample("sparse_fill", on(sparse.sparse_fill_empty_rows), FLAT, VALUES, SIZES, np.float64(9),
       reference=lambda i, v, s, d: (FILLED, np.array([*v[:2], d, *v[2:], d]), s, np.array([False, True, False, True]))
       )  # fmt: skip
sample("sparse_fill", on(sparse.sparse_fill_empty_rows, 1.0), *NOTHING,
       reference=lambda i, v, s: (np.array([[0, 0], [1, 0]]), np.ones(2), s, np.ones(2, bool)))  # fmt: skip
for axis in (0, 1, -1):
    sample(
        "sparse_join", on(lambda *x, a=axis: sparse.sparse_concat(a, x)), FLAT, VALUES, SIZES, OTHER, MORE, SIZES,
        reference=lambda i, v, s, j, w, t, a=axis: held(np.concatenate([dense(i, v, s), dense(j, w, t)], a)),
    )  # fmt: skip
sample("sparse_join", on(lambda *x: sparse.sparse_concat(0, x, expand_nonconcat_dims=True)), FLAT, VALUES, SIZES,
       OTHER, MORE, SIZES - 1, reference=lambda i, v, s, j, w, t: held(np.concatenate([
           dense(i, v, s), np.pad(dense(j, w, t), ((0, 0), (0, 1)))
       ])))  # fmt: skip
sample("where", lambda x: apart(sparse.from_dense(x)), dense(FLAT, VALUES, SIZES), reference=held, gradient=False)

# Reduced, compared, divided


def greatest(i, v, s, axis, keepdims):
    whole = dense(i, v, s, -np.inf).max(axis, keepdims=keepdims)
    return np.where(np.isinf(whole), 0, whole)


def without(array):
    """What is held of a reduced array, where nothing that is held is 0."""
    indices = np.argwhere(np.atleast_1d(array)) if np.ndim(array) else np.zeros((1, 0), np.int64)
    return indices, np.atleast_1d(array[tuple(indices.T)]), np.array(np.shape(array), np.int64)


for axis in (None, 0, 1, (0, 2), (0, 1, 2)):
    for keepdims in (False, True):
        options = (axis, keepdims)
        sample("sparse_keep", on(sparse_reduction.sparse_reduce_max, *options), INDICES, VALUES, SHAPE,
               reference=lambda i, v, s, o=options: greatest(i, v, s, *o))  # fmt: skip
        sample("sparse_keep", on(sparse_reduction.sparse_reduce_max_sparse, *options), INDICES, VALUES, SHAPE,
               reference=lambda i, v, s, o=options: without(greatest(i, v, s, *o)))  # fmt: skip
        sample("sparse_keep", on(sparse_reduction.sparse_reduce_sum_sparse, *options), INDICES, VALUES, SHAPE,
               reference=lambda i, v, s, o=options: without(dense(i, v, s).sum(o[0], keepdims=o[1])))  # fmt: skip
sample("sparse_keep", on(sparse_reduction.sparse_reduce_max, 0), *NOTHING, reference=lambda *_: np.zeros(3))
for function, ufunc in ((sparse_reduction.sparse_maximum, np.maximum), (sparse_reduction.sparse_minimum, np.minimum)):
    sample(
        "sparse_union", on(function), FLAT, VALUES, SIZES, OTHER, MORE, SIZES,
        reference=lambda i, v, s, j, w, t, u=ufunc: (
            summed(i, v, s, j, w, t)[0], u(dense(i, v, s), dense(j, w, s))[tuple(summed(i, v, s, j, w, t)[0].T)], s
        ),
    )  # fmt: skip
