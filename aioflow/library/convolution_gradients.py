"""Gradients of convolutions whose sizes are those of tensors."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape_of
from aioflow.kernels.nn.convolution import conv2d_backprop_filter, conv2d_backprop_input


@transactional
def conv2d_backprop_filter_v2(
    input: NumberLike,
    filter: NumberLike,
    out_backprop: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` for `filter`, from that of its result. Of the filter only its shape is used.

    Args:
        input: the images.
        filter: a tensor of the shape of the filter.
        out_backprop: the gradient of the result.
        strides: see `conv2d`.
        padding: "SAME", "VALID", or "EXPLICIT".
        use_cudnn_on_gpu: has no effect.
        explicit_paddings: for "EXPLICIT", the zeros before and after each axis, eight numbers.
        data_format: "NHWC" or "NCHW".
        dilations: see `conv2d`.
        name: the name of the operation.

    Examples:
        >>> x, w, dy = af.ones([1, 3, 3, 1]), af.zeros([2, 2, 1, 1]), af.ones([1, 2, 2, 1])
        >>> (await session.run(af.conv2d_backprop_filter_v2(x, w, dy, 1, "VALID")))[:, :, 0, 0]
        array([[4., 4.],
               [4., 4.]], dtype=float32)
    """
    sizes, zeros = shape_of(convert_to_tensor(filter)), _padding(padding, explicit_paddings)
    return conv2d_backprop_filter(
        input, sizes, out_backprop, strides, zeros, data_format=data_format, dilations=dilations, name=name
    )


@transactional
def conv2d_backprop_input_v2(
    input: NumberLike,
    filter: NumberLike,
    out_backprop: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` for `input`, from that of its result. Of the input only its shape is used.

    The arguments are those of `conv2d_backprop_filter_v2`.

    Examples:
        >>> x, w, dy = af.zeros([1, 3, 3, 1]), af.ones([2, 2, 1, 1]), af.ones([1, 2, 2, 1])
        >>> (await session.run(af.conv2d_backprop_input_v2(x, w, dy, 1, "VALID")))[0, :, :, 0]
        array([[1., 2., 1.],
               [2., 4., 2.],
               [1., 2., 1.]], dtype=float32)
    """
    sizes, zeros = shape_of(convert_to_tensor(input)), _padding(padding, explicit_paddings)
    return conv2d_backprop_input(
        sizes, filter, out_backprop, strides, zeros, data_format=data_format, dilations=dilations, name=name
    )


def _padding(padding: Any, explicit: Sequence[int]) -> Any:
    """The padding as `conv2d` takes it: a name, or zeros before and after each axis in pairs."""
    if (padding == "EXPLICIT") != bool(len(explicit)):
        raise ValueError(f"explicit_paddings belong to padding 'EXPLICIT' alone, not {padding!r} with {explicit!r}")
    if padding != "EXPLICIT":
        return padding
    if len(explicit) != 8:
        raise ValueError(f"explicit_paddings are two numbers for each of four axes, not {len(explicit)} numbers")
    return [list(explicit[axis : axis + 2]) for axis in range(0, 8, 2)]
