"""Convolutions of images and volumes, with any number of batch axes."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.nn.convolution import conv2d
from aioflow.kernels.nn.convolution_nd import conv3d
from aioflow.library.control import name_scope

_LAYOUTS = {"CHANNELS_LAST": ("NHWC", "NDHWC"), "CHANNELS_FIRST": ("NCHW", "NCDHW")}


@transactional
def conv(
    input: NumberLike,
    filter: NumberLike,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "CHANNELS_LAST",
    dilations: Sequence[int] = (),
    batch_dims: int = 1,
    groups: int = 1,
    name: str | None = None,
) -> Tensor:
    """The convolution of images or volumes, of `conv2d` or `conv3d` by the rank of the filter.

    Args:
        input: batch axes, then two or three spatial axes, then channels; channels go first with "CHANNELS_FIRST".
        filter: [*window, channels / groups, outputs].
        strides: by how much the filter moves on each axis: 1 for batch and channels.
        padding: "SAME", "VALID" or "EXPLICIT".
        explicit_paddings: with "EXPLICIT", zeros before and after each axis.
        data_format: "CHANNELS_LAST" or "CHANNELS_FIRST".
        dilations: the distance between elements of a patch on each axis; 1 by default.
        batch_dims: the number of batch axes.
        groups: into how many parts channels and outputs are divided, each convolved on its own.
        name: the name of the operation.

    Raises:
        ValueError: the ranks, sizes or options do not fit one another.

    Examples:
        >>> made = af.conv(af.ones([2, 5, 3, 3, 1]), af.ones([2, 2, 1, 1]), [1, 1, 1, 1], "VALID", batch_dims=2)
        >>> await session.run(made[0, 0, :, :, 0])
        array([[4., 4.],
               [4., 4.]], dtype=float32)
    """
    with name_scope(name, "conv", [input, filter]) as scope:
        values, window = convert_to_tensor(input), convert_to_tensor(filter)
        axes = _axes(window, data_format, groups)
        rank = values.shape.ndims
        if rank is None or batch_dims < 1 or rank != batch_dims + axes + 1:
            raise ValueError(
                f"input has {batch_dims} batch axes, {axes} spatial ones and channels, not the rank {rank}"
            )
        options = {
            "strides": list(strides),
            "padding": _padding(padding, explicit_paddings, axes),
            "data_format": _LAYOUTS[data_format][axes - 2],
            "dilations": list(dilations) or [1] * (axes + 2),
        }
        flat = values if batch_dims == 1 else reshape(values, concat([[-1], shape(values)[batch_dims:]], 0))
        if batch_dims > 1:
            flat.set_shape([None, *values.shape.as_list()[batch_dims:]])
        made = _grouped(flat, window, groups, 1 if data_format == "CHANNELS_FIRST" else axes + 1, options, scope)
        if batch_dims == 1:
            return made
        whole = reshape(made, concat([shape(values)[:batch_dims], shape(made)[1:]], 0))
        whole.set_shape([*values.shape.as_list()[:batch_dims], *made.shape.as_list()[1:]])
        return whole


def _axes(window: Tensor, data_format: str, groups: int) -> int:
    """How many spatial axes the filter has: 2 or 3."""
    if data_format not in _LAYOUTS:
        raise ValueError(f"data_format is {' or '.join(_LAYOUTS)}, not {data_format!r}")
    if window.shape.ndims not in (4, 5):
        raise ValueError(f"a filter has rank 4 or 5, its shape is {window.shape}")
    if groups < 1:
        raise ValueError(f"groups must be at least 1, not {groups}")
    return int(window.shape.ndims) - 2


def _padding(padding: str, explicit: Sequence[int], axes: int) -> Any:
    """The padding as `conv2d` takes it."""
    if padding in ("SAME", "VALID"):
        if len(explicit):
            raise ValueError(f"explicit_paddings are for the padding 'EXPLICIT', not for {padding!r}")
        return padding
    if padding != "EXPLICIT" or len(explicit) != 2 * (axes + 2):
        raise ValueError(
            f"padding is 'SAME', 'VALID', or 'EXPLICIT' with {2 * (axes + 2)} explicit_paddings, not {padding!r} "
            f"with {len(explicit)}"
        )
    return [list(pair) for pair in zip(explicit[0::2], explicit[1::2], strict=True)]


def _grouped(flat: Tensor, window: Tensor, groups: int, axis: int, options: dict[str, Any], scope: str) -> Tensor:
    """The convolution of each group of channels with its part of the filters, side by side."""
    convolve = conv2d if window.shape.ndims == 4 else conv3d
    if groups == 1:
        return convolve(flat, window, **options, name=scope)
    pairs = zip(split(flat, groups, axis), split(window, groups, -1), strict=True)
    return concat([convolve(part, filters, **options) for part, filters in pairs], axis, name=scope)
