"""`af.nn.experimental`: dropout whose random numbers follow from a seed, or that a function makes."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.stateless_dropout import general_dropout as general_dropout
from aioflow.library.stateless_dropout import stateless_dropout as stateless_dropout

__all__ = ["general_dropout", "stateless_dropout"]
