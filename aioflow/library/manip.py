"""`af.manip`: rearrangements of arrays, under the names of TensorFlow's `manip`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.array.arrays": "tile",
    "aioflow.kernels.array.gather": "scatter_nd",
    "aioflow.kernels.array.sequence": "roll",
    "aioflow.kernels.array.shapes": "reshape",
    "aioflow.kernels.array.space_to_batch": "batch_to_space_nd space_to_batch_nd",
    "aioflow.library.arrays": "gather_nd reverse=reverse_v2",
})  # fmt: skip
