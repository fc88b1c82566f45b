"""Gradients sent to parameter servers in a lossy form [P15 section 5.5]."""

from collections.abc import Iterable
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.control.lossy import LOSSY, lossy, lossy_keep
from aioflow.tensors.codecs import Codec

SMALLEST: Final = 64
"""So many elements are worth an encoding."""


@transactional
def compress_gradients(
    grads_and_vars: Iterable[tuple[Any, Any]], codec: str, smallest: int = SMALLEST
) -> list[tuple[Any, Any]]:
    """The same pairs, of which each gradient goes in a lossy form wherever it is sent.

    It belongs between `compute_gradients` and `apply_gradients`. With `top_k` each worker keeps what it left out of a
    gradient, and adds it to that of the next step, so that in the long run nothing is lost [Lin and others 2018,
    section 3]; of a step that fails, or drops the gradient, it keeps nothing. What stays on its device loses nothing.

    Args:
        grads_and_vars: (gradient, variable) pairs; gradients may be None, and IndexedSlices, whose rows are sent so.
        codec: a lossy form, as of `af.lossy`.
        smallest: gradients known to have fewer elements are sent as they are, as are those of other dtypes than float32
            and float64. Rows are never sent by `top_k`: which they are changes from step to step.

    Raises:
        ValueError: there is no such codec.
    """
    parsed = Codec.parse(codec)
    return [(_marked(gradient, parsed, smallest), variable) for gradient, variable in grads_and_vars]


def kept_if(accepted: Tensor, gradients: Iterable[Any]) -> list[Operation]:
    """What makes `top_k` forget, where each of the gradients is, that it has sent it, unless it was accepted."""
    found = []
    for gradient in gradients:
        marked = isinstance(gradient, Tensor) and gradient.op.type == "lossy"
        if marked and _keeps(Codec.parse(gradient.op.attrs["codec"])):
            with gradient.graph.colocate_with(gradient.op, ignore_existing=True):
                found.append(lossy_keep(accepted, name="keep"))
    return found


def _keeps(codec: Codec) -> bool:
    return codec.name == "top_k"


def _marked(gradient: Any, codec: Codec, smallest: int) -> Any:
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    if not isinstance(values, Tensor) or values.dtype not in LOSSY:
        return gradient
    known = values.shape.num_elements()
    rows = _keeps(codec) and isinstance(gradient, IndexedSlices)
    return gradient if rows or (known is not None and known < smallest) else lossy(gradient, str(codec))
