"""`af.queue`: the queues, under the names of TensorFlow's `queue`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.queues import FIFOQueue as FIFOQueue
from aioflow.library.queues import PaddingFIFOQueue as PaddingFIFOQueue
from aioflow.library.queues import PriorityQueue as PriorityQueue
from aioflow.library.queues import QueueBase as QueueBase
from aioflow.library.queues import RandomShuffleQueue as RandomShuffleQueue

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue"]
