"""Convolution of images, and its two gradients: each of the three is differentiated by the other two.

The patches that a filter sees become the rows of a matrix, and a matrix product does the work, a few megabytes of
patches at a time: more would leave the cache, and at 3x3 all of them are nine times the images. Channels last, NHWC, is
how images lie in memory; NCHW is transposed on the way in and out. All is written for any number of spatial axes. Plans
fuse `conv2d` and `bias_add` to one op, which needs one pass over the images.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.shapes import shape_of
from aioflow.kernels.families import CPU, GPU, elements
from aioflow.kernels.nn import onednn_convolution
from aioflow.kernels.nn.activation import Function, bias_add, bias_add_grad, wide
from aioflow.kernels.nn.windows import FORMATS, Slide, Slides, Sliding, either, images_of, per_axis, taps
from aioflow.tensors.dtypes import FLOAT, Array, Namespace, Sizes, Spec, int32

BLOCK: Final = 4 << 20
"""Bytes of patches that a CPU multiplies at a time."""
GPU_BLOCK: Final = 256 << 20
"""Those that a GPU does, for which a launch takes as long as many bytes."""


# Ops


def match(what: str, a: int | None, b: int | None) -> None:
    """ValueError if both sizes are known and differ."""
    if None not in (a, b) and a != b:
        raise ValueError(f"{what}: {a} and {b} differ")


def convolved_sizes(x: Sizes, window: Sizes, sliding: Sliding) -> Sizes:
    """Batch, spatial sizes and channels of the convolution of such images by such filters."""
    match("channels of the images and of the filter", x[-1], window[-2])
    return (x[0], *sliding.places(x[1:-1], window[:-2]), window[-1])


def check_backprop(whole: Sizes, out: Sizes) -> None:
    """ValueError if a gradient does not have the sizes of the convolution."""
    axes = {2: ("height", "width"), 3: ("depth", "height", "width")}[len(out) - 2]
    for what, size, given in zip(("batch", *axes, "channels"), whole, out, strict=True):
        match(f"{what} of the convolution and of out_backprop", size, given)


class Convolution(NamedTuple):
    """The three ops of convolution along a number of axes."""

    forward: Op[Tensor]
    backprop_input: Op[Tensor]
    backprop_filter: Op[Tensor]

    def gradients(self, x: Tensor, window: Tensor, dy: Tensor, **attrs: Any) -> tuple[Tensor, Tensor]:
        """For the images and for the filter, from that of the result."""
        return (
            self.backprop_input(shape_of(x), window, dy, **attrs),
            self.backprop_filter(x, shape_of(window), dy, **attrs),
        )


def convolution(name: str, axes: int) -> Convolution:
    """Declare the ops of convolution along that many axes, with their gradients and kernels."""
    ops = _declared(name, axes)
    _gradients(ops)
    _kernels(ops, axes)
    ops.forward.cost(lambda inputs, outputs, attrs: _cost(outputs[0], inputs[1]))
    ops.backprop_input.cost(lambda inputs, outputs, attrs: _cost(inputs[2], inputs[1]))
    ops.backprop_filter.cost(lambda inputs, outputs, attrs: _cost(inputs[2], outputs[0]))
    return ops


def _declared(name: str, axes: int) -> Convolution:
    usual, every = FORMATS[axes][0], (1,) * (axes + 2)

    def convolve(
        input: T, filter: T, strides: Any, padding: Any, data_format: str = usual, dilations: Any = every
    ) -> Spec:
        sliding = Sliding.of(strides, padding, data_format, dilations, axes)
        window = filter.same_dtype(input.only(FLOAT)).with_rank(axes + 2, "filter").sizes
        assert window is not None
        return input.with_shape(sliding.own(convolved_sizes(images_of(input, sliding), window, sliding)))

    def backprop_input(
        input_sizes: Ints,
        filter: T,
        out_backprop: T,
        strides: Any,
        padding: Any,
        data_format: str = usual,
        dilations: Any = every,
    ) -> Spec:
        sliding = Sliding.of(strides, padding, data_format, dilations, axes)
        window = filter.same_dtype(out_backprop.only(FLOAT)).with_rank(axes + 2, "filter").sizes
        assert window is not None
        whole = known.shape(input_sizes, "input_sizes").with_rank(axes + 2)
        x = sliding.nhwc(whole.as_list())
        check_backprop(convolved_sizes(x, window, sliding), images_of(out_backprop, sliding))
        return Spec(filter.dtype, whole)

    def backprop_filter(
        input: T,
        filter_sizes: Ints,
        out_backprop: T,
        strides: Any,
        padding: Any,
        data_format: str = usual,
        dilations: Any = every,
    ) -> Spec:
        sliding = Sliding.of(strides, padding, data_format, dilations, axes)
        window = known.shape(filter_sizes, "filter_sizes").with_rank(axes + 2)
        out = images_of(out_backprop.only(FLOAT).same_dtype(input), sliding)
        check_backprop(convolved_sizes(images_of(input, sliding), tuple(window.as_list()), sliding), out)
        return Spec(input.dtype, window)

    sizes = ", ".join(("depth", "height", "width")[-axes:])
    convolve.__doc__ = (
        f"Each patch of `input` times `filter`, of shape [{sizes}, channels, outputs], summed over the patch."
    )
    backprop_input.__doc__ = f"The gradient of `{name}` for its input, which has shape `input_sizes`."
    backprop_filter.__doc__ = f"The gradient of `{name}` for its filter, which has shape `filter_sizes`."
    return Convolution(
        op(name=name)(convolve),
        op(name=f"{name}_backprop_input")(backprop_input),
        op(name=f"{name}_backprop_filter")(backprop_filter),
    )


def _gradients(ops: Convolution) -> None:
    forward, backprop_input, backprop_filter = ops

    @forward.gradient
    def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
        x, window = op.inputs
        return ops.gradients(x, window, dy, **op.attrs)

    @backprop_input.gradient
    def _(op: Operation, dz: Tensor) -> tuple[None, Tensor, Tensor]:
        _, window, dy = op.inputs
        return None, backprop_filter(dz, shape_of(window), dy, **op.attrs), forward(dz, window, **op.attrs)

    @backprop_filter.gradient
    def _(op: Operation, dz: Tensor) -> tuple[Tensor, None, Tensor]:
        x, _, dy = op.inputs
        return backprop_input(shape_of(x), dz, dy, **op.attrs), None, forward(x, dz, **op.attrs)


def _cost(dy: Spec, window: Spec) -> float:
    """Each element of the output is a sum over a patch."""
    outputs = None if window.sizes is None else window.sizes[-1]
    return 2 * elements(dy) * elements(window) / (outputs or 32)


# Kernels


def _kernels(ops: Convolution, axes: int) -> None:
    @wide(ops.forward)
    def forward(xp: Namespace, node: NodeView) -> Function:
        sliding = Sliding.of(**node.attrs, axes=axes)

        def compute(x: Array, window: Array) -> Array:
            x = sliding.take(xp, x)
            convolved_sizes(x.shape, window.shape, sliding)
            return sliding.give(xp, _convolve(xp, x, window, sliding.slides(x.shape[1:-1], window.shape[:-2])))

        return compute

    @wide(ops.backprop_input)
    def backprop_input(xp: Namespace, node: NodeView) -> Function:
        sliding = Sliding.of(**node.attrs, axes=axes)

        def compute(sizes: Array, window: Array, dy: Array) -> Array:
            dy, whole = sliding.take(xp, dy), sliding.nhwc(sizes.tolist())
            check_backprop(convolved_sizes(whole, window.shape, sliding), dy.shape)
            return sliding.give(xp, _spread(xp, whole, window, dy, sliding.slides(whole[1:-1], window.shape[:-2])))

        return compute

    @wide(ops.backprop_filter)
    def backprop_filter(xp: Namespace, node: NodeView) -> Function:
        sliding = Sliding.of(**node.attrs, axes=axes)

        def compute(x: Array, sizes: Array, dy: Array) -> Array:
            x, dy, window = sliding.take(xp, x), sliding.take(xp, dy), tuple(sizes.tolist())
            check_backprop(convolved_sizes(x.shape, window, sliding), dy.shape)
            return _correlate(xp, x, dy, sliding.slides(x.shape[1:-1], window[:-2])).reshape(window)

        return compute

    optimised = onednn_convolution.Kernels(axes, convolved_sizes)
    optimised.declare(ops.forward, optimised.forward, forward)
    optimised.declare(ops.backprop_input, optimised.backprop_input, backprop_input)
    optimised.declare(ops.backprop_filter, optimised.backprop_filter, backprop_filter)


def patches(xp: Namespace, x: Array, slides: Slides) -> Array:
    """The elements under the window at each place: a view [batch, *places, *window, channels] of padded images."""
    x = _padded(xp, x, slides)
    batch, *steps, channel = x.strides
    places = [step * slide.stride for step, slide in zip(steps, slides, strict=True)]
    inside = [step * slide.dilation for step, slide in zip(steps, slides, strict=True)]
    shape = (len(x), *[slide.output for slide in slides], *[slide.window for slide in slides], x.shape[-1])
    return xp.lib.stride_tricks.as_strided(x, shape, (batch, *places, *inside, channel))


def _padded(xp: Namespace, x: Array, slides: Slides) -> Array:
    if not any(slide.before or slide.after for slide in slides):
        return x
    sizes = [slide.before + slide.size + slide.after for slide in slides]
    padded = xp.zeros((len(x), *sizes, x.shape[-1]), x.dtype)
    padded[(slice(None), *[slice(slide.before, slide.before + slide.size) for slide in slides])] = x
    return padded


def _matrices(xp: Namespace, x: Array, slides: Slides) -> Iterator[tuple[slice, slice, Array]]:
    """Images, rows of places in them, and the patches there as the rows of a matrix of about `_block` bytes."""
    depth = math.prod([slide.window for slide in slides]) * x.shape[-1]
    if all(slide.still for slide in slides):
        yield slice(None), slice(None), x.reshape(-1, depth)
        return
    rows = slides[0].output
    fit = max(1, _block(xp) // (math.prod([slide.output for slide in slides[1:]]) * depth * x.itemsize))
    some, deep = max(1, fit // rows), min(fit, rows)
    for image in range(0, len(x), some):
        images = slice(image, image + some)
        seen = patches(xp, x[images], slides)
        for row in range(0, rows, deep):
            places = slice(row, row + deep)
            yield images, places, seen[:, places].reshape(-1, depth)


def _block(xp: Namespace) -> int:
    return BLOCK if xp is np else GPU_BLOCK


def _convolve(xp: Namespace, x: Array, window: Array, slides: Slides) -> Array:
    """The product of each patch with the filters."""
    outputs = window.shape[-1]
    result = xp.empty((len(x), *[slide.output for slide in slides], outputs), x.dtype)
    if not (result.size and window.size):
        return xp.zeros_like(result)
    filters = window.reshape(-1, outputs)
    for images, places, seen in _matrices(xp, x, slides):
        xp.matmul(seen, filters, out=result[images, places].reshape(-1, outputs))
    return result


def _correlate(xp: Namespace, x: Array, dy: Array, slides: Slides) -> Array:
    """The sum over all places of the product of patch and output gradient."""
    outputs = dy.shape[-1]
    total = xp.zeros((math.prod([slide.window for slide in slides]) * x.shape[-1], outputs), x.dtype)
    if not (x.size and dy.size):
        return total
    for images, places, seen in _matrices(xp, x, slides):
        total += xp.matmul(seen.T, dy[images, places].reshape(-1, outputs))
    return total


def _spread(xp: Namespace, sizes: Sequence[int], window: Array, dy: Array, slides: Slides) -> Array:
    """Each output's gradient, times each element of the filter, added where that element saw its input."""
    if xp is not np and (back := _backwards(slides)) is not None:
        turned = window[(slice(None, None, -1),) * len(slides)].swapaxes(-1, -2)
        return _convolve(xp, dy, turned, back)
    result = xp.zeros(sizes, dy.dtype)
    if not (window.size and dy.size):
        return result
    some = max(1, _block(xp) // 4 // (math.prod((*dy.shape[1:-1], sizes[-1])) * dy.itemsize))
    for image in range(0, len(dy), some):
        block = dy[image : image + some]
        into, flat = result[image : image + some], block.reshape(-1, dy.shape[-1])
        for index, places, seen in taps(slides):
            part = xp.matmul(flat, window[index].T).reshape(*block.shape[:-1], sizes[-1])
            into[seen] += part[places]
    return result


def _backwards(slides: Slides) -> Slides | None:
    """How the turned filter slides over the outputs' gradient to give the inputs'; None unless it goes step by step."""
    back = []
    for slide in slides:
        most = (slide.window - 1) * slide.dilation
        if slide.stride > 1 or max(slide.before, slide.after) > most:
            return None
        before, after = most - slide.before, most - slide.after
        back.append(Slide(slide.output, slide.window, 1, slide.dilation, before, after, slide.size))
    return back


image_convolution: Final = convolution("conv2d", 2)
_conv2d, _conv2d_backprop_input, _conv2d_backprop_filter = image_convolution


# For users


def attributes(strides: Any, padding: Any, data_format: Any, dilations: Any, axes: int = 2) -> dict[str, Any]:
    """Attributes as the ops take them. ValueError if strides or padding are missing."""
    if strides is None or padding is None:
        raise ValueError("a convolution needs strides and padding")
    layout = data_format or FORMATS[axes][0]
    return {
        "strides": per_axis(strides, layout, axes),
        "padding": padding,
        "data_format": layout,
        "dilations": per_axis(1 if dilations is None else dilations, layout, axes),
    }


def conv2d(
    input: NumberLike,
    filter: NumberLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
    filters: NumberLike | None = None,
) -> Tensor:
    """Images times filters: at each place the sum over the patch there, times the filter, for each of its outputs.

    Args:
        input: images [batch, height, width, channels], or [batch, channels, height, width] with 'NCHW'.
        filter: numbers [height, width, channels, outputs].
        strides: by how much the filter moves: one number, one for height and width each, or one per axis of `input`.
        padding: "SAME", "VALID", or zeros before and after each axis, as four pairs.
        use_cudnn_on_gpu: has no effect.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between elements of a patch, given as `strides` are.
        name: the name of the operation.
        filters: another name for `filter`.

    Examples:
        >>> await session.run(af.nn.conv2d(af.ones([1, 3, 3, 1]), af.ones([2, 2, 1, 1]), 1, "VALID")[0, :, :, 0])
        array([[4., 4.],
               [4., 4.]], dtype=float32)
    """
    window = either(filter, filters, "filter, filters")
    return _conv2d(input, window, **attributes(strides, padding, data_format, dilations), name=name)


@transactional
def conv2d_backprop_input(
    input_sizes: NumberLike,
    filter: NumberLike | None = None,
    out_backprop: NumberLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
    filters: NumberLike | None = None,
) -> Tensor:
    """The gradient of `conv2d` for images of shape `input_sizes`, from that of its result; arguments as there.

    Two `input_sizes` are height and width alone.

    Examples:
        >>> filters, dy = np.ones((2, 2, 1, 1), np.float32), np.ones((1, 2, 2, 1), np.float32)
        >>> grad = af.nn.conv2d_backprop_input([1, 3, 3, 1], filters, dy, [1, 1, 1, 1], "VALID")
        >>> (await session.run(grad))[0, :, :, 0]
        array([[1., 2., 1.],
               [2., 4., 2.],
               [1., 2., 1.]], dtype=float32)
    """
    window = either(filter, filters, "filter, filters")
    attrs = attributes(strides, padding, data_format, dilations)
    sizes = convert_to_tensor(input_sizes, preferred_dtype=int32)
    if sizes.shape == [2] and out_backprop is not None:
        ends = [shape_of(convert_to_tensor(out_backprop))[:1], shape_of(convert_to_tensor(window))[2:3]]
        sizes = concat([ends[0], sizes, ends[1]] if data_format == "NHWC" else [*ends, sizes], 0)
    return _conv2d_backprop_input(sizes, window, out_backprop, **attrs, name=name)


def conv2d_backprop_filter(
    input: NumberLike,
    filter_sizes: NumberLike,
    out_backprop: NumberLike,
    strides: int | Sequence[int] | None = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` for filters of shape `filter_sizes`, from that of its result; arguments as there.

    Examples:
        >>> x, dy = np.ones((1, 3, 3, 1), np.float32), np.ones((1, 2, 2, 1), np.float32)
        >>> grad = af.nn.conv2d_backprop_filter(x, [2, 2, 1, 1], dy, [1, 1, 1, 1], "VALID")
        >>> (await session.run(grad))[:, :, 0, 0]
        array([[4., 4.],
               [4., 4.]], dtype=float32)
    """
    attrs = attributes(strides, padding, data_format, dilations)
    return _conv2d_backprop_filter(input, filter_sizes, out_backprop, **attrs, name=name)


def conv2d_transpose(
    value: NumberLike | None = None,
    filter: NumberLike | None = None,
    output_shape: NumberLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: NumberLike | None = None,
    filters: NumberLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """The gradient of `conv2d` as an op, from small images `value` to large ones of shape `output_shape`.

    `filter` has shape [height, width, channels of the result, channels of `value`].

    Examples:
        >>> af.nn.conv2d_transpose(af.ones([1, 2, 2, 1]), af.ones([2, 2, 1, 1]), [1, 4, 4, 1], 2).shape
        TensorShape([1, 4, 4, 1])
    """
    window = either(filter, filters, "filter, filters")
    small = either(value, input, "value, input")
    attrs = attributes(strides, padding, data_format, dilations)
    return _conv2d_backprop_input(output_shape, window, small, **attrs, name=name or "conv2d_transpose")


_conv2d_op = image_convolution.forward


@op
def conv2d_with_bias(
    input: T,
    filter: T,
    bias: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """The result of `conv2d` with `bias`, one number per channel, added."""
    convolved: Spec = _conv2d_op.rule(input, filter, strides, padding, data_format, dilations)
    added: Spec = bias_add.rule(convolved, bias, data_format)
    return added


@conv2d_with_bias.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, window, _ = op.inputs
    dx, dwindow = image_convolution.gradients(x, window, dy, **op.attrs)
    return dx, dwindow, bias_add_grad(dy, op.attrs["data_format"])


@conv2d_with_bias.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    assert _conv2d_op.cost_rule is not None
    return _conv2d_op.cost_rule(inputs, outputs, attrs)


@conv2d_with_bias.kernel(CPU, GPU, fresh=True, binds=True)
def _plain(xp: Namespace, node: NodeView) -> Function:
    numbers, first = CPU if xp.__name__ == "numpy" else GPU, node.attrs["data_format"] == "NCHW"
    chosen = _conv2d_op.kernel_for(numbers, node.input_specs[:2])
    assert chosen is not None
    convolve = chosen.bind(_conv2d_op, node, xp)

    def compute(x: Array, window: Array, bias: Array) -> Array:
        y = convolve(x, window)
        if bias.shape != (window.shape[-1],):
            raise ValueError(f"bias of shape {list(bias.shape)} does not fit {window.shape[-1]} channels")
        return xp.add(y, bias[:, None, None] if first else bias, out=y)

    return compute


_optimised = onednn_convolution.Kernels(2, convolved_sizes)
_optimised.declare(conv2d_with_bias, _optimised.forward_with_bias, _plain)
