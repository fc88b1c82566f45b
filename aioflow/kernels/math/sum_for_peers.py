"""Sums that other tasks get: an all-reduce is made of them.

A large sum is computed in memory that other processes of this host can map, so that it is sent without a copy. It is
computed block by block: the processor's cache keeps a block until its last addition.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU, GPU, NARROW, elements
from aioflow.resources.buffers import BUFFERS
from aioflow.resources.lendable import LENDABLE
from aioflow.tensors.dtypes import COMPLEX, FLOAT, NUMERIC, Array, Namespace, Spec, float32

_BLOCK: Final = 1 << 16
"""Elements."""


@op
def sum_for_peers(inputs: Sequence[T], divisor: int = 1, lend: bool = True) -> Spec:
    """The sum of all inputs in their order, divided by `divisor`; they have one shape.

    `lend` says whether peers get the result. Then it is read-only: a peer may read it for longer than this process.

    Floats of two bytes and less are added and divided as float32, and rounded once, if there is a divisor.
    """
    if not inputs:
        raise ValueError("at least one tensor is needed")
    if divisor < 1:
        raise ValueError(f"divisor must be at least 1, not {divisor}")
    first, *rest = inputs
    first.only(NUMERIC if divisor == 1 else FLOAT | COMPLEX).same_dtype(*rest)
    shape = first.shape
    for spec in rest:
        shape = shape.merge_with(spec.shape)
    return Spec(first.dtype, shape)


@sum_for_peers.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, ...]:
    divisor = op.attrs["divisor"]
    each = dy if divisor == 1 else sum_for_peers([dy], divisor, lend=False)
    return (each,) * len(op.inputs)


@sum_for_peers.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return len(inputs) * elements(outputs[0])


@sum_for_peers.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Sequence[Array]], Array]:
    divisor, lend, dtype = node.attrs["divisor"], node.attrs["lend"], node.output_specs[0].dtype
    between = float32.np if divisor > 1 and dtype in NARROW else dtype.np

    def total(values: Sequence[Array]) -> Array:
        shape = values[0].shape
        if any(value.shape != shape for value in values):
            raise errors.InvalidArgumentError(f"the shapes differ: {', '.join(str(list(v.shape)) for v in values)}")
        if xp is not np or not shape:
            return _summed(values, divisor, between).astype(dtype.np, copy=False)
        result = LENDABLE.empty(shape, dtype.np) if lend else BUFFERS.empty(shape, dtype.np)
        _sum_blocks([value.reshape(-1) for value in values], divisor, between, result.reshape(-1))
        result.flags.writeable = not lend
        return result

    return total


def _summed(values: Sequence[Array], divisor: int, between: "np.dtype[Any]") -> Array:
    total = values[0].astype(between)
    for value in values[1:]:
        total += value
    return total if divisor == 1 else total / total.dtype.type(divisor)


def _sum_blocks(values: Sequence[Array], divisor: int, between: "np.dtype[Any]", result: Array) -> None:
    scratch = None if result.dtype == between else np.empty(min(len(result), _BLOCK), between)
    for start in range(0, len(result), _BLOCK):
        blocks = [value[start : start + _BLOCK] for value in values]
        room = result[start : start + _BLOCK]
        _sum_block(blocks, divisor, room if scratch is None else scratch[: len(room)])
        if scratch is not None:
            room[...] = scratch[: len(room)]


def _sum_block(blocks: Sequence[Array], divisor: int, out: Array) -> None:
    if len(blocks) == 1:
        out[...] = blocks[0]
    else:
        np.add(blocks[0], blocks[1], out=out, dtype=out.dtype)
    for block in blocks[2:]:
        np.add(out, block, out=out, dtype=out.dtype)
    if divisor > 1:
        np.divide(out, out.dtype.type(divisor), out=out)
