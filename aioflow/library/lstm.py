"""`af.nn.lstm`: all steps of an LSTM in one operation; and the gradient of its gradient, which is a loop."""

from collections.abc import Sequence

from aioflow.autodiff.aggregate import Gradient
from aioflow.autodiff.backward import differentiate
from aioflow.graph.building import get_default_graph
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.indexed_slices import dense
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.constants import constant, fill, identity, zeros
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import masked, select
from aioflow.kernels.array.shapes import expand_dims, shape, size
from aioflow.kernels.families import shaped_like
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.elementwise import sigmoid, tanh
from aioflow.kernels.nn import lstm as ops
from aioflow.library.functional import describing, scan
from aioflow.library.rnn import batch_size_of, checked_lengths
from aioflow.tensors.dtypes import int32
from aioflow.tensors.recursion import safe_repr


@describing
def lstm(
    x: NumberLike,
    kernel: NumberLike,
    recurrent_kernel: NumberLike,
    bias: NumberLike,
    h: NumberLike | None = None,
    c: NumberLike | None = None,
    sequence_length: NumberLike | None = None,
    gates: str = ops.ORDER,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs of an LSTM at all steps, and its last output h and memory c, computed by one operation.

        i, f, n, o = split(x[t] @ kernel + h @ recurrent_kernel + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(n);   outputs[t] = h = sigmoid(o) * tanh(c)

    With `sequence_length` each sequence of the batch ends at its own length: later outputs are zeros, h and c stay.

    Args:
        x: [steps, batch, size], float32 or float64.
        kernel: [size, 4 units].
        recurrent_kernel: [units, 4 units].
        bias: [4 units].
        h: the output before the first step, [batch, units]; zeros by default.
        c: the memory before the first step; zeros by default.
        sequence_length: the lengths [batch], integers; by default all sequences have all steps.
        gates: the order of the parts of the kernels: input gate i, forget gate f, candidate c, output gate o.
        name: the name of the operation.

    Examples:
        >>> units, x = 4, af.ones([5, 2, 3])
        >>> outputs, h, c = af.nn.lstm(x, af.zeros([3, 16]), af.zeros([4, 16]), af.ones([16]))
        >>> outputs.shape, h.shape
        (TensorShape([5, 2, 4]), TensorShape([2, 4]))
    """
    if not isinstance(gates, str):
        raise TypeError(f"gates is a text, an order of the four letters {ops.ORDER!r}, not {safe_repr(gates)}")
    sequences = convert_to_tensor(x)
    recurrent = convert_to_tensor(recurrent_kernel, preferred_dtype=sequences.dtype)
    batch = batch_size_of([sequences], 1)
    lengths = constant([], int32) if sequence_length is None else checked_lengths(sequence_length, batch)
    units = shape(recurrent)[0] if recurrent.spec.sizes is None else recurrent.shape[0].value or shape(recurrent)[0]
    first = [zeros([batch, units], sequences.dtype) if given is None else given for given in (h, c)]
    made = ops.lstm(sequences, kernel, recurrent, bias, *first, lengths, gates=gates, name=name)
    return made[0], made[1], made[2]


# The gradient of the gradient


ops.lstm_grad.gradient_takes_none = True


@ops.lstm_grad.gradient
def _(op: Operation, *dys: Tensor | None) -> list[Gradient | None]:
    """Those for what the gradient was computed from, as if it were computed from the inputs of the LSTM alone."""
    graph, given = get_default_graph(), [identity(tensor) for tensor in op.inputs[:9]]
    (x, kernel, recurrent_kernel, bias, *first), sums = given[3:], op.outputs[0]
    part = matmul(x, kernel) + bias
    part.set_shape(sums.shape)
    ends = _loop(part, recurrent_kernel, first, op.inputs[-1], op.attrs["gates"])
    made = differentiate(graph, ends, [part, *first], given[:3])
    pairs = [(dense(y), dy) for y, dy in zip(made, dys, strict=True) if y is not None and dy is not None]
    found = differentiate(graph, [y for y, _ in pairs], given, [dy for _, dy in pairs])
    return [*found, *[None] * 3]


def _loop(part: Tensor, recurrent_kernel: Tensor, first: Sequence[Tensor], lengths: Tensor, gates: str) -> list[Tensor]:
    """The outputs of all steps, and the last h and c, given the inputs' part of the gates, and the first h and c."""
    steps, batch = shape(part)[0], shape(part)[1]
    ends = concat([lengths, fill([batch - size(lengths)], steps)], 0)
    alive = expand_dims(less(expand_dims(number_range(steps), 1), ends), 2)

    def step(before: Sequence[Tensor], row: Sequence[Tensor]) -> tuple[Tensor, ...]:
        of_inputs, goes_on = row
        parts = split(of_inputs + matmul(before[0], recurrent_kernel), 4, axis=1)
        named = dict(zip(gates, parts, strict=True))
        c = sigmoid(named["f"]) * before[1] + sigmoid(named["i"]) * tanh(named["c"])
        after = sigmoid(named["o"]) * tanh(c), c
        return tuple([shaped_like(old, select(goes_on, new, old)) for new, old in zip(after, before, strict=True)])

    made = scan(step, (part, alive), tuple(first))
    last = [concat([expand_dims(old, 0), values], 0)[-1] for old, values in zip(first, made, strict=True)]
    return [masked(made[0], alive), *last]
