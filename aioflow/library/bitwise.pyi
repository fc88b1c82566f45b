"""`af.bitwise`: functions of the bits of integers, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import bitwise_and as bitwise_and
from aioflow import bitwise_or as bitwise_or
from aioflow import bitwise_xor as bitwise_xor
from aioflow import invert as invert
from aioflow import left_shift as left_shift
from aioflow import right_shift as right_shift

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"]
