"""Compares the tensors of a checkpoint with those that a graph needs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aioflow.checkpoint.reading import Checkpoint
from aioflow.tensors.dtypes import DType, ShapeLike, as_shape


def differences(checkpoint: Checkpoint, wanted: Mapping[str, tuple[DType, ShapeLike]]) -> list[str]:
    """Return a sentence for each tensor that is missing, has another dtype or shape, or is not wanted."""
    return [*_differences(checkpoint.tensors, wanted)]


def _differences(there: Mapping[str, Any], wanted: Mapping[str, tuple[DType, ShapeLike]]) -> Iterator[str]:
    for name, (dtype, shape) in sorted(wanted.items()):
        found = there.get(name)
        if found is None:
            yield f"{name!r} is missing"
        elif found.dtype is not dtype:
            yield f"{name!r} is {found.dtype.name} in the checkpoint, {dtype.name} is wanted"
        elif not as_shape(shape).is_compatible_with(found.shape):
            yield f"{name!r} has the shape {_told(found.shape)} in the checkpoint, {_told(shape)} is wanted"
    for name in sorted(there.keys() - wanted.keys()):
        yield f"{name!r} is in the checkpoint, and nothing wants it"


def _told(shape: ShapeLike) -> str:
    sizes: Sequence[int | None] | None = as_shape(shape).sizes
    return "unknown" if sizes is None else str(["?" if size is None else size for size in sizes]).replace("'", "")
