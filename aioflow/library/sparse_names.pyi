"""`af.sparse`: operations on sparse tensors under TensorFlow's short names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.graph.sparse_tensor import SparseTensor as SparseTensor
from aioflow.kernels.sparse.sparse_segments import sparse_segment_mean as segment_mean
from aioflow.kernels.sparse.sparse_segments import sparse_segment_sqrt_n as segment_sqrt_n
from aioflow.kernels.sparse.sparse_segments import sparse_segment_sum as segment_sum
from aioflow.library.accumulators import SparseConditionalAccumulator as SparseConditionalAccumulator
from aioflow.library.sparse import from_dense as from_dense
from aioflow.library.sparse import sparse_add as add
from aioflow.library.sparse import sparse_concat as concat
from aioflow.library.sparse import sparse_fill_empty_rows as fill_empty_rows
from aioflow.library.sparse import sparse_placeholder as placeholder
from aioflow.library.sparse import sparse_reduce_sum as reduce_sum
from aioflow.library.sparse import sparse_reorder as reorder
from aioflow.library.sparse import sparse_reshape as reshape
from aioflow.library.sparse import sparse_retain as retain
from aioflow.library.sparse import sparse_slice as slice
from aioflow.library.sparse import sparse_softmax as softmax
from aioflow.library.sparse import sparse_tensor_dense_matmul as matmul
from aioflow.library.sparse import sparse_tensor_dense_matmul as sparse_dense_matmul
from aioflow.library.sparse import sparse_tensor_to_dense as to_dense
from aioflow.library.sparse import sparse_transpose as transpose
from aioflow.library.sparse_counts import sparse_bincount as bincount
from aioflow.library.sparse_crosses import sparse_cross as cross
from aioflow.library.sparse_crosses import sparse_cross_hashed as cross_hashed
from aioflow.library.sparse_reduction import sparse_expand_dims as expand_dims
from aioflow.library.sparse_reduction import sparse_eye as eye
from aioflow.library.sparse_reduction import sparse_mask as mask
from aioflow.library.sparse_reduction import sparse_maximum as maximum
from aioflow.library.sparse_reduction import sparse_merge as merge
from aioflow.library.sparse_reduction import sparse_minimum as minimum
from aioflow.library.sparse_reduction import sparse_reduce_max as reduce_max
from aioflow.library.sparse_reduction import sparse_reduce_max_sparse as reduce_max_sparse
from aioflow.library.sparse_reduction import sparse_reduce_sum_sparse as reduce_sum_sparse
from aioflow.library.sparse_reduction import sparse_reset_shape as reset_shape
from aioflow.library.sparse_reduction import sparse_split as split
from aioflow.library.sparse_reduction import sparse_to_indicator as to_indicator

__all__ = ["SparseConditionalAccumulator", "SparseTensor", "add", "bincount", "concat", "cross", "cross_hashed",
    "expand_dims", "eye", "fill_empty_rows", "from_dense", "mask", "matmul", "maximum", "merge", "minimum",
    "placeholder", "reduce_max", "reduce_max_sparse", "reduce_sum", "reduce_sum_sparse", "reorder", "reset_shape",
    "reshape", "retain", "segment_mean", "segment_sqrt_n", "segment_sum", "slice", "softmax", "sparse_dense_matmul",
    "split", "to_dense", "to_indicator", "transpose"]
