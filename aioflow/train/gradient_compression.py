"""Gradients sent to parameter servers in a lossy form [P15 section 5.5]."""

from collections.abc import Iterable
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.control.lossy import LOSSY, lossy, lossy_keep
from aioflow.tensors.codecs import Codec

SMALLEST: Final = 64
"""The least number of elements for which an encoding pays."""


@transactional
def compress_gradients(
    grads_and_vars: Iterable[tuple[Any, Any]], codec: str, smallest: int = SMALLEST
) -> list[tuple[Any, Any]]:
    """Return the same pairs, whose gradients are sent between devices in a lossy form.

    Use it between `compute_gradients` and `apply_gradients`. With `top_k` each worker keeps the omitted elements of a
    gradient and adds them to the next step's gradient, so that in the long run nothing is lost [Lin and others 2018,
    section 3]; it keeps nothing of a step that fails or drops the gradient. A gradient that stays on its device is
    exact.

    Args:
        grads_and_vars: (gradient, variable) pairs; gradients may be None, or IndexedSlices, whose rows are sent so.
        codec: a lossy form, see `af.lossy`.
        smallest: gradients known to have fewer elements are sent exactly, and so are those of other dtypes than float32
            and float64. Rows are never sent by `top_k`, since different rows are sent in each step.

    Raises:
        ValueError: there is no such codec.
    """
    parsed = Codec.parse(codec)
    return [(_mark_lossy(gradient, parsed, smallest), variable) for gradient, variable in grads_and_vars]


def kept_if(accepted: Tensor, gradients: Iterable[Any]) -> list[Operation]:
    """Return operations that make `top_k` forget what it sent, on each gradient's device, unless it was accepted."""
    found = []
    for gradient in gradients:
        marked = isinstance(gradient, Tensor) and gradient.op.type == "lossy"
        if marked and _keeps(Codec.parse(gradient.op.attrs["codec"])):
            with gradient.graph.colocate_with(gradient.op, ignore_existing=True):
                found.append(lossy_keep(accepted, name="keep"))
    return found


def _keeps(codec: Codec) -> bool:
    return codec.name == "top_k"


def _mark_lossy(gradient: Any, codec: Codec, smallest: int) -> Any:
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    if not isinstance(values, Tensor) or values.dtype not in LOSSY:
        return gradient
    known = values.shape.num_elements()
    rows = _keeps(codec) and isinstance(gradient, IndexedSlices)
    return gradient if rows or (known is not None and known < smallest) else lossy(gradient, str(codec))
