"""Masks: booleans [batch, steps] that say which steps of sequences count.

`Embedding(mask_zero=True)` and `Masking` give their outputs a mask. Layers that support masking use it, or pass it on;
others lose it. The losses and metrics of `fit` leave out elements that the mask of an output leaves out.
"""

from typing import Any, Final

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.shapes import expand_dims
from aioflow.tensors import nest

MASKED: Final = -1e9
"""A score in place of a masked one: after a softmax its weight is 0."""
_MASKS: Final = "__layer_masks"
"""The collection of a graph that holds the masks of its tensors."""


def mask_of(tensor: Tensor) -> Tensor | None:
    """The mask of a tensor; None if it has none."""
    return _masks(tensor).get((tensor.op, tensor.index))


def masks_of(tensors: Any) -> Any:
    """The masks of a structure of tensors, in that structure, None where there is none; None if nothing has a mask."""
    found = [mask_of(tensor) for tensor in nest.flatten(tensors)]
    if all(mask is None for mask in found):
        return None
    return nest.pack_sequence_as(tensors, found)


def give_masks(outputs: Any, masks: Any) -> None:
    """Give outputs their masks, in order. An output that has one keeps it."""
    for tensor, mask in zip(nest.flatten(outputs), _flat(masks), strict=False):
        if mask is not None:
            _masks(tensor).setdefault((tensor.op, tensor.index), mask)


def with_axes(mask: Tensor, tensor: Tensor) -> Tensor:
    """A mask with further axes of size 1 at the end, as many as the tensor has."""
    for _ in range((tensor.shape.ndims or 0) - (mask.shape.ndims or 0)):
        mask = expand_dims(mask, -1)
    return mask


def _flat(masks: Any) -> list[Tensor | None]:
    return [masks] if masks is None or isinstance(masks, Tensor) else list(nest.flatten(masks))


def _masks(tensor: Tensor) -> dict[tuple[Operation, int], Tensor]:
    kept = tensor.graph.root.get_collection_ref(_MASKS)
    if not kept:
        kept.append({})
    masks: dict[tuple[Operation, int], Tensor] = kept[0]
    return masks
