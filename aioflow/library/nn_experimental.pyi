"""`af.nn.experimental`: dropout whose random numbers follow from a seed."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.stateless_dropout import stateless_dropout as stateless_dropout

__all__ = ["stateless_dropout"]
