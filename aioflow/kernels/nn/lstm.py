"""An LSTM over all steps of a batch of sequences in one op, and its gradient.

Named as in PyTorch and ONNX. TensorFlow's BlockLSTM has one kernel for inputs and outputs, and peepholes; it saves the
same values for the gradient. `lstm_steps` computes the steps. The gradient of
the gradient is a loop, so `aioflow.library.lstm` declares it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat, split, stack
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.families import CPU, GPU, SLOW, elements
from aioflow.kernels.linalg.matmul import matmul, matrix_product
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn import lstm_steps, onednn_lstm
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, float32, float64, int32, merge_sizes

Function = Callable[..., tuple[Array, ...]]

ORDER: Final = "ifco"
"""The order of the gates in oneDNN, Keras and PyTorch."""
_SIZES: Final = {
    "x": "TNI", "kernel": "IG", "recurrent_kernel": "UG", "bias": "G", "h": "NU", "c": "NU",
    "outputs": "TNU", "gates": "3TNU", "gated": "3TNU",
}  # fmt: skip
"""The axes of each array: steps T, sequences N, inputs I, units U, gates G of four units each, and the three gates."""

_WRONG_LENGTHS: Final = "lengths are as many as the {} sequences, or none, and their shape is {}"


def _sizes(order: str, **given: Sequence[int | None] | None) -> dict[str, int | None]:
    """The size of each axis, from shapes as far as they are known. ValueError if they do not fit."""
    if sorted(order) != sorted(ORDER):
        raise ValueError(f"gates is an order of the four letters {ORDER!r}, not {order!r}")
    sizes: dict[str, int | None] = {**dict.fromkeys("TNIUG"), "3": 3}
    for name, known in given.items():
        if known is not None:
            _merge(sizes, name, known)
    units, width = sizes["U"], sizes["G"]
    if units is not None and width is not None and width != 4 * units:
        raise ValueError(f"{units} units have kernels of {4 * units} columns, not {width}")
    return sizes


def _merge(sizes: dict[str, int | None], name: str, known: Sequence[int | None]) -> None:
    """Add the sizes of one shape to those that are known. ValueError if they do not fit."""
    axes = _SIZES[name]
    if len(known) != len(axes):
        raise ValueError(f"{name} has rank {len(axes)}, and its shape is {list(known)}")
    for axis, size in zip(axes, known, strict=True):
        try:
            sizes[axis] = merge_sizes(sizes[axis], size)
        except ValueError:
            raise ValueError(f"{name} has shape {list(known)}, where {sizes[axis]} is wanted for {size}") from None


def _checked(order: str, lengths: Spec, **given: Spec) -> Callable[[str], Spec]:
    """From the letters of axes to the Spec of such an array. TypeError or ValueError for what does not fit."""
    first, *rest = given.values()
    dtype = first.only(frozenset({float32, float64})).dtype
    for spec in rest:
        spec.same_dtype(first)
    if lengths.dtype is not int32 or lengths.rank not in (None, 1):
        raise TypeError(f"lengths is a vector of int32, not {lengths.dtype.name} of shape {lengths.shape}")
    sizes = _sizes(order, **{name: spec.sizes for name, spec in given.items()})
    if lengths.sizes is not None and sizes["N"] is not None and lengths.sizes[0] not in (None, 0, sizes["N"]):
        raise ValueError(_WRONG_LENGTHS.format(sizes["N"], lengths.shape))
    units, width = sizes["U"], sizes["G"]
    sizes["U"] = width // 4 if units is None and width is not None else units
    sizes["G"] = 4 * units if width is None and units is not None else width
    return lambda axes: Spec(dtype, TensorShape([sizes[axis] for axis in axes]))


@op
def lstm(
    x: T, kernel: T, recurrent_kernel: T, bias: T, h: T, c: T, lengths: Spec, gates: str = ORDER
) -> tuple[Spec, Spec, Spec, Spec, Spec]:
    """The outputs of an LSTM at all steps, the last h and c, and what the gradient needs of all steps.

        i, f, c', o = split(x[t] @ kernel + h @ recurrent_kernel + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(c');   outputs[t] = h = sigmoid(o) * tanh(c)

    x is [steps, batch, inputs]. `gates` is the order of the columns of the kernels. A sequence ends at its length:
    later outputs are 0, h and c stay. Empty `lengths` say that all sequences have all steps. The gradient needs i, o
    and f after their functions, and the values that they multiply: tanh(c'), tanh(c) and the c before.
    """
    of = _checked(gates, lengths, x=x, kernel=kernel, recurrent_kernel=recurrent_kernel, bias=bias, h=h, c=c)
    return of("TNU"), of("NU"), of("NU"), of("3TNU"), of("3TNU")


@op
def lstm_grad(
    d_outputs: T, d_h: T, d_c: T, x: T, kernel: T, recurrent_kernel: T, bias: T, h: T, c: T, gate_values: T, gated: T,
    lengths: Spec, gates: str = ORDER,
) -> tuple[Spec, Spec, Spec]:  # fmt: skip
    """The gradients of `lstm` for the sums that are split into gates, in all steps, and for h and c.

    They are computed from what `lstm` gives for it. Gradients of the gradients need all inputs of `lstm`.
    """
    weights = {"kernel": kernel, "recurrent_kernel": recurrent_kernel, "bias": bias}
    of = _checked(gates, lengths, outputs=d_outputs, x=x, **weights, h=h, c=c, gates=gate_values, gated=gated)
    _checked(gates, lengths, outputs=d_outputs, h=d_h, c=d_c)
    return of("TNG"), of("NU"), of("NU")


# Kernels


def _check(order: str, lengths: Array, **arrays: Array) -> None:
    """Raise InvalidArgumentError for arrays that do not fit."""
    try:
        sizes = _sizes(order, **{name: array.shape for name, array in arrays.items()})
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{error}") from None
    if lengths.shape not in ((0,), (sizes["N"],)):
        raise errors.InvalidArgumentError(_WRONG_LENGTHS.format(sizes["N"], list(lengths.shape)))


def _forward(by: lstm_steps.Functions, node: NodeView) -> Function:
    order = node.attrs["gates"]

    def compute(
        x: Array, kernel: Array, recurrent_kernel: Array, bias: Array, h: Array, c: Array, lengths: Array
    ) -> tuple[Array, ...]:
        weights = {"kernel": kernel, "recurrent_kernel": recurrent_kernel, "bias": bias}
        _check(order, lengths, x=x, **weights, h=h, c=c)
        return lstm_steps.forward(by, order, x, tuple(weights.values()), (h, c), lengths)

    return compute


def _backward(by: lstm_steps.Functions, node: NodeView) -> Function:
    order = node.attrs["gates"]

    def compute(
        d_outputs: Array, d_h: Array, d_c: Array, x: Array, kernel: Array, recurrent_kernel: Array, bias: Array,
        h: Array, c: Array, gate_values: Array, gated: Array, lengths: Array,
    ) -> tuple[Array, ...]:  # fmt: skip
        made = {"recurrent_kernel": recurrent_kernel, "gates": gate_values, "gated": gated}
        _check(order, lengths, outputs=d_outputs, h=d_h, c=d_c, **made)
        gates = lstm_steps.Gates(gate_values, gated)
        return lstm_steps.backward(by, order, (d_outputs, d_h, d_c), recurrent_kernel, gates, lengths)

    return compute


@lstm.kernel(CPU, GPU, fresh=True, binds=True)
def _plain(xp: Namespace, node: NodeView) -> Function:
    return _forward(lstm_steps.Functions(xp, matrix_product(xp)), node)


@lstm_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _plain_gradient(xp: Namespace, node: NodeView) -> Function:
    return _backward(lstm_steps.Functions(xp, matrix_product(xp)), node)


onednn_lstm.declare((lstm, lstm_grad), (_forward, _backward), (_plain, _plain_gradient))


@lstm.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return _rows(inputs[0]) * (2 * elements(inputs[1]) + 2 * elements(inputs[2]) + SLOW * elements(inputs[3]))


@lstm_grad.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return _rows(inputs[3]) * (2 * elements(inputs[5]) + SLOW * elements(inputs[6]))


def _rows(x: Spec) -> float:
    """The number of steps of all sequences."""
    return elements(x) if x.sizes is None else elements(Spec(x.dtype, TensorShape(x.sizes[:2])))


# Gradient

lstm.gradient_takes_none = True


@lstm.gradient
def _(op: Operation, *dys: Tensor | None) -> tuple[Tensor | None, ...]:
    """One product gives the gradients of both kernels. That for x is no part of `lstm_grad`: often it is not needed."""
    if any(dy is not None for dy in dys[3:]):
        raise ValueError("the outputs for the gradient have no gradient themselves")
    *inputs, lengths = op.inputs
    (x, kernel, recurrent_kernel, _, h, _), (outputs, _, _, gates, gated) = inputs, op.outputs
    given = [zeros_like(end) if dy is None else dy for dy, end in zip(dys[:3], op.outputs[:3], strict=True)]
    d_gates, d_h, d_c = lstm_grad(*given, *inputs, gates, gated, lengths, **op.attrs)
    before = concat([expand_dims(h, 0), outputs], 0)[:-1]
    sizes = stack([shape(kernel)[0], shape(recurrent_kernel)[0]])
    rows = reshape(concat([x, before], 2), stack([-1, sizes[0] + sizes[1]]))
    whole = matmul(rows, reshape(d_gates, stack([-1, shape(kernel)[1]])), transpose_a=True)
    d_kernel, d_recurrent_kernel = split(whole, sizes, axis=0)
    d_x = matmul(d_gates, kernel, transpose_b=True)
    return d_x, d_kernel, d_recurrent_kernel, reduce_sum(d_gates, [0, 1]), d_h, d_c, None
