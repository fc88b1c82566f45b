"""Bits of integers moved and counted."""

from collections.abc import Callable
from typing import Final

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.families import CPU, GPU, binary
from aioflow.tensors.dtypes import INTEGER, Array, Namespace, Spec, uint8

_WHOLE = "bits do not vary smoothly"

left_shift: Final = binary(
    "left_shift", _WHOLE,
    "The bits of x moved y places up, zeros moving in; 0 where y is x's width or more, or negative (TensorFlow "
    "replaces a y that is too large by the width less 1, and a negative one by 0).",
    INTEGER,
)  # fmt: skip
right_shift: Final = binary(
    "right_shift", _WHOLE,
    "The bits of x moved y places down, zeros moving in, or ones where x is negative; where y is x's width or more, "
    "or negative, nothing else is left (TensorFlow takes a y that is too large for the width less 1, and a negative "
    "one for 0).",
    INTEGER,
)  # fmt: skip


@op
def population_count(x: Spec) -> Spec:
    """How many bits of x are 1, negative numbers as two's complements: a uint8."""
    return Spec(uint8, x.only(INTEGER).shape)


population_count.no_gradient(_WHOLE)


@population_count.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    count, bits = xp.bitwise_count, xp.dtype(f"u{node.input_specs[0].dtype.size}")
    return lambda x, out=None: count(x.view(bits), out=out)
