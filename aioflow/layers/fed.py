"""Batches: arrays that are fed, and the placeholders for them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import Array, DType, as_dtype, float32

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable


Keys = Sequence[str] | None


class Batch(NamedTuple):
    """Tensors that are fed, or the arrays for them.

    Attributes:
        inputs: those of the model.
        labels: one for each output; none where there are only inputs.
        weights: a factor for each element of the batch, or for each of its losses; None if all count the same.
        input_keys: the sorted keys of inputs that were given as a dict; None for others.
        label_keys: likewise those of labels.
    """

    inputs: Sequence[Any]
    labels: Sequence[Any] = ()
    weights: Any = None
    input_keys: Keys = None
    label_keys: Keys = None

    @property
    def values(self) -> list[Any]:
        """All of them."""
        return [*self.inputs, *self.labels, *([] if self.weights is None else [self.weights])]

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
        weights = "no weights" if self.weights is None else "weights"
        inputs = _counted("inputs", self.inputs, self.input_keys)
        return f"{inputs}, {_counted('labels', self.labels, self.label_keys)} and {weights}"

    def rows(self, rows: slice) -> "Batch":
        """Some of its elements, as views."""
        weights = None if self.weights is None else self.weights[rows]
        inputs = [array[rows] for array in self.inputs]
        return Batch(inputs, [array[rows] for array in self.labels], weights, self.input_keys, self.label_keys)

    def taken(self, numbers: Array) -> "Batch":
        """Its elements of these numbers, as copies: `take` copies short rows in a third of the time of an index."""
        weights = None if self.weights is None else self.weights.take(numbers, 0)
        inputs = [array.take(numbers, 0) for array in self.inputs]
        labels = [array.take(numbers, 0) for array in self.labels]
        return Batch(inputs, labels, weights, self.input_keys, self.label_keys)


def input_like(array: Any) -> Tensor:
    """A placeholder for batches like this array, or for values of a variable."""
    if isinstance(array, Variable):
        return placeholder(array.dtype, array.shape, name="value")
    return placeholder(as_dtype(array.dtype), [None, *array.shape[1:]], name="input")


class Form(NamedTuple):
    """The dtypes and sizes of the labels of batches that one set of placeholders takes, and those of their weights.

    Attributes:
        labels: a dtype and sizes for each output, None where a size may differ from batch to batch.
        weights: the sizes of the weights; None without weights.
    """

    labels: tuple[tuple[DType, tuple[int | None, ...]], ...]
    weights: tuple[int | None, ...] | None


def form_of(batch: Batch, outputs: Any) -> Form:
    """The form of a batch of arrays for a model with these outputs."""
    labels = [
        (as_dtype(array.dtype), _sizes(array, output))
        for array, output in zip(batch.labels, nest.flatten(outputs), strict=True)
    ]
    if batch.weights is None:
        return Form(tuple(labels), None)
    sizes = _sizes(batch.weights, nest.flatten(outputs)[0])
    return Form(tuple(labels), tuple([1 if size == 1 else None for size in sizes]))


def fed(model: "Trainable", form: Form) -> Batch:
    """Placeholders for batches of this form."""
    inputs = [placeholder(tensor.dtype, tensor.shape, name="x") for tensor in nest.flatten(model.inputs)]
    labels = [placeholder(dtype, sizes, name="labels") for dtype, sizes in form.labels]
    weights = None if form.weights is None else placeholder(float32, form.weights, name="sample_weight")
    return Batch(inputs, labels, weights)


def _counted(what: str, arrays: Sequence[Any], keys: Keys) -> str:
    """The number of arrays, and their keys, in words."""
    return f"{len(arrays)} {what}" + (f" ({', '.join(map(str, keys))})" if keys else "")


def check_keys(what: str, keys: Keys, wanted: Any) -> None:
    """Raise ValueError if arrays given by these keys do not tell which of the wanted tensors each is for."""
    expected = tuple(sorted(wanted)) if isinstance(wanted, Mapping) else None
    if keys is None or keys == expected or (expected is None and len(keys) == len(nest.flatten(wanted)) == 1):
        return
    given = f"{what} were given by the keys {', '.join(map(str, keys))}"
    if expected is None:
        raise ValueError(f"{given}, and the model has {what} without keys: give them in a list, in the model's order")
    raise ValueError(f"{given}, and those of the model are {', '.join(map(str, expected))}")


def _sizes(array: Any, output: Tensor) -> tuple[int | None, ...]:
    """The sizes of labels or weights: one is fixed if it is 1, or that of the output.

    Others may differ in each batch, and so may those of axes along which the size of the output is not known.
    """
    known = output.shape.as_list() if output.shape.ndims is not None else []
    beside = [*known, *[1] * (array.ndim - len(known))]
    pairs = zip(array.shape[1:], beside[1:], strict=False)
    return (None, *[size if size in (1, wanted) and wanted is not None else None for size, wanted in pairs])
