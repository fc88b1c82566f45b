"""`af.saved_model.utils`: descriptions of tensors."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.saved_model.tensor_info import build_tensor_info as build_tensor_info
from aioflow.saved_model.tensor_info import get_tensor_from_tensor_info as get_tensor_from_tensor_info

__all__ = ["build_tensor_info", "get_tensor_from_tensor_info"]
