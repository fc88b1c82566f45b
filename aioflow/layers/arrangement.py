"""The order and the precision in which a model takes the arrays of batches."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.layers.fed import Batch, Keys
from aioflow.layers.part_names import Names, by_names, input_names, output_names
from aioflow.tensors import nest
from aioflow.tensors.dtypes import float64

_DOUBLE: Final = np.dtype(np.float64).char


class Arrangement:
    """How arrays, labels and weights that may be given by names become those of the inputs and outputs of a model."""

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self._names: Final = input_names(inputs), output_names(outputs)
        self._inputs: Final = [tensor.dtype is float64 for tensor in nest.flatten(inputs)]
        self._outputs: Final = [tensor.dtype is float64 for tensor in nest.flatten(outputs)]

    def of(self, batch: Batch) -> Batch:
        """The batch in the order of the model; arrays of float64 as float32 but for inputs and outputs in float64.

        ValueError if there are other keys than names, or one is missing among those of inputs.
        """
        if batch.weights or batch.input_keys is not None or batch.label_keys is not None:
            batch = self._in_order(batch)
        if not any(self._inputs) and not any(map(_is_double, (*batch.inputs, *batch.labels))):
            return batch
        inputs = [_precise(array, double) for array, double in zip(batch.inputs, self._inputs, strict=True)]
        doubles = [*self._outputs, *[False] * len(batch.labels)]
        labels = [
            array if double else _precise(array, double) for array, double in zip(batch.labels, doubles, strict=False)
        ]
        return batch._replace(inputs=inputs, labels=labels)

    def _in_order(self, batch: Batch) -> Batch:
        """The batch without keys, with all weights."""
        (inputs, outputs), weights = self._names, batch.weights
        if batch.weight_keys is not None:
            weights = by_names("sample_weight", dict(zip(batch.weight_keys, weights, strict=True)), outputs)
        if any(each is None for each in weights):
            weights = [np.ones(batch.size, np.float32) if each is None else each for each in weights]
        labels, keys = batch.labels, batch.label_keys
        if keys is not None and len(keys) == len(labels):
            labels = by_names("the dict of labels", dict(zip(keys, labels, strict=True)), outputs)
        return Batch(_ordered(batch.inputs, batch.input_keys, inputs), labels, weights)


def _ordered(arrays: Sequence[Any], keys: Keys, names: Names) -> Sequence[Any]:
    """The inputs in the order of the names. ValueError if the keys are others."""
    if keys is None or names is None or list(keys) == names:
        return arrays
    if sorted(names) != list(keys):
        given = ", ".join(map(str, keys))
        raise ValueError(f"inputs were given by the keys {given}, and those of the model are {', '.join(names)}")
    found = dict(zip(keys, arrays, strict=True))
    return [found[name] for name in names]


def _is_double(array: Any) -> bool:
    return array is not None and array.dtype.char == _DOUBLE


def _precise(array: Any, double: bool) -> Any:
    """An array of float32 or float64 in the other one of these, if that is wanted."""
    if double:
        return array.astype(np.float64) if array.dtype == np.float32 else array
    return array.astype(np.float32) if _is_double(array) else array
