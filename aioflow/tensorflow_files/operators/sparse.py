"""Sparse tensors as their parts, and sums of rows by segments, as embeddings of sparse ids use them."""

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Tensor
from aioflow.kernels.sparse.sparse_segments import sparse_segment_mean, sparse_segment_sqrt_n, sparse_segment_sum
from aioflow.tensorflow_files.call import Call
from aioflow.tensorflow_files.registry import Build, operator


@operator("SparseToDense")
def _(call: Call, indices: Tensor, shape: Tensor, values: Tensor, default: Tensor) -> Tensor:
    checks = call.flag("validate_indices", True)
    made: Tensor = REGISTRY["sparse_to_dense"](indices, shape, values, default, checks, name=call.name)
    return made


def _segments(function: Build) -> Build:
    def build(call: Call, rows: Tensor, indices: Tensor, segments: Tensor, count: Tensor | None = None) -> Tensor:
        made: Tensor = function(rows, indices, segments, num_segments=count, name=call.name)
        return made

    return build


operator("SparseSegmentSum", "SparseSegmentSumWithNumSegments")(_segments(sparse_segment_sum))
operator("SparseSegmentMean", "SparseSegmentMeanWithNumSegments")(_segments(sparse_segment_mean))
operator("SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments")(_segments(sparse_segment_sqrt_n))
