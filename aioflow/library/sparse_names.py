"""`af.sparse`: operations on sparse tensors under TensorFlow's short names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.graph.sparse_tensor": "SparseTensor",
    "aioflow.kernels.sparse.sparse_segments": (
        "segment_mean=sparse_segment_mean segment_sqrt_n=sparse_segment_sqrt_n segment_sum=sparse_segment_sum"
    ),
    "aioflow.library.accumulators": "SparseConditionalAccumulator",
    "aioflow.library.sparse": (
        "add=sparse_add concat=sparse_concat fill_empty_rows=sparse_fill_empty_rows from_dense "
        "matmul=sparse_tensor_dense_matmul placeholder=sparse_placeholder reduce_sum=sparse_reduce_sum "
        "reorder=sparse_reorder reshape=sparse_reshape retain=sparse_retain slice=sparse_slice softmax=sparse_softmax "
        "sparse_dense_matmul=sparse_tensor_dense_matmul to_dense=sparse_tensor_to_dense transpose=sparse_transpose"
    ),
    "aioflow.library.sparse_counts": "bincount=sparse_bincount",
    "aioflow.library.sparse_crosses": "cross=sparse_cross cross_hashed=sparse_cross_hashed",
    "aioflow.library.sparse_reduction": (
        "expand_dims=sparse_expand_dims eye=sparse_eye mask=sparse_mask maximum=sparse_maximum merge=sparse_merge "
        "minimum=sparse_minimum reduce_max=sparse_reduce_max reduce_max_sparse=sparse_reduce_max_sparse "
        "reduce_sum_sparse=sparse_reduce_sum_sparse reset_shape=sparse_reset_shape split=sparse_split "
        "to_indicator=sparse_to_indicator"
    ),
})  # fmt: skip
