"""Convolution along one axis and along three."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.shapes import expand_dims, squeeze
from aioflow.kernels.nn.convolution import attributes, conv2d, conv2d_transpose, convolution
from aioflow.kernels.nn.windows import either

_conv3d, _conv3d_backprop_input, _conv3d_backprop_filter = convolution("conv3d", 3)


# Three axes


def conv3d(
    input: NumberLike,
    filter: NumberLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: NumberLike | None = None,
) -> Tensor:
    """Volumes times filters: at each place the sum over the block there, times the filter, for each of its outputs.

    Args:
        input: volumes [batch, depth, height, width, channels], or channels second with 'NCDHW'.
        filter: numbers [depth, height, width, channels, outputs].
        strides: by how much the filter moves: one number, one for each of depth, height, width, or one per axis.
        padding: "SAME", "VALID", or zeros before and after each axis, as five pairs.
        data_format: "NDHWC" or "NCDHW".
        dilations: the distance between elements of a block, given as `strides` are.
        name: the name of the operation.
        filters: another name for `filter`.

    Examples:
        >>> af.nn.conv3d(af.ones([1, 3, 3, 3, 1]), af.ones([2, 2, 2, 1, 4]), [1, 1, 1, 1, 1], "VALID").shape
        TensorShape([1, 2, 2, 2, 4])
    """
    window = either(filter, filters, "filter, filters")
    return _conv3d(input, window, **attributes(strides, padding, data_format, dilations, 3), name=name)


def conv3d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv3d` for volumes of shape `input_sizes`, from that of its result; arguments as there."""
    attrs = attributes(strides, padding, data_format, dilations, 3)
    return _conv3d_backprop_input(input_sizes, filter, out_backprop, **attrs, name=name)


def conv3d_backprop_filter(
    input: NumberLike,
    filter_sizes: NumberLike,
    out_backprop: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NDHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv3d` for filters of shape `filter_sizes`, from that of its result; arguments as there.

    Examples:
        >>> x, dy = np.ones((1, 3, 3, 3, 1), np.float32), np.ones((1, 2, 2, 2, 1), np.float32)
        >>> af.nn.conv3d_backprop_filter(x, [2, 2, 2, 1, 1], dy, [1, 1, 1, 1, 1], "VALID").shape
        TensorShape([2, 2, 2, 1, 1])
    """
    attrs = attributes(strides, padding, data_format, dilations, 3)
    return _conv3d_backprop_filter(input, filter_sizes, out_backprop, **attrs, name=name)


def conv3d_transpose(
    value: NumberLike | None = None,
    filter: NumberLike | None = None,
    output_shape: NumberLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: NumberLike | None = None,
    filters: NumberLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """The gradient of `conv3d` as an op, from small volumes `value` to large ones of shape `output_shape`.

    `filter` has shape [depth, height, width, channels of the result, channels of `value`].

    Examples:
        >>> af.nn.conv3d_transpose(af.ones([1, 2, 2, 2, 1]), af.ones([2, 2, 2, 1, 1]), [1, 4, 4, 4, 1], 2).shape
        TensorShape([1, 4, 4, 4, 1])
    """
    window = either(filter, filters, "filter, filters")
    small = either(value, input, "value, input")
    attrs = attributes(strides, padding, data_format, dilations, 3)
    return _conv3d_backprop_input(output_shape, window, small, **attrs, name=name or "conv3d_transpose")


# One axis

_FORMATS_1D: Final = {"NWC": "NHWC", "NCW": "NCHW", "NHWC": "NHWC", "NCHW": "NCHW"}


def plane_format(data_format: str | None) -> tuple[str, int]:
    """The format of sequences as images of height 1, and the axis of the height."""
    layout = _FORMATS_1D.get(data_format or "NWC")
    if layout is None:
        raise ValueError(f"data_format is 'NWC' or 'NCW', not {data_format!r}")
    return layout, 1 if layout == "NHWC" else 2


def plane_step(values: Any, what: str, data_format: str | None) -> list[int]:
    """A step along height and width of images of height 1, from one number or one per axis of sequences."""
    given = [values] if isinstance(values, int) else list(values or ())
    width = 2 if plane_format(data_format)[0] == "NCHW" else 1
    if len(given) == 3 and [step for axis, step in enumerate(given) if axis != width] == [1, 1]:
        given = [given[width]]
    if len(given) != 1:
        raise ValueError(f"{what} are one number, or one per axis with 1 for batch and channels, not {values!r}")
    return [1, *given]


@transactional
def conv1d(
    value: NumberLike | None = None,
    filters: NumberLike | None = None,
    stride: int | Sequence[int] | None = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: NumberLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Sequences times filters: at each place the sum over the stretch there, times the filter, for each output.

    Args:
        value: sequences [batch, width, channels], or [batch, channels, width] with 'NCW'.
        filters: numbers [width, channels, outputs].
        stride: by how much the filter moves: one number, or one per axis of `value`.
        padding: "SAME" or "VALID".
        use_cudnn_on_gpu: has no effect.
        data_format: "NWC" or "NCW".
        name: the name of the operation.
        input: another name for `value`.
        dilations: the distance between elements of a stretch, given as `stride` is.

    Examples:
        >>> await session.run(af.nn.conv1d([[[1.0], [2.0], [3.0]]], [[[1.0]], [[-1.0]]], 1, "VALID"))
        array([[[-1.],
                [-1.]]], dtype=float32)
    """
    x = either(value, input, "value, input")
    if stride is None or padding is None:
        raise ValueError("a convolution needs strides and padding")
    layout, axis = plane_format(data_format)
    steps, distances = plane_step(stride, "strides", data_format), _distances(dilations, data_format)
    with get_default_graph().name_scope(name or "conv1d") as scope:
        window = expand_dims(filters, 0)
        y = conv2d(expand_dims(x, axis), window, steps, padding, data_format=layout, dilations=distances)
        return squeeze(y, [axis], name=scope)


@transactional
def conv1d_transpose(
    input: NumberLike,
    filters: NumberLike,
    output_shape: NumberLike,
    strides: int | Sequence[int],
    padding: Any = "SAME",
    data_format: str | None = "NWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv1d` as an op, from short sequences to long ones of shape `output_shape`.

    `filters` has shape [width, channels of the result, channels of `input`].

    Examples:
        >>> af.nn.conv1d_transpose(af.ones([1, 2, 1]), af.ones([2, 1, 1]), [1, 4, 1], 2).shape
        TensorShape([1, 4, 1])
    """
    layout, axis = plane_format(data_format)
    steps, distances = plane_step(strides, "strides", data_format), _distances(dilations, data_format)
    with get_default_graph().name_scope(name or "conv1d_transpose") as scope:
        small, window, whole = expand_dims(input, axis), expand_dims(filters, 0), _with_height(output_shape, axis)
        y = conv2d_transpose(small, window, whole, steps, padding, layout, dilations=distances)
        return squeeze(y, [axis], name=scope)


def _distances(dilations: Any, data_format: str | None) -> list[int]:
    return plane_step(1 if dilations is None else dilations, "dilations", data_format)


def _with_height(shape: Any, axis: int) -> Any:
    if isinstance(shape, Tensor):
        return concat([shape[:axis], [1], shape[axis:]], 0)
    return [*shape[:axis], 1, *shape[axis:]]
