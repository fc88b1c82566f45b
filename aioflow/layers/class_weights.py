"""The weights of elements by their classes: `class_weight` of `fit`, for one output or by the names of several."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aioflow.layers.fed import Batch
from aioflow.layers.numbers import number
from aioflow.layers.part_names import Names, by_names
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr


def check_class_weight(given: Any) -> None:
    """Raise TypeError unless it is a dict from classes to factors, or a dict of such by the names of outputs."""
    if not isinstance(given, Mapping):
        raise TypeError(f"class_weight is a dict from classes to factors, not {safe_repr(given)}")
    for factors in given.values() if _is_by_output(given) else [given]:
        if factors is not None and not isinstance(factors, Mapping):
            raise TypeError(f"class_weight of an output is a dict from classes to factors, not {safe_repr(factors)}")
        for each, factor in (factors or {}).items():
            number("a class of class_weight", each)
            number(f"the factor of class {each}", factor)


def with_class_weights(batch: Batch, given: Mapping[Any, Any], outputs: Names) -> Batch:
    """The batch, which is in order, with its weights times those of classes.

    ValueError if there are several outputs and no names in `given`, or other ones.
    """
    if _is_by_output(given):
        chosen = by_names("class_weight", given, outputs)
    elif len(batch.labels) == 1:
        chosen = [given]
    else:
        raise ValueError(
            f"class_weight is for one output, and there are {len(batch.labels)}: give a dict of such dicts, by the "
            f"names of the outputs, which are {', '.join(outputs or ())}"
        )
    weights = [
        _weighted(batch.weights_of(output), labels, factors)
        for output, (labels, factors) in enumerate(zip(batch.labels, chosen, strict=True))
    ]
    return batch._replace(weights=weights)


def _is_by_output(given: Mapping[Any, Any]) -> bool:
    return any(isinstance(each, Mapping) for each in given.values())


def _weighted(weights: Array | None, labels: Array | None, factors: Mapping[int, float] | None) -> Array | None:
    """The weights of elements for an output; classes that `factors` does not have count once.

    ValueError if there are factors and no labels.
    """
    if labels is None:
        if factors:
            raise ValueError("class_weight has factors for an output without labels: it takes the classes from these")
        return weights
    wide = labels.ndim > 1 and labels.shape[-1] > 1
    classes = labels.argmax(-1) if wide else labels.reshape(len(labels), -1)[:, 0].astype(int)
    by_class = np.array([(factors or {}).get(int(each), 1.0) for each in classes], np.float32)
    return by_class if weights is None else weights * by_class.reshape(-1, *[1] * (weights.ndim - 1))
