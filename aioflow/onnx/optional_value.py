"""A tensor or a sequence that a run may leave out: the optional of ONNX whose content only the run knows."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import get_default_graph
from aioflow.graph.composites import COMPOSITES, Composite
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.control.assertions import Assert
from aioflow.library.tensor_array import TensorArray
from aioflow.tensors.dtypes import Array, Spec, string
from aioflow.tensors.object_arrays import full_array


class OptionalValue:
    """A tensor or a sequence, or nothing: a run decides.

    A run fetches it as an array, or a list of arrays, or as None, and is fed one the same way.

    Args:
        has_value: a bool, whether there is a value.
        value: the value; of no meaning if there is none.

    Examples:
        >>> nothing = af.onnx.OptionalValue(af.constant(False), af.zeros([2]))
        >>> something = af.onnx.OptionalValue(af.constant(True), af.ones([2]))
        >>> await session.run([nothing, something])
        [None, array([1., 1.], dtype=float32)]
    """

    def __init__(self, has_value: Tensor, value: Tensor | TensorArray) -> None:
        self.has_value: Final = has_value
        self.value: Final = value

    def get_value(self) -> Tensor | TensorArray:
        """Return the value. InvalidArgumentError, in the run, if there is none."""
        check = Assert(self.has_value, ["the optional has no value: look at has_value before"])
        with get_default_graph().control_dependencies([check]):
            if isinstance(self.value, TensorArray):
                return self.value.with_flow(identity(self.value.flow))
            return identity(self.value)

    def __repr__(self) -> str:
        return f"<af.onnx.OptionalValue {self.value!r}>"


def _tensors(optional: OptionalValue) -> Sequence[Tensor]:
    value = optional.value
    return optional.has_value, value.flow if isinstance(value, TensorArray) else value


def _joined(optional: OptionalValue, values: Sequence[Array]) -> Any:
    return values[1] if values[0] else None


def _split(optional: OptionalValue, given: Any) -> Sequence[Any]:
    if given is not None:
        return np.True_, given
    value = optional.value
    return np.False_, [] if isinstance(value, TensorArray) else _nothing(value.spec)


def _nothing(spec: Spec) -> Array:
    """An array of that dtype and shape, with open sizes of 0."""
    sizes = tuple([size or 0 for size in spec.sizes or ()])
    return full_array(sizes, b"") if spec.dtype is string else np.zeros(sizes, spec.dtype.np)


COMPOSITES[OptionalValue] = Composite(_tensors, _joined, _split)
