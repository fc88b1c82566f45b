"""`af.train.experimental`: loss scales, which keep small gradients of float16 from becoming 0."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.train.loss_scale_optimizer import MixedPrecisionLossScaleOptimizer as MixedPrecisionLossScaleOptimizer
from aioflow.train.loss_scales import DynamicLossScale as DynamicLossScale
from aioflow.train.loss_scales import FixedLossScale as FixedLossScale
from aioflow.train.loss_scales import LossScale as LossScale

__all__ = ["DynamicLossScale", "FixedLossScale", "LossScale", "MixedPrecisionLossScaleOptimizer"]
