"""Casts from and to the narrow dtypes, which store numbers that nothing computes with."""

from collections.abc import Callable

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU
from aioflow.tensors.dtypes import BOOL, NARROW, NUMERIC, Array, DType, Namespace, Spec

CASTABLE = NUMERIC | BOOL | NARROW


@op
def cast_narrow(x: Spec, dtype: DType) -> Spec:
    """`x` in another dtype; one of the two is narrow. Integers keep their lowest bits, floats are rounded."""
    for each in (x, Spec(dtype)):
        each.only(CASTABLE)
    return x.with_dtype(dtype)


@cast_narrow.gradient
def _(op: Operation, dy: Tensor) -> Tensor | None:
    x, y = op.inputs[0], op.outputs[0]
    both = x.dtype.is_differentiable and y.dtype.is_differentiable
    return cast_narrow(dy, x.dtype) if both else None


@cast_narrow.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    dtype = node.output_specs[0].dtype.np
    if node.input_specs[0].dtype.is_complex:
        return lambda x: x.real.astype(dtype)
    return lambda x: x.astype(dtype)
