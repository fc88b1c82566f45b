"""The shapes of weights, one for all values or for each slice of them, and of labels, one for each prediction."""

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.shapes import Function, free
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors.dtypes import NUMERIC, Array, Namespace, Sizes, Spec


@op
def fitting_weights(weights: Spec, values: Spec) -> Spec:
    """`weights`, which fit `values`: a scalar, or of their rank and in each axis of size 1 or of their size.

    InvalidArgumentError if they do not fit.
    """
    if misfit(weights.sizes, values.only(NUMERIC).sizes):
        raise ValueError(f"weights of shape {weights.shape} do not fit values of shape {values.shape}: {_RULE}")
    return weights.only(NUMERIC)


@fitting_weights.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return dy, None


@fitting_weights.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    def checked(weights: Array, values: Array) -> Array:
        if misfit(weights.shape, values.shape):
            shapes = f"weights of shape {list(weights.shape)} do not fit values of shape {list(values.shape)}"
            raise ValueError(f"{shapes}: {_RULE}")
        return weights

    return checked


free(fitting_weights)

_RULE = "weights are a scalar, or have the rank of the values and in each axis size 1 or the size of the values"


def misfit(weights: Sizes | None, values: Sizes | None) -> bool:
    """Whether weights of that shape certainly do not fit values of that shape."""
    if not weights or values is None:
        return False
    if len(weights) != len(values):
        return True
    sizes = zip(weights, values, strict=True)
    return any(theirs is not None and mine not in (1, None, theirs) for mine, theirs in sizes)


@op
def same_shape(labels: Spec, predictions: Spec) -> Spec:
    """`labels`, which have the shape of the predictions. InvalidArgumentError if they have not.

    Without it, labels of size 1 where predictions have many would count as the label of all of them.
    """
    if not labels.shape.is_compatible_with(predictions.shape):
        shapes = f"labels of shape {labels.shape} do not fit predictions of shape {predictions.shape}"
        raise ValueError(f"{shapes}: there is one label for each prediction")
    return labels


@same_shape.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return dy, None


@same_shape.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    def checked(labels: Array, predictions: Array) -> Array:
        if labels.shape != predictions.shape:
            shapes = f"labels of shape {list(labels.shape)} do not fit predictions of shape {list(predictions.shape)}"
            raise ValueError(f"{shapes}: there is one label for each prediction")
        return labels

    return checked


free(same_shape)
