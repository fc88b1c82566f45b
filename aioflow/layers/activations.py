"""`af.activations`: functions of each element, or of rows, under the names by which layers take them.

The numbers are those of Keras 3, also where TensorFlow had others: `hard_sigmoid` rises from -3 to 3.
"""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import split
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.ranges import range as numbers
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.array.sorting import sort
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, less
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import exp, sigmoid, sqrt, square, tanh
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.kernels.nn.activation import elu as plain_elu
from aioflow.kernels.nn.activation import leaky_relu as plain_leaky_relu
from aioflow.kernels.nn.activation import relu as plain_relu
from aioflow.kernels.nn.activation import relu6, selu, softplus, softsign
from aioflow.kernels.nn.softmax import log_softmax, softmax
from aioflow.lazy import Face
from aioflow.library.nn_functions import gelu, silu

exponential = exp
swish = silu


@transactional
def relu(x: NumberLike, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """The input from the threshold to `max_value`, which it does not pass; below negative_slope * (x - threshold).

    Examples:
        >>> await session.run(af.activations.relu([-1.0, 2.0]))
        array([0., 2.], dtype=float32)
    """
    value = convert_to_tensor(x)
    if threshold == 0 and max_value is None:
        return plain_relu(value) if negative_slope == 0 else plain_leaky_relu(value, negative_slope)
    if threshold == 0 and max_value == 6 and negative_slope == 0:
        return relu6(value)
    top = value if max_value is None else clip_by_value(value, value.dtype.min, max_value)
    low = (value - threshold) * negative_slope if negative_slope else zeros_like(value)
    kept: Tensor = where(less(value, threshold), low, top)
    return kept


@transactional
def elu(x: NumberLike, alpha: float = 1.0) -> Tensor:
    """The input where it is positive, else alpha * (e^x - 1).

    Examples:
        >>> await session.run(af.activations.elu([-1.0, 2.0]))
        array([-0.63212055,  2.        ], dtype=float32)
    """
    value = convert_to_tensor(x)
    smooth: Tensor = plain_elu(value)
    return smooth if alpha == 1 else where(greater(value, 0), value, smooth * alpha)


def leaky_relu(x: NumberLike, negative_slope: float = 0.2) -> Tensor:
    """The input where it is positive, else negative_slope * x.

    Examples:
        >>> await session.run(af.activations.leaky_relu([-1.0, 2.0]))
        array([-0.2,  2. ], dtype=float32)
    """
    return plain_leaky_relu(x, negative_slope)


@transactional
def celu(x: NumberLike, alpha: float = 1.0) -> Tensor:
    """The input where it is positive, else alpha * (e^(x / alpha) - 1).

    Examples:
        >>> await session.run(af.activations.celu([-1.0, 2.0]))
        array([-0.63212055,  2.        ], dtype=float32)
    """
    value = convert_to_tensor(x)
    return where(greater(value, 0), value, plain_elu(value / alpha) * alpha)


@transactional
def glu(x: NumberLike, axis: int = -1) -> Tensor:
    """The first half along the axis, times the sigmoid of the second.

    Examples:
        >>> await session.run(af.activations.glu([[1.0, 2.0, 0.0, 0.0]]))
        array([[0.5, 1. ]], dtype=float32)
    """
    kept, gate = split(convert_to_tensor(x), 2, axis)
    gated: Tensor = kept * sigmoid(gate)
    return gated


@transactional
def hard_sigmoid(x: NumberLike) -> Tensor:
    """The input / 6 + 0.5, clipped to the range from 0 to 1: a piecewise linear sigmoid.

    Examples:
        >>> await session.run(af.activations.hard_sigmoid([-4.0, 0.0, 4.0]))
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(convert_to_tensor(x) + 3.0) / 6.0


@transactional
def hard_silu(x: NumberLike) -> Tensor:
    """The input times its hard sigmoid.

    Examples:
        >>> await session.run(af.activations.hard_silu([-1.0, 0.0, 4.0]))
        array([-0.33333334,  0.        ,  4.        ], dtype=float32)
    """
    value = convert_to_tensor(x)
    product: Tensor = value * hard_sigmoid(value)
    return product


def hard_tanh(x: NumberLike) -> Tensor:
    """The input clipped to the range from -1 to 1.

    Examples:
        >>> await session.run(af.activations.hard_tanh([-2.0, 0.5, 2.0]))
        array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return clip_by_value(x, -1.0, 1.0)


@transactional
def hard_shrink(x: NumberLike, threshold: float = 0.5) -> Tensor:
    """The input where its magnitude is above the threshold, else 0.

    Examples:
        >>> await session.run(af.activations.hard_shrink([-1.0, 0.3, 2.0]))
        array([-1.,  0.,  2.], dtype=float32)
    """
    value = convert_to_tensor(x)
    return where(greater(absolute(value), threshold), value, zeros_like(value))


@transactional
def soft_shrink(x: NumberLike, threshold: float = 0.5) -> Tensor:
    """The input moved towards 0 by the threshold; 0 for smaller magnitudes.

    Examples:
        >>> await session.run(af.activations.soft_shrink([-1.0, 0.3, 2.0]))
        array([-0.5,  0. ,  1.5], dtype=float32)
    """
    value = convert_to_tensor(x)
    moved: Tensor = value - clip_by_value(value, -threshold, threshold)
    return moved


@transactional
def tanh_shrink(x: NumberLike) -> Tensor:
    """The input less its tanh.

    Examples:
        >>> await session.run(af.activations.tanh_shrink([0.0, 2.0]))
        array([0.       , 1.0359724], dtype=float32)
    """
    value = convert_to_tensor(x)
    less_tanh: Tensor = value - tanh(value)
    return less_tanh


@transactional
def threshold(x: NumberLike, threshold: float, default_value: float) -> Tensor:
    """The input above the threshold, else the default value.

    Examples:
        >>> await session.run(af.activations.threshold([0.5, 2.0], threshold=1.0, default_value=0.0))
        array([0., 2.], dtype=float32)
    """
    value = convert_to_tensor(x)
    return where(greater(value, threshold), value, zeros_like(value) + default_value)


def linear(x: NumberLike) -> Tensor:
    """The input itself.

    Examples:
        >>> await session.run(af.activations.linear(af.constant([-1.0, 2.0])))
        array([-1.,  2.], dtype=float32)
    """
    return convert_to_tensor(x)


@transactional
def log_sigmoid(x: NumberLike) -> Tensor:
    """The logarithm of the sigmoid, exact for large magnitudes too.

    Examples:
        >>> await session.run(af.activations.log_sigmoid([0.0, 2.0]))
        array([-0.6931472, -0.126928 ], dtype=float32)
    """
    return -softplus(-convert_to_tensor(x))


@transactional
def mish(x: NumberLike) -> Tensor:
    """The product x * tanh(softplus(x)) [Misra 2019].

    Examples:
        >>> (await session.run(af.activations.mish([-1.0, 2.0]))).round(4)
        array([-0.3034,  1.944 ], dtype=float32)
    """
    value = convert_to_tensor(x)
    product: Tensor = value * tanh(softplus(value))
    return product


@transactional
def squareplus(x: NumberLike, b: float = 4.0) -> Tensor:
    """(x + √(x² + b)) / 2, a smooth rectifier.

    Examples:
        >>> await session.run(af.activations.squareplus([0.0, 3.0]))
        array([1.       , 3.3027756], dtype=float32)
    """
    value = convert_to_tensor(x)
    half: Tensor = (value + sqrt(square(value) + b)) * 0.5
    return half


@transactional
def sparse_plus(x: NumberLike) -> Tensor:
    """0 up to -1, x from 1 on, and (x + 1)² / 4 between.

    Examples:
        >>> await session.run(af.activations.sparse_plus([-2.0, 0.0, 2.0]))
        array([0.  , 0.25, 2.  ], dtype=float32)
    """
    value = convert_to_tensor(x)
    between = square(clip_by_value(value, -1.0, 1.0) + 1.0) / 4.0
    whole: Tensor = between + maximum(value - 1.0, 0.0)
    return whole


@transactional
def sparse_sigmoid(x: NumberLike) -> Tensor:
    """0 up to -1, 1 from 1 on, and (x + 1) / 2 between.

    Examples:
        >>> await session.run(af.activations.sparse_sigmoid([-2.0, 0.0, 0.5]))
        array([0.  , 0.5 , 0.75], dtype=float32)
    """
    clipped: Tensor = (clip_by_value(convert_to_tensor(x), -1.0, 1.0) + 1.0) * 0.5
    return clipped


@transactional
def sparsemax(x: NumberLike) -> Tensor:
    """The nearest probabilities to each row, along the last axis, many of them 0 [Martins and Astudillo 2016].

    The rows' largest values less a threshold, which is such that the sum is 1.

    Examples:
        >>> await session.run(af.activations.sparsemax([[1.0, 1.5, 0.0]]))
        array([[0.25, 0.75, 0.  ]], dtype=float32)
    """
    value = convert_to_tensor(x)
    ordered = sort(value, direction="DESCENDING")
    ranks = cast(numbers(1, shape(value)[-1] + 1), value.dtype)
    sums = cumsum(ordered, -1)
    count = reduce_sum(cast(greater(ordered * ranks + 1.0, sums), value.dtype), -1, keepdims=True)
    total = reduce_sum(where(greater(ranks, count), zeros_like(ordered), ordered), -1, keepdims=True)
    return plain_relu(value - (total - 1.0) / count)


__all__ = [
    "celu", "elu", "exponential", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu",
    "linear", "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_shrink",
    "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus", "swish", "tanh",
    "tanh_shrink", "threshold",
]  # fmt: skip
Face(__name__, {__name__: " ".join(__all__)})
