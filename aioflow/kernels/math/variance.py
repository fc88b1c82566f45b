"""The variance along some axes or all, and its square root."""

from aioflow.graph.building import same_graph, transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import squared_difference
from aioflow.kernels.math.complex import real
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import reduce_mean


@transactional
@dispatching
def reduce_variance(
    input_tensor: NumberLike, axis: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean squared distance from the mean along the axes, all if None; a real number. TypeError for integers.

    Examples:
        >>> await session.run(af.reduce_variance([1.0, 5.0]))
        np.float32(4.0)
    """
    x = convert_to_tensor(input_tensor)
    if not x.dtype.is_differentiable:
        raise TypeError(f"reduce_variance: the input must be real or complex, not {x.dtype.name}")
    with same_graph(x).name_scope(name or "reduce_variance") as scope:
        distance = squared_difference(x, reduce_mean(x, axis, keepdims=True))
        return reduce_mean(real(distance), axis, keepdims, name=scope)


@transactional
@dispatching
def reduce_std(
    input_tensor: NumberLike, axis: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The standard deviation along the axes, all if None: the square root of `reduce_variance`.

    Examples:
        >>> await session.run(af.reduce_std([1.0, 3.0]))
        np.float32(1.0)
    """
    x = convert_to_tensor(input_tensor)
    with same_graph(x).name_scope(name or "reduce_std") as scope:
        return sqrt(reduce_variance(x, axis, keepdims), name=scope)
