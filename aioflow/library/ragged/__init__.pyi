"""`af.ragged`: tensors whose rows differ in length, under TensorFlow's names.

Input: values, and the places of rows among them. Output: RaggedTensors, and how the functions of tensors that take
them are composed of others. This folder uses `kernels` and the functions of `library` around it.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.ragged.constants import constant as constant
from aioflow.library.ragged.constants import constant_value as constant_value
from aioflow.library.ragged.constants import placeholder as placeholder
from aioflow.library.ragged.crosses import cross as cross
from aioflow.library.ragged.crosses import cross_hashed as cross_hashed
from aioflow.library.ragged.elementwise import map_flat_values as map_flat_values
from aioflow.library.ragged.joining import stack as stack
from aioflow.library.ragged.partitions import row_splits_to_segment_ids as row_splits_to_segment_ids
from aioflow.library.ragged.partitions import segment_ids_to_row_splits as segment_ids_to_row_splits
from aioflow.library.ragged.ranges import range as range
from aioflow.library.ragged.selection import boolean_mask as boolean_mask
from aioflow.library.ragged.selection import stack_dynamic_partitions as stack_dynamic_partitions
from aioflow.library.ragged.tensor_value import RaggedTensorValue as RaggedTensorValue

__all__ = ["RaggedTensorValue", "boolean_mask", "constant", "constant_value", "cross", "cross_hashed",
    "map_flat_values", "placeholder", "range", "row_splits_to_segment_ids", "segment_ids_to_row_splits", "stack",
    "stack_dynamic_partitions"]
