"""`af.linalg.experimental`: linear equations solved step by step."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.linear_operators.conjugate_gradient import conjugate_gradient as conjugate_gradient

__all__ = ["conjugate_gradient"]
