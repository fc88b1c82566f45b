"""Results that a task sends to other tasks: kernels compute large ones in memory that processes of this host share.

Such a value is sent without a copy. Where there is no such memory, the kernel chooses other memory itself.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from aioflow.graph.kernel import Kernel
from aioflow.plan.passes.compress import same_task
from aioflow.plan.passes.flow import Node, Value
from aioflow.resources.lendable import LENDABLE, MOVED
from aioflow.tensors.dtypes import Array


def sent_elsewhere(nodes: Iterable[Node]) -> frozenset[Value]:
    """The values that these nodes, and those in their branches and loops, send to other tasks."""
    sends = [node for each in nodes for node in each.everything() if node.definition.name == "send"]
    return frozenset([node.inputs[0] for node in sends if not same_task(node.attrs["source"], node.attrs["target"])])


def can_lend(node: Node, kernel: Kernel) -> bool:
    """Whether the kernel can compute its only result in given memory, and the result is surely large."""
    if not kernel.out or node.definition.updates or len(node.output_specs) != 1:
        return False
    return (node.output_specs[0].bytes or 0) >= MOVED


def lending(call: Callable[..., Array], node: Node) -> Callable[..., Array]:
    """The kernel, which computes its result in memory for peers unless it is given an array for it.

    The result is read-only then: a peer may read it for longer than this process. Where the order of an input in memory
    could decide that of the result, the kernel chooses the memory.
    """
    spec = node.output_specs[0]
    shape: Any = spec.sizes
    dtype = spec.dtype.np

    def kernel(*inputs: Any, out: Array | None = None) -> Array:
        room = LENDABLE.take(shape, dtype) if out is None and _are_in_order(inputs) else None
        if room is None:
            return call(*inputs, out=out)
        result = call(*inputs, out=room)
        result.flags.writeable = False
        return result

    return kernel


def _are_in_order(inputs: Iterable[Any]) -> bool:
    return all(not isinstance(each, np.ndarray) or each.flags.c_contiguous for each in inputs)
