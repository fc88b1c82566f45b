"""`af.weights_broadcast`: checks of weights against the values that they weigh."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.weights import assert_broadcastable as assert_broadcastable
from aioflow.library.weights import broadcast_weights as broadcast_weights

__all__ = ["assert_broadcastable", "broadcast_weights"]
