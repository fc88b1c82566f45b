"""Declarations shared by many ops of one shape."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.tensors.dtypes import (
    COMPLEX,
    FLOAT,
    Array,
    DeviceKind,
    DType,
    Known,
    Namespace,
    Sizes,
    Spec,
    TensorShape,
    bool_,
    spec_of,
    string,
)
from aioflow.tensors.object_arrays import apply_ufunc

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
Unary = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The gradient of y = f(x): (y, x, dy) -> dx."""
Binary = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor | None, Tensor | None]]
"""The gradient of z = f(x, y): (z, x, y, dz) -> dx, dy before either is summed to its operand's shape."""

NARROW: Final = frozenset(dtype for dtype in FLOAT if dtype.size < 4)
"""Floating dtypes too coarse to compute in: sums and chains of them are computed as float32 and rounded once."""
SLOW: Final = 10.0
"""The cost of one element of a transcendental function, in additions."""
TEXT: Final = 1e4
"""The least cost of one string, in additions: Python handles the strings one by one."""
_OPEN_SIZE: Final = 32


def ufunc(made: Op[Tensor], name: str) -> None:
    """Declare the kernel of an op that is one ufunc of the array namespace."""

    @made.kernel(CPU, GPU, out=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Any]:
        function = getattr(xp, name)
        texts = node.input_specs[0].dtype is string
        return in_slices(function, node.output_specs[0].dtype) if texts else function


def in_slices(function: Callable[..., Any], dtype: DType) -> Callable[..., Any]:
    """A ufunc applied to arrays of strings one slice at a time, so that it releases the GIL between slices."""

    def call(*inputs: Array, out: Array | None = None) -> Array:
        made = apply_ufunc(function, dtype.np, *inputs)
        if out is None:
            return made
        out[...] = made
        return out

    return call


def product(xp: Namespace, x: Array, y: Array, out: Array | None = None) -> Array:
    """The product of x and y, with the same bits wherever it is written.

    NumPy rounds a single complex product otherwise where it is written over a factor.
    """
    if out is None or out.size != 1:
        return xp.multiply(x, y, out=out)
    out[...] = xp.multiply(x, y)
    return out


def elements(spec: Spec) -> float:
    """How many elements it has, for costs: an open size counts as 32, an unknown rank as one open axis."""
    count = 1
    for size in (None,) if spec.sizes is None else spec.sizes:
        count *= _OPEN_SIZE if size is None else size
    return float(count)


def costs(made: Op[Any], per_element: float) -> None:
    """Declare the cost, in additions, of each element of the first input, or of the output if that has more.

    A string costs at least TEXT.
    """

    def cost(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
        each = max(per_element, TEXT) if string in (inputs[0].dtype, outputs[0].dtype) else per_element
        return each * max(elements(inputs[0]), elements(outputs[0]))

    made.cost(cost)


def from_sizes(made: Op[Any]) -> None:
    """Declare that a result may have more elements than all inputs multiplied, as the square of a size."""

    @made.makes
    def _(inputs: Sequence[Array], attrs: Any) -> int:
        return sum([spec.bytes or 0 for spec in made.infer([spec_of(value) for value in inputs], attrs)])


def keeps_zeros(*ops: Op[Tensor]) -> None:
    """Declare that such an op of one tensor is 0 at 0, so that of a SparseTensor it is a SparseTensor."""
    for made in ops:
        made.of(SparseTensor)(lambda x, made=made: SparseTensor(x.indices, made(x.values), x.dense_shape))


def elementwise(
    name: str,
    gradient: Unary | str,
    doc: str,
    *families: frozenset[DType],
    kernel: str | None = None,
    slow: bool = False,
) -> Op[Tensor]:
    """An op of one tensor whose result has its shape and dtype.

    Args:
        name: the op's name.
        gradient: its gradient, or the reason why it has none.
        doc: its docstring.
        families: the dtypes it takes; floating and complex by default.
        kernel: the name of its ufunc in the array namespace, if different; "" if its kernel is declared separately.
        slow: whether an element costs much more than an addition.
    """
    allowed = families or (FLOAT, COMPLEX)

    def rule(x: Spec) -> Spec:
        return x.only(*allowed)

    rule.__doc__ = doc
    made = op(name=name, elementwise=True)(rule)
    if kernel != "":
        ufunc(made, kernel or name)
    if slow:
        costs(made, SLOW)
    if isinstance(gradient, str):
        made.no_gradient(gradient)
        return made
    build = gradient

    @made.gradient
    def _(op: Operation, dy: Tensor) -> Tensor:
        return build(op.outputs[0], op.inputs[0], dy)

    return made


def binary(
    name: str,
    gradient: Binary | str,
    doc: str,
    *families: frozenset[DType],
    kernel: str | None = None,
    commutative: bool = False,
    compares: bool = False,
    slow: bool = False,
    known: Callable[[Any, Any], int] | None = None,
) -> Op[Tensor]:
    """An op of two tensors of one dtype, with NumPy's broadcasting.

    Args:
        name: the op's name.
        gradient: its gradient, or the reason why it has none.
        doc: its docstring.
        families: the dtypes it takes.
        kernel: the name of its ufunc in the array namespace, if different; "" if its kernel is declared separately.
        commutative: whether x and y may be swapped.
        compares: whether the result is a bool.
        slow: whether an element costs much more than an addition.
        known: the same function of Python integers, so that sizes computed with it are known when the graph is built.
    """

    def rule(x: T, y: T) -> Spec:
        x.only(*families).same_dtype(y)
        dtype, shape = bool_ if compares else x.dtype, x.broadcast(y)
        value = None if known is None else _known(known, x, y)
        same = x.known is None and shape is x.shape and dtype is x.dtype
        return x if same and value is None else Spec(dtype, shape, value)

    rule.__doc__ = doc
    made: Op[Tensor] = op(name=name, commutative=commutative, elementwise=True)(rule)
    if kernel != "":
        ufunc(made, kernel or name)
    if slow:
        costs(made, SLOW)
    if isinstance(gradient, str):
        made.no_gradient(gradient)
    else:
        broadcast_gradient(made, gradient)
    return made


def broadcast_gradient(made: Op[Tensor], build: Binary) -> None:
    """Declare the gradient of a broadcasting op of two tensors; sums the results of `build` to the operands' shapes."""

    @made.gradient
    def _(op: Operation, dz: Tensor) -> Any:
        z, (x, y) = op.outputs[0], op.inputs
        dx, dy = build(z, x, y, dz)
        return (
            dx if stays(x, z) else sum_to_operand(x, dx, y),
            dy if stays(y, z) else sum_to_operand(y, dy, x),
        )


def _known(function: Callable[[Any, Any], int], x: Spec, y: Spec) -> Known:
    a, b = x.known, y.known
    if a is None or b is None or x.dtype.family not in ("signed", "unsigned"):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return fitting(_applied(function, a, b), x.dtype)
    length = max(len(v) for v in (a, b) if isinstance(v, tuple))
    left, right = _spread(a, length), _spread(b, length)
    return tuple([fitting(_applied(function, i, j), x.dtype) for i, j in zip(left, right, strict=True)])


def _spread(value: int | tuple[int | None, ...], length: int) -> tuple[int | None, ...]:
    items = value if isinstance(value, tuple) else (value,)
    return items * length if len(items) == 1 else items


def _applied(function: Callable[[Any, Any], int], a: int | None, b: int | None) -> int | None:
    try:
        return None if a is None or b is None else function(a, b)
    except ZeroDivisionError:
        return None


def fitting(value: int | None, dtype: DType) -> int | None:
    """`value` if the integer dtype holds it, else None: a value that wraps around is not tracked."""
    return value if value is not None and dtype.min <= value <= dtype.max else None


# Gradients under broadcasting


def sum_to_operand(operand: Tensor, gradient: Tensor | None, *others: Tensor) -> Tensor | None:
    """`gradient`, which has the broadcast shape, summed over the axes that `operand` was broadcast along.

    Args:
        operand: the tensor that gets the gradient.
        gradient: the gradient of the broadcast operand.
        others: the tensors that `operand` was broadcast with, if known: fewer cases are then decided in the run.
    """
    if gradient is None or stays(operand, gradient):
        return gradient
    return sum_along(operand, gradient, *[other.spec.sizes for other in others])


def sum_along(operand: Tensor, gradient: Tensor, *others: Sizes | None) -> Tensor:
    """The same, for others of these sizes: in ops of few nodes where open sizes leave no doubt."""
    axes = summed_axes(operand.spec.sizes, gradient.spec.sizes, *others)
    if axes is None:
        return shaped_like(operand, OPERATORS["sum_to_shape"](gradient, shape_vector(operand)))
    dropped, kept = axes
    if dropped:
        gradient = OPERATORS["reduce_sum"](gradient, tuple(range(dropped)))
    return shaped_like(operand, OPERATORS["reduce_sum"](gradient, kept, keepdims=True)) if kept else gradient


def stays(operand: Tensor, result: Tensor) -> bool:
    """Whether `operand` surely has the shape of `result`, so that broadcasting did nothing to it."""
    mine, whole = operand.spec.shape, result.spec.shape
    return mine is whole or (mine.is_fully_defined() and mine == whole)


def summed_axes(
    operand: Sizes | None, whole: Sizes | None, *others: Sizes | None
) -> tuple[int, tuple[int, ...]] | None:
    """How to sum from `whole` back to `operand`: the leading axes that go, then the axes that become 1.

    None if an open size leaves it to the run whether an axis was broadcast.
    """
    if operand is None or whole is None or len(operand) > len(whole):
        return None
    dropped = len(whole) - len(operand)
    kept = []
    for axis, (mine, size) in enumerate(zip(operand, whole[dropped:], strict=True)):
        if mine == 1 and size != 1:
            kept.append(axis)
        elif mine is None and size != 1 and not _sets_axis(len(operand) - axis, others):
            return None
    return dropped, tuple(kept)


def _sets_axis(from_end: int, others: Sequence[Sizes | None]) -> bool:
    """Whether all others leave the axis as it is: the operand alone gives its size."""
    return bool(others) and all(
        other is not None and (from_end > len(other) or other[-from_end] == 1) for other in others
    )


def shape_vector(tensor: Tensor) -> Any:
    """Its shape as data: a list where it is known, else the op."""
    shape: TensorShape = tensor.spec.shape
    return shape.as_list() if shape.is_fully_defined() else OPERATORS["shape"](tensor)


def shaped_like(operand: Tensor, result: Tensor) -> Tensor:
    """Record that `result` has the shape of `operand`, so that no reshape or sum follows it in doubt."""
    mine = operand.spec.shape
    if not result.spec.shape.is_fully_defined():
        whole = mine.merge_with(result.spec.shape)
        result.spec = Spec(result.spec.dtype, mine if whole == mine else whole)
    return result
