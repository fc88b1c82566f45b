"""`af.config.threading`: the threads of sessions without a Config."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.session.default_config import get_inter_op_parallelism_threads as get_inter_op_parallelism_threads
from aioflow.session.default_config import get_intra_op_parallelism_threads as get_intra_op_parallelism_threads
from aioflow.session.default_config import set_inter_op_parallelism_threads as set_inter_op_parallelism_threads
from aioflow.session.default_config import set_intra_op_parallelism_threads as set_intra_op_parallelism_threads

__all__ = ["get_inter_op_parallelism_threads", "get_intra_op_parallelism_threads", "set_inter_op_parallelism_threads",
    "set_intra_op_parallelism_threads"]
