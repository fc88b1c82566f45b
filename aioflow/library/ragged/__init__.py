"""`af.ragged`: tensors whose rows differ in length, under TensorFlow's names.

Input: values, and the places of rows among them. Output: RaggedTensors, and how the functions of tensors that take
them are composed of others. This folder uses `kernels` and the functions of `library` around it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.ragged.constants": "constant constant_value placeholder",
    "aioflow.library.ragged.crosses": "cross cross_hashed",
    "aioflow.library.ragged.elementwise": "map_flat_values",
    "aioflow.library.ragged.joining": "stack",
    "aioflow.library.ragged.partitions": "row_splits_to_segment_ids segment_ids_to_row_splits",
    "aioflow.library.ragged.ranges": "range",
    "aioflow.library.ragged.selection": "boolean_mask stack_dynamic_partitions",
    "aioflow.library.ragged.tensor_value": "RaggedTensorValue",
})  # fmt: skip
