"""Runs of element-wise kernels as one kernel of a GPU: see `devices.gpu_chains`."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioflow.devices.gpu_chains import ChainLink, fusible, make_chain_kernel
from aioflow.kernels.context import Context
from aioflow.plan.passes.flow import Value
from aioflow.program.fuse import Bound, fuse, over_shape
from aioflow.tensors.dtypes import Array, Namespace, TensorShape


def fuse_on_gpu(bound: Sequence[Any], wanted: Iterable[Value], xp: Namespace) -> list[Any]:
    """Return the statements with chains of at least two element-wise nodes over one shape as one kernel.

    Args:
        bound: nodes, sources first.
        wanted: the values needed after them.
        xp: CuPy, or its substitute.
    """
    return fuse(bound, wanted, _joins, functools.partial(_compiled, xp))


def _joins(b: Bound, shape: TensorShape | None) -> bool:
    node = b.node
    dtypes = [spec.dtype for spec in (*node.input_specs, *node.output_specs)]
    return not node.at_home and fusible(node.definition.name, dtypes) and over_shape(b, shape)


def _compiled(
    xp: Namespace, run: Sequence[Bound], inputs: Sequence[Value], results: Sequence[Value]
) -> Callable[..., Any]:
    numbers = {value: number for number, value in enumerate([*inputs, *[Value(b.node, 0) for b in run]])}
    links = [ChainLink(b.node.definition.name, [numbers[value] for value in b.inputs]) for b in run]
    kernel = make_chain_kernel(xp, links, len(inputs), [numbers[value] for value in results])

    def call(ctx: Context, *arrays: Array) -> Any:
        return kernel(*arrays)

    return call
