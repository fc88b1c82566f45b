"""Parameters of distributions: as tensors of one dtype, checked in the run where that was asked for."""

from collections.abc import Sequence

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.partition import broadcast_dynamic_shape
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.elementwise import log, log1p, negative, sigmoid
from aioflow.kernels.math.reduction import reduce_all
from aioflow.kernels.nn.softmax import softmax
from aioflow.library.control import with_dependencies
from aioflow.tensors.dtypes import FLOAT, Spec, float32


def floats(*given: NumberLike) -> list[Tensor]:
    """Tensors of one floating dtype: that of the first value that has a dtype, else float32.

    Raises:
        TypeError: the dtype is no floating one, or the dtypes differ.
    """
    typed = [value for value in given if hasattr(value, "dtype")]
    dtype = Spec(convert_to_tensor(typed[0]).dtype).only(FLOAT).dtype if typed else float32
    return [convert_to_tensor(value, dtype) for value in given]


def checked(validate_args: bool, tensor: Tensor, condition: Tensor, requirement: str) -> Tensor:
    """The tensor; with `validate_args`, a step in which the condition does not hold everywhere fails."""
    if not validate_args:
        return tensor
    found: Tensor = with_dependencies([Assert(reduce_all(condition), [requirement, tensor])], tensor)
    return found


def positive(validate_args: bool, tensor: Tensor, what: str) -> Tensor:
    """The tensor; with `validate_args`, a step in which an element is not above 0 fails."""
    return checked(validate_args, tensor, tensor > 0, f"{what} must be positive, not")


def logits_and_probs(
    logits: NumberLike | None, probs: NumberLike | None, validate_args: bool, classes: bool
) -> tuple[Tensor, Tensor]:
    """Log odds and probabilities from either: along the last axis for `classes`, else of each element.

    Raises:
        ValueError: both are given, or none.
    """
    if (logits is None) == (probs is None):
        raise ValueError("give either probs or logits, not both")
    if logits is not None:
        (odds,) = floats(logits)
        _check_rank(odds, classes, "logits")
        return odds, softmax(odds) if classes else sigmoid(odds)
    (chances,) = floats(probs)  # type: ignore[arg-type]
    _check_rank(chances, classes, "probs")
    inside = (chances >= 0) & (chances <= 1)
    chances = checked(validate_args, chances, inside, "probs must lie between 0 and 1, not")
    return log(chances) if classes else log(chances) - log1p(negative(chances)), chances


def _check_rank(tensor: Tensor, classes: bool, what: str) -> None:
    if classes and tensor.shape.ndims == 0:
        raise ValueError(f"{what} must have an axis of classes, and is a scalar")


def common_shape(tensors: Sequence[Tensor]) -> Tensor:
    """The shape that all the tensors broadcast to, as a vector."""
    found = shape(tensors[0])
    for tensor in tensors[1:]:
        found = broadcast_dynamic_shape(found, shape(tensor))
    return found


def spread(*tensors: Tensor) -> list[Tensor]:
    """The tensors, broadcast to the shape of all of them."""
    sizes = common_shape(tensors)
    return [broadcast_to(tensor, sizes) for tensor in tensors]


def whole(counts: Tensor) -> Tensor:
    """Whether each count is a whole number from 0 on."""
    return (counts >= 0) & equal(counts % 1, 0)
