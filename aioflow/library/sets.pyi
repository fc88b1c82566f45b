"""`af.sets`: operations on rows of tensors as sets, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.kernels.sparse.sets import set_difference as difference
from aioflow.kernels.sparse.sets import set_difference as set_difference
from aioflow.kernels.sparse.sets import set_intersection as intersection
from aioflow.kernels.sparse.sets import set_intersection as set_intersection
from aioflow.kernels.sparse.sets import set_size as set_size
from aioflow.kernels.sparse.sets import set_size as size
from aioflow.kernels.sparse.sets import set_union as set_union
from aioflow.kernels.sparse.sets import set_union as union

__all__ = ["difference", "intersection", "set_difference", "set_intersection", "set_size", "set_union", "size", "union"]
