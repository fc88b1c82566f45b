"""Where the extremes are."""

from collections.abc import Callable

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.kernels.math.broadcasting import reduced
from aioflow.tensors.dtypes import BOOL, FLOAT, INTEGER, Array, DType, Namespace, Spec, int32, int64


@op
def argmax(input: Spec, axis: int | None = None, name: str | None = None, output_type: DType = int64) -> Spec:
    """The index of the greatest element along one axis, 0 if None; the first of several.

    The first NaN counts as the extreme, as in NumPy; TensorFlow ignores NaN.

    Raises InvalidArgumentError where the axis is empty.
    """
    return _positions(input, axis, output_type)


@op
def argmin(input: Spec, axis: int | None = None, name: str | None = None, output_type: DType = int64) -> Spec:
    """The index of the smallest element along one axis, 0 if None; the first of several.

    The first NaN counts as the extreme, as in NumPy; TensorFlow ignores NaN.

    Raises InvalidArgumentError where the axis is empty.
    """
    return _positions(input, axis, output_type)


def _positions(x: Spec, axis: int | None, output_type: DType) -> Spec:
    if output_type not in (int32, int64):
        raise TypeError(f"output_type is int32 or int64, not {output_type.name}")
    axis = x.axis(axis or 0)
    if x.sizes is not None and x.sizes[axis] == 0:
        raise ValueError(f"axis {axis} of shape {x.shape} is empty")
    return Spec(output_type, reduced(x.only(FLOAT, INTEGER, BOOL), axis, False))


for _made in (argmax, argmin):
    _made.no_gradient("an index does not vary smoothly")
    costs(_made, 1.0)

    @_made.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView, name: str = _made.name) -> Callable[[Array], Array]:
        find, axis, dtype = getattr(xp, name), node.attrs["axis"] or 0, node.output_specs[0].dtype.np
        return lambda x: find(x, axis).astype(dtype, copy=False)


OPERATORS.update(argmax=argmax, argmin=argmin)
