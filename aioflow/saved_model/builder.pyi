"""`af.saved_model.builder`: the class that saves a model."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.saved_model.saved_model_builder import SavedModelBuilder as SavedModelBuilder

__all__ = ["SavedModelBuilder"]
