"""How far numbers spread, and how long they are as a vector, along axes."""

from collections.abc import Callable, Sequence

from aioflow.graph.building import same_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU, GPU, NARROW, costs, shape_vector, shaped_like
from aioflow.kernels.math.arithmetic import squared_difference
from aioflow.kernels.math.broadcasting import Axis, axes_of, reduced, spread
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.complex import real
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_mean
from aioflow.tensors.dtypes import NUMERIC, Array, Namespace, Spec


@op
def reduce_euclidean_norm(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The square root of the sum of the squares along the axes, of complex numbers of their moduli; 0 of nothing.

    Of integers an integer, the fraction cut off. The gradient is 0 where the norm is.
    """
    return input_tensor.only(NUMERIC).with_shape(reduced(input_tensor, axis, keepdims))


@reduce_euclidean_norm.gradient
def _(op: Operation, dy: Tensor) -> Tensor | None:
    x, y = op.inputs[0], op.outputs[0]
    if not x.dtype.is_differentiable:
        return None
    share = cast(div_no_nan(real(dy), real(y)), x.dtype)
    return x * shaped_like(x, spread(share, shape_vector(x), op.attrs["axis"], op.attrs["keepdims"]))


@reduce_euclidean_norm.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    axis, keep, dtype = node.attrs["axis"], bool(node.attrs["keepdims"]), node.output_specs[0].dtype
    axes = None if axis is None else axes_of(axis, node.input_specs[0].rank)
    wide = xp.float64 if dtype.is_integer else xp.float32 if dtype in NARROW else dtype.np

    def length(x: Array) -> Array:
        numbers = x.astype(wide, copy=False)
        squares = (numbers * numbers.conj()).real if dtype.is_complex else numbers * numbers
        return xp.sqrt(xp.sum(squares, axis=axes, keepdims=keep)).astype(dtype.np, copy=False)

    return length


costs(reduce_euclidean_norm, 2.0)


@transactional
def reduce_variance(
    input_tensor: NumberLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean squared distance from the mean along the axes, all if None; a real number. TypeError for integers."""
    x = convert_to_tensor(input_tensor)
    if not x.dtype.is_differentiable:
        raise TypeError(f"reduce_variance: the input must be real or complex, not {x.dtype.name}")
    with same_graph(x).name_scope(name or "reduce_variance") as scope:
        distance = squared_difference(x, reduce_mean(x, axis, keepdims=True))
        return reduce_mean(real(distance), axis, keepdims, name=scope)


@transactional
def reduce_std(
    input_tensor: NumberLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The standard deviation along the axes, all if None: the square root of `reduce_variance`."""
    x = convert_to_tensor(input_tensor)
    with same_graph(x).name_scope(name or "reduce_std") as scope:
        return sqrt(reduce_variance(x, axis, keepdims), name=scope)
