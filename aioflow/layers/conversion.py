"""Batches of arrays, made of what users give: arrays, lists, dicts, and tables of other libraries."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from aioflow.layers.fed import Batch
from aioflow.layers.located import located
from aioflow.tensors import nest
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import check_depth, safe_repr

AreInputs: TypeAlias = Callable[[int], bool]
"""Whether a batch that is a list of that many arrays has inputs alone; else it has inputs, labels and weights."""


def inputs_alone(count: int) -> bool:
    """Whether a list has inputs alone, where labels are given beside it: it has."""
    return True


def batch_of(given: Any, name: str = "the batch", are_inputs: AreInputs = inputs_alone) -> Batch:
    """A batch from inputs, or from a tuple of inputs, labels and weights. ValueError unless all have as many rows."""
    with located(name):
        parts = given if isinstance(given, tuple) or _has_labels(given, are_inputs) else (given,)
        if not 1 <= len(parts) <= 3:
            text = f"a batch is inputs, or a tuple of inputs, labels and weights, not one of {len(parts)} values"
            raise ValueError(text)
        batch = made_of(*(*parts, None, None)[:3])
    if not all(np.shape(array)[:1] > (0,) for array in batch.inputs):
        raise ValueError(f"{name} has no elements: a batch is arrays with one row or more")
    check_rows(batch, f"{name}: ")
    return batch


def _has_labels(given: Any, are_inputs: AreInputs) -> bool:
    """Whether it is a list of inputs, labels and weights, as the loaders of other libraries give."""
    may_have = isinstance(given, list) and 2 <= len(given) <= 3 and any(map(_is_array, nest.flatten(given)))
    return may_have and not are_inputs(len(given))


def made_of(inputs: Any, labels: Any, weights: Any) -> Batch:
    """A batch of structures of arrays. `labels` and `weights` may be None, and so may the labels of an output."""
    keys = [tuple(nest.sorted_keys(each)) if isinstance(each, Mapping) else None for each in (inputs, labels, weights)]
    marks = [] if labels is None else _arrays(labels, some=True)
    return Batch(_arrays(inputs), marks, _weights(weights, len(marks)), *keys)


def _weights(given: Any, outputs: int) -> list[Array | None]:
    """The weights of elements: by the sorted keys of a dict, or from a list with an array for each of several outputs.

    TypeError for anything but numbers.
    """
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [_factors(given[key]) for key in nest.sorted_keys(given)]
    several = isinstance(given, (list, tuple)) and outputs > 1 and len(given) == outputs
    if several and all(each is None or np.ndim(each) for each in given):
        return [_factors(each) for each in given]
    return [_factors(given)]


def _factors(weights: Any) -> Array | None:
    """The weights for an output; None for None. TypeError for anything but numbers."""
    if weights is None:
        return None
    array = _array(weights)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight is an array of numbers, not {safe_repr(weights)}")
    return array.astype(np.float32, copy=False)


def check_rows(batch: Batch, where: str = "") -> None:
    """Raise ValueError unless inputs, labels and weights have a row for each element."""
    if not all(array.ndim for array in batch.values):
        raise ValueError(
            f"{where}the first axis of inputs, labels and weights is the batch, and a single number has none"
        )
    counts = [len(array) for array in batch.values]
    if len(set(counts)) != 1:
        raise ValueError(f"{where}inputs, labels and weights have {counts} elements, and not all as many")


def is_list_of_batches(x: Any) -> bool:
    """Whether it is a list with tuples: these are batches."""
    return isinstance(x, list) and any(isinstance(item, tuple) for item in x)


def are_arrays(x: Any) -> bool:
    """Whether it is an array or a structure of arrays."""
    if is_list_of_batches(x):
        return False
    return all(_is_array(leaf) or isinstance(leaf, (int, float, str, bytes)) for leaf in nest.flatten(x))


def _is_array(value: Any) -> bool:
    """Whether it is an array, or a value of another library that NumPy takes as one, such as a table of pandas."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__")


def _arrays(structure: Any, some: bool = False) -> list[Any]:
    """The arrays of a structure; a list without any is one itself. With `some`, None in place of one stays.

    ValueError for a list whose items have different lengths.
    """
    if some and structure is None:
        return [None]
    whole = isinstance(structure, list) and structure and not any(_is_array(item) for item in structure)
    if whole or not nest.is_nested(structure):
        array = _array(structure)
        if array.dtype == object and not all(isinstance(each, (str, bytes)) for each in array.flat):
            raise TypeError(f"an array of numbers or text is wanted, not of objects: {safe_repr(structure)}")
        return [array]
    check_depth(structure)
    mapping = isinstance(structure, Mapping)
    items = [structure[key] for key in nest.sorted_keys(structure)] if mapping else structure
    return [array for item in items for array in _arrays(item, some)]


def _array(given: Any) -> Array:
    """The array. ValueError for lists of different lengths."""
    try:
        return np.asarray(given)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(
            f"the items of {safe_repr(given)} have different lengths, and an array has rows of one length: pad them, "
            "or give batches of equal lengths, as af.data.Dataset.padded_batch does"
        ) from None
