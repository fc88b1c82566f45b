"""`af.lookup.experimental`: lookup tables that steps change."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.mutable_tables import DenseHashTable as DenseHashTable
from aioflow.library.mutable_tables import MutableHashTable as MutableHashTable

__all__ = ["DenseHashTable", "MutableHashTable"]
