"""`af.manip`: rearrangements of arrays, under the names of TensorFlow's `manip`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import reshape as reshape
from aioflow import reverse as reverse
from aioflow import roll as roll
from aioflow import scatter_nd as scatter_nd
from aioflow import tile as tile
from aioflow.kernels.array.space_to_batch import batch_to_space_nd as batch_to_space_nd
from aioflow.kernels.array.space_to_batch import space_to_batch_nd as space_to_batch_nd
from aioflow.library.arrays import gather_nd as gather_nd

__all__ = ["batch_to_space_nd", "gather_nd", "reshape", "reverse", "roll", "scatter_nd", "space_to_batch_nd", "tile"]
