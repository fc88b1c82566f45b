"""Bias addition, and the activation functions with their fused gradients."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, NARROW, SLOW, Unary, costs, elements
from aioflow.kernels.nn import onednn_activation
from aioflow.tensors.dtypes import (
    FLOAT,
    INTEGER,
    NUMERIC,
    Array,
    DeviceKind,
    DType,
    Namespace,
    Spec,
    TensorShape,
    float32,
    float64,
)

try:  # the ufunc beneath np.clip, with a scalar up to four times as fast as np.maximum
    from numpy._core.umath import clip as _clip  # type: ignore[attr-defined]
except ImportError:
    _clip = None

Function = Callable[..., Any]
Binding = Callable[[Namespace, NodeView], Function]

FEW: Final = 1 << 18
"""Elements up to which a product with ones is the fastest sum."""
LONGEST: Final = 4096
"""Elements of the longest vector of ones that is kept."""
ROW: Final = 2048
"""Elements of a row in whose sum NumPy's cost per row does not matter."""
SELU_SCALE: Final = 1.0507009873554804934193349852946
SELU_ALPHA: Final = 1.6732632423543772848170429916717


def same_shape(a: Spec, b: Spec) -> TensorShape:
    """The shape both have: `b`'s own, unless only `a`'s is fully known. ValueError if they differ."""
    if a.shape is not b.shape and not a.shape.is_compatible_with(b.shape):
        raise ValueError(f"shapes {a.shape} and {b.shape} must be equal")
    return a.shape if a.shape.is_fully_defined() else b.shape


def wide(made: Op[Any], *kinds: DeviceKind, out: bool = False) -> Callable[[Binding], Binding]:
    """Declare a kernel that binds, and that for narrower dtypes it computes in float32 and is rounded once.

    `kinds` are the kinds of devices, all by default.
    """
    devices = kinds or (CPU, GPU)

    def declare(bind: Binding) -> Binding:
        made.kernel(*devices, binds=True, fresh=True, out=out)(bind)

        @made.kernel(*devices, binds=True, fresh=True, only=NARROW | INTEGER, priority=1)
        def _(xp: Namespace, node: NodeView) -> Function:
            compute, dtype = bind(xp, node), node.output_specs[0].dtype.np

            def narrow(*inputs: Array) -> Any:
                result = compute(*[x.astype(np.float32) if x.dtype == dtype else x for x in inputs])
                return tuple([y.astype(dtype) for y in result]) if type(result) is tuple else result.astype(dtype)

            return narrow

        return bind

    return declare


def constant(xp: Namespace, node: NodeView, value: float) -> Array:
    """`value` in the dtype that the node computes in; a Python float would widen bfloat16."""
    dtype = node.output_specs[0].dtype
    return xp.asarray(value, np.float32 if dtype in NARROW else dtype.np)


def activation(name: str, gradient: Unary, doc: str, *families: frozenset[DType]) -> Op[Tensor]:
    """An op of `features`, element by element, whose gradient follows from (y, x, dy)."""

    def rule(features: Spec) -> Spec:
        return features.only(*families)

    rule.__doc__ = doc
    made = op(name=name, elementwise=True)(rule)

    @made.gradient
    def _(op: Operation, dy: Tensor) -> Tensor:
        return gradient(op.outputs[0], op.inputs[0], dy)

    return made


def activation_grad(name: str, doc: str) -> Op[Tensor]:
    """The op that takes the gradient of an activation's result back to its input."""

    def rule(gradients: T, features: T) -> Spec:
        gradients.only(FLOAT, INTEGER).same_dtype(features)
        return features.with_shape(same_shape(gradients, features))

    rule.__doc__ = doc
    return op(name=name, elementwise=True)(rule)


# Rectified linear units

relu_grad: Final = activation_grad(
    "relu_grad", "`gradients` where `features` are above 0, else 0: the gradient of `relu`."
)
relu6_grad: Final = activation_grad("relu6_grad", "`gradients` where `features` lie between 0 and 6, else 0.")
relu: Final = activation(
    "relu",
    lambda y, x, dy: relu_grad(dy, y),  # of y and not of x, so that a run may write y over x
    """`features` where they are above 0, else 0.

    Examples:
        >>> await session.run(af.nn.relu([-1.0, 2.0]))
        array([0., 2.], dtype=float32)
    """,
    FLOAT,
    INTEGER,
)
relu6: Final = activation(
    "relu6",
    lambda y, x, dy: relu6_grad(dy, y),
    """`features` held between 0 and 6.

    Examples:
        >>> await session.run(af.nn.relu6([-1.0, 2.0, 9.0]))
        array([0., 2., 6.], dtype=float32)
    """,
    FLOAT,
    INTEGER,
)


def held(xp: Namespace, dtype: DType, top: float = math.inf) -> Function:
    """The function of an array that holds it between 0 and `top`."""
    low = xp.zeros((), dtype.np)
    if _clip is not None and xp is np and dtype in (float32, float64):
        clip, high = _clip, np.asarray(top, dtype.np)
        return lambda x, out=None: clip(x, low, high, out)
    if top == math.inf:
        return lambda x, out=None: xp.maximum(x, low, out=out)
    limit = xp.asarray(top).astype(dtype.np)
    return lambda x, out=None: xp.minimum(xp.maximum(x, low), limit, out=out)


@relu.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return held(xp, node.output_specs[0].dtype)


@relu6.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return held(xp, node.output_specs[0].dtype, 6)


@relu_grad.kernel(CPU, GPU, out=True, binds=True)
def _relu_grad_of(xp: Namespace, node: NodeView) -> Function:
    multiply, greater, zero = xp.multiply, xp.greater, xp.zeros((), node.output_specs[0].dtype.np)
    return lambda dy, y, out=None: multiply(dy, greater(y, zero), out=out)


onednn_activation.declare(relu_grad, _relu_grad_of)


@relu6_grad.kernel(CPU, GPU, out=True)
def _(xp: Namespace, dy: Array, y: Array, out: Array | None = None) -> Array:
    return xp.multiply(dy, xp.logical_and(y > 0, y < 6), out=out)


@op
def leaky_relu(features: Spec, alpha: float = 0.2) -> Spec:
    """`features` where they are above 0, else `alpha` times them.

    Examples:
        >>> await session.run(af.nn.leaky_relu([-1.0, 2.0]))
        array([-0.2,  2. ], dtype=float32)
    """
    return features.only(FLOAT)


@op
def leaky_relu_grad(gradients: T, features: T, alpha: float = 0.2) -> Spec:
    """`gradients` where `features` are above 0, else `alpha` times them: the gradient of `leaky_relu`."""
    gradients.only(FLOAT).same_dtype(features)
    return features.with_shape(same_shape(gradients, features))


@leaky_relu.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    alpha = op.attrs["alpha"]
    return leaky_relu_grad(dy, op.output if alpha > 0 else op.inputs[0], alpha)


@leaky_relu_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, None]:
    return leaky_relu_grad(dz, op.inputs[1], op.attrs["alpha"]), None


@leaky_relu.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    one, alpha = xp.asarray([1, node.attrs["alpha"]]).astype(node.output_specs[0].dtype.np)
    if 0 < node.attrs["alpha"] <= 1:
        return lambda x, out=None: xp.maximum(x, x * alpha, out=out)
    return lambda x, out=None: xp.multiply(x, xp.where(x > 0, one, alpha), out=out)


@leaky_relu_grad.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    one, alpha = xp.asarray([1, node.attrs["alpha"]]).astype(node.output_specs[0].dtype.np)
    return lambda dy, x, out=None: xp.multiply(dy, xp.where(x > 0, one, alpha), out=out)


# Exponential linear units

elu_grad: Final = activation_grad("elu_grad", "The gradient of `elu`, from its result.")
selu_grad: Final = activation_grad("selu_grad", "The gradient of `selu`, from its result.")
elu: Final = activation(
    "elu",
    lambda y, x, dy: elu_grad(dy, y),
    """`features` above 0, else exp(features) - 1.

    Examples:
        >>> await session.run(af.nn.elu([-1.0, 2.0]))
        array([-0.63212055,  2.        ], dtype=float32)
    """,
    FLOAT,
)
selu: Final = activation(
    "selu",
    lambda y, x, dy: selu_grad(dy, y),
    """scale * (`features` above 0, else alpha * (exp(features) - 1)): keeps mean 0 and variance 1 [Klambauer 2017].

    Examples:
        >>> await session.run(af.nn.selu([-1.0, 2.0]))
        array([-1.1113307,  2.101402 ], dtype=float32)
    """,
    FLOAT,
)


@wide(elu, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    def compute(x: Array, out: Array | None = None) -> Array:
        below = xp.expm1(xp.minimum(x, 0))
        return xp.add(xp.maximum(x, 0), below, out=out)

    return compute


@wide(elu_grad, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return lambda dy, y, out=None: xp.multiply(dy, xp.minimum(y, 0) + 1, out=out)


@wide(selu, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    scale, depth = constant(xp, node, SELU_SCALE), constant(xp, node, SELU_SCALE * SELU_ALPHA)

    def compute(x: Array, out: Array | None = None) -> Array:
        below = xp.expm1(xp.minimum(x, 0)) * depth
        return xp.add(xp.maximum(x, 0) * scale, below, out=out)

    return compute


@wide(selu_grad, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    scale, depth = constant(xp, node, SELU_SCALE), constant(xp, node, SELU_SCALE * SELU_ALPHA)
    return lambda dy, y, out=None: xp.multiply(dy, xp.where(y < 0, y + depth, scale), out=out)


for _grad in (relu_grad, relu6_grad):

    @_grad.gradient
    def _(op: Operation, dz: Tensor) -> tuple[Tensor, None]:
        return op.definition(dz, op.inputs[1]), None


for _grad in (elu_grad, selu_grad):

    @_grad.gradient
    def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
        dy, y = op.inputs
        return op.definition(dz, y), relu_grad(dz * dy, -y)  # below 0 the slope is y + constant


# Soft ones

softplus_grad: Final = activation_grad("softplus_grad", "gradients / (1 + exp(-features)): the gradient of `softplus`.")
softplus: Final = activation(
    "softplus",
    lambda y, x, dy: softplus_grad(dy, x),
    """log(exp(features) + 1), without overflow: near 0 far below 0, near `features` far above.

    Examples:
        >>> (await session.run(af.nn.softplus([-1.0, 0.0, 100.0]))).round(4)
        array([  0.3133,   0.6931, 100.    ], dtype=float32)
    """,
    FLOAT,
)


def _softsign_grad(y: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    scale = 1 + abs(x)
    return dy / (scale * scale)


softsign: Final = activation(
    "softsign",
    _softsign_grad,
    """features / (abs(features) + 1), between -1 and 1.

    Examples:
        >>> await session.run(af.nn.softsign([-1.0, 0.0, 3.0]))
        array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """,
    FLOAT,
)


def softplus_of(xp: Namespace, x: Array, out: Array | None = None) -> Array:
    """max(x, 0) + log1p(exp(-abs(x)))."""
    far = xp.empty_like(x)
    xp.abs(x, out=far)
    for function in (xp.negative, xp.exp, xp.log1p):
        function(far, out=far)
    return xp.add(xp.maximum(x, 0), far, out=out)


@wide(softplus, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return functools.partial(softplus_of, xp)


@wide(softplus_grad, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return lambda dy, x, out=None: xp.divide(dy, xp.exp(-x) + 1, out=out)


@softplus_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
    dy, x = op.inputs
    return softplus_grad(dz, x), softplus_grad(softplus_grad(dz * dy, x), -x)


@wide(softsign, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return lambda x, out=None: xp.divide(x, xp.abs(x) + 1, out=out)


for _slow in (elu, selu, softplus, softplus_grad):
    costs(_slow, SLOW)


# Bias


def channel_axis(data_format: str | None) -> int:
    """Where the channels are: the last axis, or the second."""
    if data_format in (None, "NHWC", "N...C", "NDHWC"):
        return -1
    if data_format in ("NCHW", "NC...", "NCDHW"):
        return 1
    raise ValueError(f"data_format is 'NHWC' or 'NCHW', not {data_format!r}")


@op
def bias_add(value: T, bias: T, data_format: str | None = None) -> Spec:
    """`value` with `bias`, one number per channel, added; channels are the last axis, or the second with 'NCHW'.

    Examples:
        >>> await session.run(af.nn.bias_add([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]))
        array([[11., 22.],
               [13., 24.]], dtype=float32)
    """
    value.only(NUMERIC).same_dtype(bias)
    length = (bias.with_rank(1, "bias").sizes or (None,))[0]
    axis = channel_axis(data_format)
    if value.sizes is None:
        return Spec(value.dtype)
    if len(value.sizes) < 2:
        raise ValueError(f"value needs a batch axis and a channel axis, its shape is {value.shape}")
    channels = value.sizes[axis]
    if channels is not None and length is not None and channels != length:
        raise ValueError(f"bias has {length} elements, value has {channels} channels")
    if channels is None and length is not None:
        sizes = list(value.sizes)
        sizes[axis] = length
        return Spec(value.dtype, TensorShape(sizes))
    return Spec(value.dtype, value.shape)


@bias_add.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    value, bias = node.input_specs
    axis = channel_axis(node.attrs["data_format"])
    surely_fits = value.sizes is not None and bias.sizes is not None and value.sizes[axis] == bias.sizes[0] is not None
    if axis == -1 and surely_fits:
        return xp.add  # type: ignore[no-any-return]

    def compute(value: Array, bias: Array, out: Array | None = None) -> Array:
        if bias.shape != value.shape[axis:][:1]:
            raise ValueError(f"bias of shape {list(bias.shape)} does not fit value of shape {list(value.shape)}")
        return xp.add(value, bias if axis == -1 else bias.reshape(-1, *[1] * (value.ndim - 2)), out=out)

    return compute


@bias_add.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    return dy, bias_add_grad(dy, op.attrs["data_format"])


@op
def bias_add_grad(out_backprop: Spec, data_format: str | None = None) -> Spec:
    """The sum of `out_backprop` over all but the channels: the gradient of `bias_add` for its bias."""
    axis, sizes = channel_axis(data_format), out_backprop.only(NUMERIC).sizes
    return Spec(out_backprop.dtype, TensorShape((None if sizes is None else sizes[axis],)))


@bias_add_grad.gradient
def _(op: Operation, dz: Tensor) -> Tensor:
    return bias_add(OPERATORS["zeros_like"](op.inputs[0]), dz, op.attrs["data_format"])


@bias_add_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype
    last = channel_axis(node.attrs["data_format"]) == -1
    wider = np.float32 if dtype in NARROW else dtype.np

    def total(dy: Array) -> Array:
        axes = tuple(range(dy.ndim - 1)) if last else (0, *range(2, dy.ndim))
        return dy.sum(axes, wider).astype(dtype.np, copy=False)

    return column_sums if last and xp is np and dtype in (float32, float64) else total


@bias_add_grad.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return elements(inputs[0])


def column_sums(x: Array) -> Array:
    """The sum over all axes but the last, of float32 or float64.

    A few rows are summed by a product with ones. Of many, some at a time are seen as one long row, for NumPy's cost per
    row; a product would do as well, but on the threads of its library, which hinder others for a while.
    """
    if not x.size:
        return np.zeros(x.shape[-1], x.dtype)
    rows = x.reshape(-1, x.shape[-1])
    count, channels = rows.shape
    if rows.size <= FEW:
        return ones(count, rows.dtype).dot(rows)
    some = min(max(1, ROW // channels), count)
    whole = count - count % some
    total = rows[:whole].reshape(-1, some * channels).sum(0).reshape(some, channels).sum(0)
    return total if whole == count else total + rows[whole:].sum(0)


def ones(count: int, dtype: np.dtype[Any]) -> Array:
    """That many ones: `x.dot(ones)` sums short rows in a third of the time that `x.sum(-1)` takes."""
    return _few_ones(count, dtype) if count <= LONGEST else np.ones(count, dtype)


@functools.lru_cache(maxsize=128)
def _few_ones(count: int, dtype: np.dtype[Any]) -> Array:
    made = np.ones(count, dtype)
    made.flags.writeable = False
    return made
