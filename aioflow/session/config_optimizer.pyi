"""`af.config.optimizer`: what plans do to graphs, in sessions without a Config."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.session.default_config import get_experimental_options as get_experimental_options
from aioflow.session.default_config import get_jit as get_jit
from aioflow.session.default_config import set_experimental_options as set_experimental_options
from aioflow.session.default_config import set_jit as set_jit

__all__ = ["get_experimental_options", "get_jit", "set_experimental_options", "set_jit"]
