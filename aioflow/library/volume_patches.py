"""The patches of volumes as the channels of new ones."""

import itertools
from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.arithmetic import maximum
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import NUMERIC, Spec


@transactional
def extract_volume_patches(
    input: NumberLike, ksizes: Sequence[int], strides: Sequence[int], padding: str, name: str | None = None
) -> Tensor:
    """The elements of each patch as the channels of one: [batch, places, places, places, elements].

    Args:
        input: volumes [batch, planes, rows, columns, channels].
        ksizes: the size of a patch on each axis, 1 for the first and the last: [1, planes, rows, columns, 1].
        strides: by how much the patches lie apart, given as `ksizes` is.
        padding: "SAME", which pads with zeros so that each stride has a patch, or "VALID".
        name: the name of the operation.

    Raises:
        ValueError: `ksizes` or `strides` have another form, or a patch is larger than the volume.

    Examples:
        >>> volume = np.arange(8.0).reshape(1, 2, 2, 2, 1)
        >>> await session.run(af.extract_volume_patches(volume, [1, 2, 1, 2, 1], [1, 1, 1, 1, 1], "VALID")[0, 0, :, 0])
        array([[0., 1., 4., 5.],
               [2., 3., 6., 7.]])
    """
    with name_scope(name, "extract_volume_patches", [input]) as scope:
        volumes = convert_to_tensor(input)
        Spec(volumes.dtype).only(NUMERIC)
        volumes.shape.assert_has_rank(5)
        window, steps = _spatial("ksizes", ksizes), _spatial("strides", strides)
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"padding is 'SAME' or 'VALID', not {padding!r}")
        if padding == "SAME":
            volumes = _padded(volumes, window, steps)
        for size, given in zip(volumes.shape.as_list()[1:4], window, strict=True):
            if size is not None and size < given:
                raise ValueError(f"patches of {window} are larger than volumes of shape {volumes.shape}")
        places = itertools.product(*[range(size) for size in window])
        taken = [volumes[(slice(None), *_seen(place, window, steps))] for place in places]
        return concat(taken, -1, name=scope)


def _spatial(what: str, given: Any) -> list[int]:
    sizes = [int(size) for size in given]
    if len(sizes) != 5 or sizes[0] != 1 or sizes[4] != 1 or min(sizes) < 1:
        raise ValueError(f"{what} are [1, planes, rows, columns, 1], each at least 1, not {sizes}")
    return sizes[1:4]


def _seen(place: Sequence[int], window: Sequence[int], steps: Sequence[int]) -> list[slice]:
    """What the element at that place of all patches sees."""
    last = [first - size + 1 or None for first, size in zip(place, window, strict=True)]
    return [slice(*each) for each in zip(place, last, steps, strict=True)]


def _padded(volumes: Tensor, window: Sequence[int], steps: Sequence[int]) -> Tensor:
    """The volumes with zeros around, so that each stride has a patch; the odd one comes last.

    Where patches lie so far apart that a part of the volume is in none, half of that part is left out at the begin.
    """
    known, sizes = volumes.shape.as_list()[1:4], shape(volumes)
    begins: list[Any] = [slice(None)]
    amounts: list[list[Any]] = [[0, 0]]
    for axis, (size, given, step) in enumerate(zip(known, window, steps, strict=True), 1):
        length = sizes[axis] if size is None else size
        missing = (-(-length // step) - 1) * step + given - length
        total = _positive(missing)
        begins.append(slice(_positive(-missing) // 2, None))
        amounts.append([total // 2, total - total // 2])
    return pad(volumes[tuple(begins)], [*amounts, [0, 0]])


def _positive(number: Any) -> Any:
    return max(number, 0) if isinstance(number, int) else maximum(number, 0)
