"""Batches: arrays that are fed, and the placeholders for them."""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import Array, DType, TensorShape, as_dtype, float32, float64

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable


Keys = Sequence[str] | None


class Batch(NamedTuple):
    """Tensors that are fed, or the arrays for them.

    Attributes:
        inputs: those of the model.
        labels: one for each output, None for one whose labels nothing reads; none where there are only inputs.
        weights: a factor for each element of the batch, or for each of its losses: one array of them for all outputs,
            or one for each output; none if all elements count the same. None in place of an array stands for ones.
        input_keys: the sorted keys of inputs that were given as a dict; None for others.
        label_keys: likewise those of labels.
        weight_keys: likewise those of weights.
    """

    inputs: Sequence[Any]
    labels: Sequence[Any] = ()
    weights: Sequence[Any] = ()
    input_keys: Keys = None
    label_keys: Keys = None
    weight_keys: Keys = None

    @property
    def values(self) -> list[Any]:
        """All of them."""
        return [*self.inputs, *[each for each in (*self.labels, *self.weights) if each is not None]]

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.inputs[0])

    def shares(self, count: int) -> "list[Batch]":
        """Its elements, divided into that many parts of nearly one size, the larger ones first."""
        if count == 1:
            return [self]
        bounds = [-(-self.size * number // count) for number in range(count + 1)]
        return [self.rows(slice(start, end)) for start, end in itertools.pairwise(bounds)]

    @property
    def parts(self) -> str:
        """The numbers of its arrays, and their keys, in words."""
        inputs, labels = (
            _counted("inputs", self.inputs, self.input_keys), _counted("labels", self.labels, self.label_keys),
        )  # fmt: skip
        weights = "weights" if self.weights else "no weights"
        if len(self.weights) > 1:
            weights = _counted("arrays of weights", self.weights, self.weight_keys)
        return f"{inputs}, {labels} and {weights}"

    def without_labels(self) -> "Batch":
        """Its inputs alone."""
        return Batch(self.inputs, input_keys=self.input_keys)

    def weights_of(self, output: int) -> Any:
        """The weights for the output of that number; None if all elements count the same."""
        if len(self.weights) < 2:
            return self.weights[0] if self.weights else None
        return self.weights[output]

    def rows(self, rows: slice) -> "Batch":
        """Some of its elements, as views."""
        return self._each(lambda array: array[rows])

    def taken(self, numbers: Array) -> "Batch":
        """Its elements of these numbers, as copies: `take` copies short rows in a third of the time of an index."""
        return self._each(lambda array: array.take(numbers, 0))

    def _each(self, part: Callable[[Any], Any]) -> "Batch":
        """A batch with that part of each array."""

        def parts(arrays: Sequence[Any]) -> list[Any]:
            return [None if array is None else part(array) for array in arrays]

        given = parts(self.inputs), parts(self.labels), parts(self.weights)
        return Batch(*given, self.input_keys, self.label_keys, self.weight_keys)


def value_of(variable: Variable) -> Tensor:
    """A placeholder for values of a variable."""
    return placeholder(variable.dtype, variable.shape, name="value")


def input_like(array: Any, dtype: DType) -> Tensor:
    """A placeholder for batches like this array, for a model of that dtype."""
    single = array.dtype == np.float64 and dtype is not float64
    return placeholder(float32 if single else as_dtype(array.dtype), [None, *array.shape[1:]], name="input")


def opened(tensor: Tensor, array: Any) -> TensorShape | None:
    """The shape of the tensor with open sizes where those of the array differ; its own object if none does.

    None if the array has another rank, or other features: the last axis of numbers that are no integers.
    """
    sizes, features = tensor.shape.sizes, tensor.dtype.is_floating or tensor.dtype.is_complex
    if sizes is None or array.ndim != len(sizes):
        return tensor.shape if sizes is None else None
    differs = [size not in (None, given) for size, given in zip(sizes, array.shape, strict=True)]
    if not any(differs):
        return tensor.shape
    if features and differs[-1]:
        return None
    return TensorShape([None if other else size for size, other in zip(sizes, differs, strict=True)])


class Form(NamedTuple):
    """The dtypes and sizes of the labels of batches that one set of placeholders takes, and those of their weights.

    Attributes:
        labels: a dtype and sizes for each output, None where a size may differ from batch to batch; None for an output
            without labels.
        weights: the sizes of each array of weights.
    """

    labels: tuple[tuple[DType, tuple[int | None, ...]] | None, ...]
    weights: tuple[tuple[int | None, ...], ...]


def form_of(batch: Batch, outputs: Any) -> Form:
    """The form of a batch of arrays for a model with these outputs."""
    flat = nest.flatten(outputs)
    labels = [
        None if array is None else (as_dtype(array.dtype), _sizes(array, output))
        for array, output in zip(batch.labels, flat, strict=True)
    ]
    sizes = [_sizes(array, output) for array, output in zip(batch.weights, flat, strict=False)]
    return Form(tuple(labels), tuple([tuple([1 if size == 1 else None for size in each]) for each in sizes]))


def fed(model: "Trainable", form: Form) -> Batch:
    """Placeholders for batches of this form."""
    inputs = [placeholder(tensor.dtype, tensor.shape, name="x") for tensor in nest.flatten(model.inputs)]
    labels = [None if each is None else placeholder(*each, name="labels") for each in form.labels]
    weights = [placeholder(float32, sizes, name="sample_weight") for sizes in form.weights]
    return Batch(inputs, labels, weights)


def _counted(what: str, arrays: Sequence[Any], keys: Keys) -> str:
    """The number of arrays, and their keys, in words."""
    return f"{len(arrays)} {what}" + (f" ({', '.join(map(str, keys))})" if keys else "")


def _sizes(array: Any, output: Tensor) -> tuple[int | None, ...]:
    """The sizes of labels or weights: one is fixed if it is 1, or that of the output.

    Others may differ in each batch, and so may those of axes along which the size of the output is not known.
    """
    known = output.shape.as_list() if output.shape.ndims is not None else []
    beside = [*known, *[1] * (array.ndim - len(known))]
    pairs = zip(array.shape[1:], beside[1:], strict=False)
    return (None, *[size if size in (1, wanted) and wanted is not None else None for size, wanted in pairs])
